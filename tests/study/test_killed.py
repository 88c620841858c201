"""`motorcost fit`, killed at any moment: the folder has the old result or the new one, and the next
run finishes. What a kill at each step of the writing leaves is in test_folder.py."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import jax
import pytest

import motorcost as mc
from motorcost.report import read_result

# The seconds after a line of the progress at which kills come; "" is the start of the process.
MOMENTS = {"": 3.0, "reading ...": 2.0, "searching ...": 3.0, "report ...": 4.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with recordings, and the fit of one seed."""
    folder = tmp_path_factory.mktemp("killed")
    problem = mc.tasks.reaching(steps=8, dt=0.03)
    observer = mc.observe(problem, ["position"], noise=1e-3)
    trials = mc.simulate(
        problem, mc.solve(problem), n_trials=14, key=jax.random.key(0), observer=observer
    )
    mc.io.write_csv(trials.with_conditions(target=0.1), folder / "trials.csv")
    with started(folder, seed=0) as process:
        _, errors = process.communicate()
    assert process.returncode == 0, errors
    (folder / "fit" / "notes.txt").write_text("mine")
    return folder


def started(folder, seed):
    """A fit as users run it; what was compiled is kept for the next."""
    command = ["fit", "trials.csv", "--task", "reaching", "--free", "effort", "--noise", "1e-3"]
    command += ["--starts", "2", "--quick", "--seed", str(seed), "-o", "fit"]
    return subprocess.Popen(
        [sys.executable, "-m", "motorcost", *command],
        cwd=folder,
        env=os.environ | {"MOTORCOST_CACHE": "on", "XDG_CACHE_HOME": str(folder / "cache")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def seed_in(folder):
    """The seed of the result, after a look that nothing is mixed."""
    result = read_result(folder / "fit")
    in_place = json.loads((folder / "fit" / "fit.json").read_text())
    page = folder / "fit" / "report.html"
    if page.exists():
        assert f"<li>seed {in_place['seed']}, method gradient</li>" in page.read_text()
    readme = folder / "fit" / "README.md"
    if readme.exists():
        assert f"--seed {in_place['seed']} " in readme.read_text()
    if not (folder / "fit" / ".next").exists():
        assert all((folder / "fit" / name).is_file() for name in result["files"])
        assert len(list((folder / "fit" / "figures").iterdir())) == len(result["files"]) - 2
    assert (folder / "fit" / "notes.txt").read_text() == "mine"
    assert result["interrupted"] is False
    return result["seed"]


@pytest.mark.slow
def test_killed_again_and_again(folder):
    moments = random.Random(0)
    was, ended = 0, []
    for run in range(1, 21):
        after = "" if run in (5, 15) else moments.choice(list(MOMENTS)[1:])
        with started(folder, seed=run) as process:
            line = None
            while after and line != after:
                line = process.stderr.readline().strip()
                assert process.poll() is None
            time.sleep(moments.uniform(0.0, MOMENTS[after]))
            process.kill()
            process.communicate()
        ended.append(process.returncode)
        now = seed_in(folder)
        assert now in (was, run)
        if process.returncode == 0:
            assert now == run
        was = now
    assert ended.count(-signal.SIGKILL) >= 15
    with started(folder, seed=99) as process:
        _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert seed_in(folder) == 99
    hidden = [path.name for path in (folder / "fit").iterdir() if path.name.startswith(".")]
    assert hidden == [".lock"]


@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_search_beside_a_finished_one_is_taken_up(folder, signal_number):
    was = seed_in(folder)
    with started(folder, seed=7) as process:
        while process.stderr.readline() != "searching ...\n":
            assert process.poll() is None
        time.sleep(0.3)  # the search has begun by then
        process.send_signal(signal_number)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("motorcost: interrupted: what there is lies in fit/i")
    assert seed_in(folder) == was
    assert read_result(folder / "fit" / "interrupted.json")["seed"] == 7
    with started(folder, seed=7) as process:
        _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert seed_in(folder) == 7
    notes = read_result(folder / "fit")["notes"]
    assert "went on from 2 searches that had been interrupted" in notes
    assert not (folder / "fit" / "interrupted.json").exists()
