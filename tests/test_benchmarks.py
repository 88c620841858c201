"""The straight way of the benchmarks gives the library's numbers, and the suite works. Nothing
here is timed."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def benchmarks_on_path():
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def straight():
    import straight

    return straight


@pytest.fixture(scope="module")
def cases():
    import cases

    return cases


def close(one, other, within=1e-9):
    """Beside the largest number of each array, for what is zero here is rounding there."""
    assert_allclose(one, other, rtol=0, atol=within * float(jnp.abs(other).max()))


def test_straight_solution_is_ours(straight, cases):
    problem = cases.Reaching().problem(cases.LOG_DEFAULTS)
    ours, theirs = mc.solve(problem), jax.jit(straight.solve)(problem)
    assert bool(theirs.converged)
    for name in ("L", "K", "expected_cost"):
        close(getattr(theirs, name), getattr(ours, name))


@pytest.mark.slow
def test_straight_solution_is_ours_with_every_noise(straight):
    problem = mc.tasks.random_problem(jax.random.key(3))()
    n, k = problem.A.shape[-1], problem.H.shape[1]
    problem = problem.replace(
        D=[0.1 * jnp.eye(k, n)], E=0.01 * jnp.eye(n), initial_state_cov=0.1 * jnp.eye(n)
    )
    ours, theirs = mc.solve(problem), jax.jit(straight.solve)(problem)
    for name in ("L", "K", "expected_cost"):
        close(getattr(theirs, name), getattr(ours, name))


def test_unrolled_solution_is_the_settled_one(straight, cases):
    problem = cases.Reaching().problem(cases.LOG_DEFAULTS)
    unrolled = jax.jit(straight.solve_unrolled)(problem)
    close(unrolled.L, jax.jit(straight.solve)(problem).L)


@pytest.mark.parametrize("delay", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_straight_likelihood_is_ours(cases, delay):
    case = cases.Reaching(delay=delay)
    given = cases.point() + 0.1, cases.recorded(case, 7)
    assert_allclose(jax.jit(case.straight)(*given), case.ours(*given), rtol=1e-9)


@pytest.mark.slow
def test_straight_gradient_is_ours(cases):
    case = cases.Reaching(steps=12)
    given = cases.point() + 0.1, cases.recorded(case, 5)
    ours = jax.jit(jax.grad(case.ours))(*given)
    close(jax.jit(jax.grad(case.straight_unrolled))(*given), ours, within=1e-7)


def test_straight_simulation_moves_as_ours(straight, cases):
    problem = cases.Reaching().problem(cases.LOG_DEFAULTS)
    policy = mc.solve(problem)
    states, *_ = jax.jit(straight.simulate, static_argnums=3)(
        problem, policy.L, policy.K, 2_000, jax.random.key(0)
    )
    expected = mc.moments(problem, policy)
    error = np.sqrt(np.diagonal(expected.state_cov[-1]) / len(states))
    assert (np.abs(states[:, -1].mean(axis=0) - expected.state_mean[-1]) <= 4 * error + 1e-12).all()


def test_straight_fit_climbs(straight):
    pytest.importorskip("pybobyqa")
    found = straight.fit(lambda x: -((x - 1.0) ** 2).sum(), [(-3.0, 3.0)] * 2, n_starts=2)
    assert_allclose(found.point, 1.0, atol=1e-5)
    assert found.evaluations > 0


def test_plain_lqg_model_is_what_its_text_says():
    import plain_lqg

    parts = plain_lqg.matrices(**plain_lqg.TRUTH)
    assert_allclose(parts["F"] @ parts["V"], 0.0)
    assert_allclose(parts["F"] @ parts["B"], 0.0)
    problem = plain_lqg.task(**plain_lqg.TRUTH)
    assert_allclose(problem.H[0], parts["F"] @ parts["A"])


def test_plain_lqg_likelihood_is_that_of_lqg():
    pytest.importorskip("lqg")
    import plain_lqg

    given = plain_lqg.TRUTH, plain_lqg.simulated(3, 20).observed
    assert_allclose(plain_lqg.ours(*given), plain_lqg.theirs(*given), rtol=1e-9)


def test_ratio_is_of_turns_and_differences_are_found():
    import timing

    turns = iter([2.0, 8.0, 1.0, 3.0, 1.0, 5.0])
    fake = timing.Comparison(
        "a", "b", lambda: (lambda: timing.Seconds(next(turns)),) * 2, repeats=3, cold=True
    )
    row = timing.compare(fake)
    assert (row.seconds, row.against_seconds, row.ratio) == (1.0, 5.0, 4.0)
    assert row.low <= row.ratio <= row.high

    different = timing.Comparison("a", "b", lambda: (lambda: 1.0, lambda: 1.1), agree=1e-3)
    with pytest.raises(AssertionError, match="a / b: results differ by"):
        timing.compare(different)


def test_quick_suite_writes_its_table(tmp_path):
    output = tmp_path / "suite.json"
    command = [sys.executable, str(BENCHMARKS / "suite.py"), "--quick", "--only", "solve"]
    done = subprocess.run([*command, "-o", str(output)], check=True, capture_output=True, text=True)
    found = json.loads(output.read_text())
    assert [row["what"] for row in found["rows"]] == ["solve"]
    assert found["rows"][0]["ratio"] > 0
    assert {"cpu", "cores", "versions", "date"} <= set(found["machine"])
    assert "solve" in done.stdout
    assert str(output) in done.stdout


def test_growth_is_drawn():
    import growth

    rows = [
        {"size": n, "seconds": 1e-3 * n, "peak_bytes": 10**8 + n, "data_bytes": 1200 * n}
        for n in (10, 100, 1_000)
    ]
    figure = growth.draw({"trials": rows, "steps": rows, "states": rows})
    labels = {ax.get_xlabel() for ax in figure.axes} | {ax.get_ylabel() for ax in figure.axes}
    assert {"trials", "time steps T", "time (s)", "memory (MiB)"} <= labels


@pytest.mark.slow  # minutes on an accelerator, half an hour on two cores
@pytest.mark.parametrize("name", ["field", "via-point", "senses"])
def test_intervals_of_planar_reaching_cover_the_truth(name):
    import interval_coverage as coverage

    case = coverage.CASES[f"planar reaching, {name}"]
    covered, rows = coverage.recovered(case, sets=100, n_trials=50, n_starts=4)
    assert rows["converged"].mean() > 0.97
    assert all(0.9 <= share <= 1.0 for share in covered.values()), covered
