"""A browser, a folder of recordings, and the page that serves it."""

import os
import re
import shutil
import signal
import subprocess
import sys

import jax
import pytest

import motorcost as mc

CHROMIUM = shutil.which("chromium")

# The command, which compiles searches as the tests do (see the tests' first conftest.py).
COMMAND = """
from motorcost import cli
from motorcost.numerics import compiling

compiling._CPU_OPTIONS["xla_backend_optimization_level"] = 0
cli.main()
"""

# A task of one's own, with a number of steps that no slider sets.
TASK = """
import motorcost as mc

@mc.tasks.declare(
    effort=mc.tasks.parameters(mc.tasks.reaching)["effort"],
    late=mc.tasks.Parameter("steps by which senses are late", "", "condition"),
)
def late(effort=1e-5, late=0, steps=12, dt=0.02):
    return mc.delay(mc.tasks.reaching(effort=effort, target=0.1, steps=steps, dt=dt), late)

def undeclared(effort=1e-5, steps=12, dt=0.02):
    return mc.tasks.reaching(effort=effort, steps=steps, dt=dt)
"""


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        # On a machine that tests every change, a skip would be read by nobody.
        leave = pytest.fail if os.environ.get("CI") else pytest.skip
        leave("NO BROWSER: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        # Without its sandbox, which a container's root cannot have; it opens this machine only.
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def recordings(tmp_path_factory):
    """A folder with a recording, a study, and beside it a file that no page may open."""
    outside = tmp_path_factory.mktemp("lab")
    folder = outside / "recordings"
    folder.mkdir()
    problem = mc.tasks.reaching(effort=2e-5, steps=12, dt=0.02, target=0.1)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=12, key=jax.random.key(4))
    mc.io.write_csv(trials, folder / "reaches.csv")
    mc.io.write_csv(trials, outside / "secret.csv")
    (folder / "broken.csv").write_text("trial,time,position\n1,0.0,abc\n")
    (folder / "notes.txt.exe").write_text("MZ")
    (folder / "study.toml").write_text(
        '[data]\nfile = "reaches.csv"\n[model]\ntask = "reaching"\n[free]\neffort = "usual"\n'
    )
    (folder / "own.py").write_text(TASK)
    (folder / "own.toml").write_text(
        'title = "Late reaches"\n[data]\nfile = "reaches.csv"\n'
        '[model]\ntask = "own.py:late"\ndelay = 3\nfixed = { late = 2 }\n'
        "[free]\neffort = [1e-7, 1e-3]\nrecording_noise = [1e-5, 1e-2]\n"
        '[observer]\nstates = "position"\nnoise = { position = 2e-3 }\n'
        '[fit]\nseed = 7\nstarts = 3\nmethod = "nelder-mead"\npriors = true\n'
        "[report]\nfolds = 0\nprofiles = false\n"
    )
    (folder / "outside.toml").write_text(
        '[data]\nfile = "../secret.csv"\n[model]\ntask = "reaching"\n[free]\neffort = "usual"\n'
    )
    return folder


@pytest.fixture(scope="module")
def address(recordings):
    """The address of a page that is served for a module of tests."""
    command = [sys.executable, "-c", COMMAND, "explore", str(recordings), "--no-browser"]
    served = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"}
    )
    found = re.search(r"http://127\.0\.0\.1:\d+/", served.stdout.readline())
    assert found, "the page was not served"
    yield found.group()
    served.send_signal(signal.SIGINT)
    served.stdout.close()
    assert served.wait(60) == 0
