import contextlib
import ctypes
import gc
import os
import signal
import tempfile

# A shell lets its background jobs ignore Ctrl-C, which tests send to themselves and to others.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Compiling is most of what the tests do, and most of that is making fast code that runs once.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false",
)
# One arena for all threads: compilers of several threads would each keep what they freed. Heard by
# the workers that are started from here.
os.environ.setdefault("MALLOC_ARENA_MAX", "1")
# The command keeps programs in the user's cache folder, where tests have no business.
os.environ["MOTORCOST_CACHE"] = "off"

import jax
import jaxtyping
import pytest
from hypothesis import HealthCheck, settings

jax.config.update("jax_enable_x64", True)

# Files share many programs: what one compiled, the next reads from this process's own folder.
PROGRAMS = tempfile.TemporaryDirectory(prefix="motorcost-programs-")
jax.config.update("jax_compilation_cache_dir", PROGRAMS.name)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
jax.config.update("jax_logging_level", "CRITICAL")  # XLA prints pages when it reads a program

# Shapes in the package's signatures are checked at every call the tests make.
with jaxtyping.install_import_hook("motorcost", "beartype.beartype"):
    import motorcost  # noqa: F401

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


@pytest.fixture(scope="module", autouse=True)
def forget_compiled_programs():
    """Thousands of compiled programs in one process exhaust what the system will map."""
    yield
    jax.clear_caches()
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture
def as_users_call_it():
    """Without the check of signatures, so that the package's own checks are what answers."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
