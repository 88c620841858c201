import pickle
from pathlib import Path

import jax
import numpy as np
import pytest
import scipy.io
from numpy.testing import assert_allclose, assert_array_equal

import motorcost as mc
from motorcost.experiments import fig3, recorded_reaches
from motorcost.sweeps.identity import settings_of

DATA = Path(__file__).parents[3] / "shared" / "data" / "pointing"
TRUTH = {"effort": 1e-6, "velocity": 0.3, "force": 0.02}
STEPS, RANGE, NOISE = 40, 0.143, 3e-4  # 550 pixels
REST = 12  # samples before and after a movement, of 10 ms


@pytest.fixture(scope="module")
def positions():
    """Simulated reaches along a line, (trial, time) in metres each 10 ms, at rest before and after;
    with recording noise."""
    problem = mc.tasks.reaching(**TRUTH, target=RANGE, steps=STEPS)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=12, key=jax.random.key(3))
    x = np.asarray(trials.states)[:, :, 0]
    x = np.pad(x, ((0, 0), (REST, REST)), mode="edge")
    return x + np.random.default_rng(0).normal(0, NOISE, x.shape)


def write_pointing(folder, positions):
    """A file as the pointing data's: each trial out in one of five directions, and back."""
    rows, clock = ["# made by a test", "# player.x player.y ..."], 1000
    home = np.array(mc.datasets.HOME)
    for trial, x in enumerate(positions):
        angle = np.pi * (0.1 + 0.2 * (trial % 5))
        way = np.array([np.cos(angle), -np.sin(angle)])
        goal = home + RANGE / recorded_reaches.PIXEL * way
        out = home + x[::3, None] / recorded_reaches.PIXEL * way
        for course, target in ((out, goal), (out[::-1], home)):
            for point in course:
                numbers = [*point, clock, *target]
                rows.append(" ".join(f"{number:.2f}" for number in numbers) + " 52 0")
                clock += 30
    (folder / "cp01-1.dat").write_text("\n".join(rows), "latin-1")


def structs(entries):
    array = np.zeros((1, len(entries)), dtype=[(name, object) for name in entries[0]])
    for i, entry in enumerate(entries):
        for name, value in entry.items():
            array[0, i][name] = value
    return array


def write_dream(folder, positions):
    """A file as DREAM's of Flint et al.: the centre is shown, then one of eight targets, then
    none; three axes, of which one is empty. Every other reach is to the right."""
    centre = np.array([0.03, -0.31, np.nan])
    entries = []
    for trial, x in enumerate(np.repeat(positions, 2, axis=0)):
        angle = 0.0 if trial % 2 else np.pi / 4 * (1 + trial // 2 % 7)
        way = np.array([np.cos(angle), np.sin(angle), 0])
        # Before, the hand comes to the centre from afar, faster than it will reach.
        coming = np.linspace(1, 0, 6)[:, None] * np.array([-0.3, 0.1, 0])
        hand = np.concatenate([centre + coming, centre + x[:, None] * way])
        target = np.concatenate(
            [np.tile(centre, (10, 1)), np.tile(centre + RANGE * way, (len(x), 1))]
        )
        target = target[: len(hand)]
        target[-5:] = np.nan
        entries.append(
            {
                "Time": (17.0 + trial + 0.01 * np.arange(len(hand)))[:, None],
                "HandPos": hand,
                "TargetPos": target,
                "Neuron": structs([{"Spike": np.array([17.1])}, {"Spike": np.zeros(0)}]),
            }
        )
    subject = structs([{"Trial": structs(entries), "Species": "monkey"}])
    scipy.io.savemat(folder / "Flint_2012_e1.mat", {"Subject": subject})


def at_smoke(folder, **other):
    return {**fig3.EXPERIMENT.scales["smoke"], "data": folder, **other}


def run(at):
    (sweep,) = fig3.EXPERIMENT.sweeps(at)
    table = sweep.run()
    assert table["failed"].tolist() == [""]
    return table, table.iloc[0]


def assert_near_truth(row):
    # Cut where it is slow, a movement tells less of what its end cost: those may be further off.
    # Cut without the lead, effort would be a hundred times smaller and noise thrice too large.
    assert abs(np.log(row["effort_found"] / TRUTH["effort"])) < np.log(5)
    assert abs(np.log(row["velocity_found"] / TRUTH["velocity"])) < np.log(5)
    assert row["force_found"] < 5 * TRUTH["force"]
    assert row["recording_noise_found"] == pytest.approx(NOISE, rel=0.6)
    assert row["converged"]
    assert row["r2_position"] > 0.98
    assert 0.9 < row["r2_velocity"] <= 1


@pytest.mark.slow
def test_pointing_comes_back_and_is_drawn(tmp_path, positions):
    write_pointing(tmp_path, positions)
    at = at_smoke(tmp_path)
    table, row = run(at)
    assert (row["subject"], row["noise"], row["trials"]) == ("cp01-1", "fixed", 6)
    assert_near_truth(row)
    # The slices hold the estimate, and nothing along them is more probable.
    middle = at["points"] // 2
    for name in TRUTH:
        curve = np.array([row[f"{name}_{i}_nll"] for i in range(at["points"])])
        assert row[f"{name}_{middle}_at"] == pytest.approx(row[f"{name}_found"])
        assert curve[middle] == pytest.approx(-row["log_likelihood"], abs=1e-6)
        assert curve.min() > curve[middle] - 1e-4
    numbers = {number.name: number for number in fig3.EXPERIMENT.numbers(at, {"fig3": table})}
    effort = numbers["effort r (cp01-1, motor noise 0.5)"]
    assert effort.ours == row["effort_found"]
    assert effort.error == pytest.approx(row["effort_found"] * row["effort_se"])
    pictures = fig3.EXPERIMENT.draw(at, {"fig3": table})
    assert [picture.name for picture in pictures] == ["likelihoods", "movements"]
    assert all(len(picture.png) > 10_000 for picture in pictures)
    recorded, simulated = pictures[1].figure.axes[:2]
    assert len(recorded.lines) == len(simulated.lines) == 6
    for line in simulated.lines:
        assert line.get_ydata()[-1] == pytest.approx(RANGE, abs=0.03)


@pytest.mark.slow
def test_a_monkey_is_read_before_people_and_comes_back(tmp_path, positions):
    write_pointing(tmp_path, positions[:2])
    write_dream(tmp_path, positions)
    reaches = fig3.cut_out(fig3.recorded(tmp_path), 0.03)
    assert reaches.people == ["Flint_2012_e1/1"]
    assert len(reaches.subjects) == len(positions)
    assert_allclose(reaches.targets, RANGE, atol=5 * NOISE)
    assert ((reaches.lengths > STEPS - 12) & (reaches.lengths < STEPS + 8)).all()
    # What is left of a trial is a piece of what was simulated, from its own first sample.
    for samples, length, x in zip(reaches.samples, reaches.lengths, positions, strict=True):
        piece = samples[:length]
        fits = [
            np.allclose(x[i : i + length] - x[i], piece, atol=1e-9)
            for i in range(len(x) - length + 1)
        ]
        assert sum(fits) == 1
    _, row = run(at_smoke(tmp_path))
    assert row["subject"] == "Flint_2012_e1/1"
    assert_near_truth(row)


def test_only_whole_outward_movements_are_taken(tmp_path, positions):
    short = positions.copy()
    short[3] *= 0.4
    write_pointing(tmp_path, short)
    reaches = fig3.cut_out(fig3.recorded(tmp_path), 0.03)
    assert len(reaches.subjects) == len(positions) - 1
    assert_allclose(reaches.targets, RANGE, atol=0.004)
    assert_array_equal(reaches.samples[:, 0], 0)
    ends = [x[n - 1] for x, n in zip(reaches.samples, reaches.lengths, strict=True)]
    assert_allclose(ends, RANGE, atol=0.03)
    few = reaches.of("cp01-1", 3)
    assert len(few) == 3
    away = np.abs(reaches.lengths - np.median(reaches.lengths))
    assert np.abs(few.lengths - np.median(reaches.lengths)).sum() == np.sort(away)[:3].sum()


def test_a_lead_begins_earlier_and_ends_at_the_same_time(tmp_path, positions):
    write_pointing(tmp_path, positions)
    movements = fig3.recorded(tmp_path)
    bare, led = (fig3.cut_out(movements, lead) for lead in (0.0, 0.06))
    assert_array_equal(led.lengths, bare.lengths + 6)
    for short, long, n in zip(bare.samples, led.samples, bare.lengths, strict=True):
        assert_allclose(long[6 : 6 + n] - long[6], short[:n], atol=3e-5)  # but for the line's slant


def test_the_data_travel_with_the_function(tmp_path, positions):
    write_pointing(tmp_path, positions[:3])
    (sweep,) = fig3.EXPERIMENT.sweeps(at_smoke(tmp_path))
    again = pickle.loads(pickle.dumps(sweep.function))
    assert_array_equal(again.reaches[30].samples, sweep.function.reaches[30].samples)
    assert settings_of(again) == settings_of(sweep.function)
    assert str(tmp_path) not in repr(again)
    write_pointing(tmp_path, positions[1:4])
    (other,) = fig3.EXPERIMENT.sweeps(at_smoke(tmp_path))
    assert settings_of(other.function) != settings_of(sweep.function)


@pytest.mark.parametrize("given", ["nothing", "no such folder", "an empty folder"])
def test_what_is_needed_is_said(given, tmp_path):
    folder = {"nothing": None, "no such folder": tmp_path / "x", "an empty folder": tmp_path}[given]
    with pytest.raises(mc.InputError) as caught:
        fig3.EXPERIMENT.sweeps(at_smoke(folder))
    said = str(caught.value)
    assert "\n" not in said
    for name in ("flint2012", "pointing"):
        assert mc.datasets.describe(name).where in said
        assert mc.datasets.describe(name).files[0] in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda entry: entry | {"TargetPos": 100 * entry["TargetPos"]}, "needs targets in metres"),
        (lambda entry: entry | {"TargetPos": np.full((70, 3), np.nan)}, "right of the centre"),
        (lambda entry: entry | {"TargetPos": np.ones((1, 2))}, "needs shape"),
    ],
)
def test_monkeys_that_cannot_be_read(change, message, tmp_path, positions):
    write_dream(tmp_path, positions)
    file = tmp_path / "Flint_2012_e1.mat"
    trials = scipy.io.loadmat(file)["Subject"][0, 0]["Trial"][0]
    entries = [change({name: trial[name] for name in trial.dtype.names}) for trial in trials]
    scipy.io.savemat(file, {"Subject": structs([{"Trial": structs(entries)}])})
    with pytest.raises(mc.InputError, match=message):
        fig3.recorded(tmp_path)


def test_what_the_data_hardly_tell_is_said():
    row = {"converged": False, "at_bounds": "effort", "effort_found": 1e-11, "effort_se": np.inf}
    number = fig3._estimate("effort", row | {"effort_low": 0.0, "effort_high": 5e-9}, "effort")
    assert number.error is None
    assert number.note == (
        "the search did not converge; weakly determined by the data: 95 % interval 0 to 5e-09"
    )


needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"NOT TESTED ON REAL DATA: there is no {DATA}"
)


@needs_data
def test_people_as_recorded():
    reaches = fig3.cut_out(fig3.recorded(DATA), 0.03)
    assert [person[:4] for person in reaches.people[:6]] == [
        "cp01",
        "cp02",
        "cp03",
        "ap01",
        "ap02",
        "ap03",
    ]
    assert len(reaches.people) == 9
    trials = reaches.of("cp01-1")
    assert len(trials) == 45
    assert 0.09 < trials.conditions["target"].min() < trials.conditions["target"].max() < 0.2
    last = np.array([trials.observed[i, n - 1, 0] for i, n in enumerate(trials.lengths)])
    assert np.median(np.abs(last - trials.conditions["target"])) < 0.01


@needs_data
@pytest.mark.slow
def test_a_person_is_fitted():
    _, row = run(at_smoke(DATA, noises=("free",), baseline=True))
    assert row["converged"]
    assert 0.3 < row["motor_noise_found"] < 3
    assert 5e-4 < row["recording_noise_found"] < 5e-3
    assert row["log_likelihood"] > row["baseline"]
    assert row["r2_position"] > 0.9
