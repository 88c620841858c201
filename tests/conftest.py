import contextlib
import ctypes
import functools
import gc
import os
import signal
from pathlib import Path

# A shell lets its background jobs ignore Ctrl-C, which tests send to themselves and to others.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Compiling is most of what the tests do, and most of that is making fast code that runs once.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
)
# The command keeps programs in the user's cache folder, where tests have no business.
os.environ["MOTORCOST_CACHE"] = "off"
# Of other processes that tests start, too.
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import jaxtyping
import pytest
from hypothesis import HealthCheck, settings

jax.config.update("jax_enable_x64", True)
# Tracing makes many objects that live long; looking through them for garbage is a tenth of it.
gc.set_threshold(200_000, 50, 100)


check_signature = jaxtyping.jaxtyped
inner_functions = set()


def check_inner_functions_once(function=None, *, typechecker):
    """The decorator of the import hook, except that a function that another one makes is checked
    only as it is made for the first time: it is made at every call of the other, in traced code
    for each program, and to make the check takes longer than to trace most of them."""
    if function is None:
        return functools.partial(check_inner_functions_once, typechecker=typechecker)
    code = getattr(function, "__code__", None)
    if code in inner_functions:
        return function
    if code is not None and "<locals>" in function.__qualname__:
        inner_functions.add(code)
    return check_signature(function, typechecker=typechecker)


# Shapes in the package's signatures are checked at every call the tests make.
jaxtyping.jaxtyped = check_inner_functions_once
with jaxtyping.install_import_hook("motorcost", "beartype.beartype"):
    import motorcost  # noqa: F401
    from motorcost.numerics import compiling

# A search is compiled with options of its own, which go before those above: in the tests it is
# compiled like everything else, in 60% of the time.
compiling._CPU_OPTIONS["xla_backend_optimization_level"] = 0

# The same examples on every run, so that a check against Monte Carlo error fails or passes for
# good; each new shape compiles, so time says nothing.
settings.register_profile(
    "motorcost",
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("motorcost")


# Compiled programs are forgotten once the process has this much memory, or this share of the
# mappings of it that the system allows. Files share few programs with each other and the tests of a
# file most of theirs: they are forgotten between files early, and within a file only when they
# must. A test adds up to 0.2 GB, and no process shall have more than 2 GB.
MOST_BYTES_BETWEEN_FILES = 1.3e9
MOST_BYTES = 1.7e9
MOST_MAPPINGS = 0.45


def pytest_collection_finish(session):
    """Leave what is imported by now, half a million objects, out of the search for garbage."""
    gc.collect()
    gc.freeze()


def forget_compiled_programs():
    """Drop what JAX compiled, and give its memory back to the system."""
    jax.clear_caches()
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def has_memory(most):
    """Whether the process has more bytes of memory than that; only Linux tells."""
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") > most
    return False


@pytest.fixture(scope="module", autouse=True)
def forget_between_files():
    yield
    if has_memory(MOST_BYTES_BETWEEN_FILES) or compiling.share_of_mappings() > MOST_MAPPINGS:
        forget_compiled_programs()


@pytest.fixture(autouse=True)
def forget_when_memory_is_full():
    yield
    if has_memory(MOST_BYTES):
        forget_compiled_programs()


@pytest.fixture
def without_drawing():
    """For tests of what is written beside the pictures: these are empty, and take no time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("matplotlib.figure.Figure.savefig", save_nothing)
        yield


def save_nothing(figure, file, **_):
    header = b"\x89PNG\r\n\x1a\n"
    if isinstance(file, str | Path):
        Path(file).write_bytes(header)
    else:
        file.write(header)


@pytest.fixture
def as_users_call_it():
    """Without the check of signatures, so that the package's own checks are what answers."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
