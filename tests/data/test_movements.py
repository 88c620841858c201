import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import motorcost as mc
from motorcost.data.joining import concatenate_movements
from motorcost.data.movements import Movements


def minimum_jerk(start, goal, duration=0.5, wait=0.3, rate=200.0):
    """A straight movement from `start` to `goal` after and before a wait: samples, times."""
    times = np.arange(round((duration + 2 * wait) * rate) + 1) / rate
    tau = np.clip((times - wait) / duration, 0, 1)
    path = 10 * tau**3 - 15 * tau**4 + 6 * tau**5
    return np.asarray(start) + path[:, None] * (np.asarray(goal) - start), times


def reaches(goals=((0.1, 0.0), (0.0, 0.2), (-0.3, 0.0)), start=(0.0, 0.0), **options):
    pairs = [minimum_jerk(start, goal, **options) for goal in goals]
    return Movements(
        samples=tuple(samples for samples, _ in pairs),
        times=tuple(times for _, times in pairs),
        channels={"x": "m", "y": "m"},
        conditions={"goal_x": np.array(goals)[:, 0], "goal_y": np.array(goals)[:, 1]},
        condition_units={"goal_x": "m", "goal_y": "m"},
    )


def recorded(samples, times, **rest):
    return Movements((np.asarray(samples, float),), (np.asarray(times, float),), **rest)


def test_they_tell_what_they_are():
    assert repr(reaches()) == (
        "Movements: 3 trials of 221 samples in 1.1 s (x m, y m) by goal_x, goal_y"
    )
    assert repr(reaches()[:0]) == "Movements: 0 trials (x m, y m) by goal_x, goal_y"
    assert reaches().labels == ("1", "2", "3")


def test_a_notebook_shows_a_table():
    movements = reaches().with_conditions(subject=["<b>", "b", "c"])
    html = movements.noted("cut & kept")._repr_html_()
    assert '<th scope="row">trials</th><td>3</td>' in html
    assert '<th scope="row">duration (s)</th><td>1.1</td>' in html
    assert '<th scope="row">channel x</th><td>m</td>' in html
    assert '<th scope="row">condition goal_x</th><td>-0.3 to 0.1 m</td>' in html
    assert "&lt;b&gt;, b, c" in html
    assert "cut &amp; kept" in html
    assert "<td>0</td>" in movements[:0]._repr_html_()


def test_trials_are_chosen():
    movements = reaches()
    assert movements[1:].labels == ("2", "3")
    assert movements[[2, 0]].conditions["goal_x"].tolist() == [-0.3, 0.1]
    kept = movements.keep(movements.conditions["goal_x"] >= 0, "reaches to the left")
    assert kept.labels == ("1", "2")
    assert kept.notes == ("1 of 3 trials left out: reaches to the left",)
    assert movements.keep(np.ones(3, bool), "none").notes == ()


def test_nothing_changes_in_place():
    movements = reaches()
    with pytest.raises(ValueError, match="read-only"):
        movements.samples[0][0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        movements.labels = ()


def test_channels_and_conditions_are_chosen_and_renamed():
    movements = reaches().rename(x="right", goal_x="goal_right")
    assert movements.channels == {"right": "m", "y": "m"}
    assert movements.condition_units == {"goal_right": "m", "goal_y": "m"}
    chosen = movements.select(["y", "right"], ["goal_y"])
    assert_array_equal(chosen.samples[0], reaches().samples[0][:, ::-1])
    assert list(chosen.conditions) == ["goal_y"]
    assert movements.with_conditions(load=[1, 2, 3]).conditions["load"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("old", "new", "factor"),
    [
        ("m", "mm", 1000), ("mm", "m", 0.001), ("cm", "in", 1 / 2.54), ("um", "mm", 0.001),
        ("km", "m", 1000), ("deg", "rad", np.pi / 180), ("rad/s", "deg/s", 180 / np.pi),
        ("cm/s", "mm/s", 10), ("mN", "N", 0.001), ("px", "px", 1),
    ],
)  # fmt: skip
def test_units(old, new, factor):
    before = dataclasses.replace(
        reaches(), channels={"x": old, "y": "m"}, condition_units={"goal_x": old, "goal_y": "m"}
    )
    after = before.in_units(x=new, goal_x=new)
    assert after.channels == {"x": new, "y": "m"}
    assert after.condition_units == {"goal_x": new, "goal_y": "m"}
    assert_allclose(after.samples[2], before.samples[2] * [factor, 1], rtol=1e-15)
    assert_allclose(after.conditions["goal_x"], before.conditions["goal_x"] * factor, rtol=1e-15)
    assert_array_equal(after.conditions["goal_y"], before.conditions["goal_y"])


def test_pixels_are_scaled():
    scaled = reaches().scaled(2.5, "cm", ["x", "goal_x"])
    assert scaled.channels == {"x": "cm", "y": "m"}
    assert_allclose(scaled.samples[0], reaches().samples[0] * [2.5, 1])
    assert_allclose(scaled.conditions["goal_x"], [0.25, 0, -0.75])


def test_cut_where_the_speed_of_a_minimum_jerk_movement_crosses_the_threshold():
    # Speed is D/T 30 tau^2 (1 - tau)^2, so tau (1 - tau) = sqrt(v T / (30 D)) at the crossings.
    duration, distance, threshold = 0.5, 0.2, 0.05
    root = np.sqrt(threshold * duration / (30 * distance))
    early = duration * (0.5 - np.sqrt(0.25 - root))
    cut = reaches([(0.0, distance)], rate=1000.0).cut(threshold)
    assert_allclose(cut.times[0][[0, -1]], [0.3 + early, 0.8 - early], atol=1.01e-3)
    assert cut.times[0][0] <= 0.3 + early
    assert cut.times[0][-1] >= 0.8 - early
    wider = reaches([(0.0, distance)], rate=1000.0).cut(threshold, margin=0.1)
    assert len(wider.times[0]) == len(cut.times[0]) + 200
    # A quarter of the peak, 15/8 D/T, is the speed 15/32 D/T.
    of_peak = reaches([(0.0, distance)], rate=1000.0).cut(fraction=0.25)
    same = reaches([(0.0, distance)], rate=1000.0).cut(15 / 32 * distance / duration)
    assert_allclose(of_peak.times[0], same.times[0], atol=1.01e-3)


def test_cut_skips_missing_samples_and_keeps_them():
    samples, times = minimum_jerk((0, 0), (0.2, 0), rate=100.0)
    gaps = samples.copy()
    gaps[50:53] = np.nan
    whole = recorded(samples, times, channels={"x": "m", "y": "m"}).cut(0.05)
    cut = recorded(gaps, times, channels={"x": "m", "y": "m"}).cut(0.05)
    assert_array_equal(cut.times[0], whole.times[0])
    assert np.isnan(cut.samples[0]).any(axis=1).sum() == 3


def test_cut_finds_the_movement_in_noise_with_smoothing():
    samples, times = minimum_jerk((0, 0), (0.2, 0), rate=500.0)
    noisy = samples + 2e-5 * (-1.0) ** np.arange(len(samples))[:, None]
    noisy[::3] += 2e-5
    movement = recorded(noisy, times, channels={"x": "m", "y": "m"})
    clean = recorded(samples, times, channels={"x": "m", "y": "m"}).cut(0.03)
    smooth = movement.cut(0.03, smooth=0.02)
    assert_allclose(smooth.times[0][[0, -1]], clean.times[0][[0, -1]], atol=0.012)


def test_cut_notes_what_it_left_out():
    movements = concatenate_movements([reaches(), reaches([(1e-6, 0.0)])])
    cut = movements.cut(0.05)
    assert len(cut) == 3
    assert cut.notes == ("1 of 4 trials left out: never faster than 0.05 m/s",)
    started = reaches([(0.1, 0.0)], wait=0.0).cut(0.05)
    assert started.notes == ()
    x = np.linspace(0, 1, 20)[:, None] ** 2
    running = recorded(x, np.arange(20) / 100, channels={"x": "m"})
    assert "starts or ends within the movement in 1 of 1" in running.cut(1.0, ["x"]).notes[0]


@pytest.mark.parametrize("angle", [0.0, 0.7, 2.0, -3.0])
def test_along_undoes_a_rotation(angle):
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    path = np.random.default_rng(0).normal(size=(7, 2))
    start, distance = np.array([3.0, -2.0]), 5.0
    goal = start + turn @ [distance, 0]
    movements = recorded(
        start + path @ turn.T,
        np.arange(7) / 10,
        channels={"x": "cm", "y": "cm"},
        conditions={"ax": start[0], "ay": start[1], "bx": goal[0], "by": goal[1]},
    )
    turned = movements.along(("bx", "by"), ("ax", "ay"))
    assert_allclose(turned.samples[0], path, atol=1e-14)
    assert turned.channels == {"position": "cm", "lateral": "cm"}
    assert_allclose(turned.conditions["target"], [distance])
    assert turned.condition_units["target"] == "cm"


def test_along_starts_with_the_first_sample_there_is():
    movements = recorded(
        [[np.nan, 1], [1, 1], [1, 3]],
        [0, 1, 2],
        channels={"x": "m", "y": "m"},
        conditions={"gx": 1.0, "gy": 5.0},
    )
    turned = movements.along(("gx", "gy"), names=("ahead", "aside"))
    assert_allclose(turned.samples[0], [[np.nan, np.nan], [0, 0], [2, 0]], atol=1e-15)
    assert turned.conditions["target"] == [4]
    assert list(turned.channels) == ["ahead", "aside"]


def test_centred_measures_from_where_each_trial_starts():
    movements = recorded(
        [[np.nan, 1, 7], [2, 1, 7], [2.5, 3, 7]],
        [0, 1, 2],
        channels={"x": "cm", "y": "cm", "pressure": "N"},
        conditions={"goal_x": 3.0, "goal_y": 5.0, "home_x": -1.0, "home_y": 0.5, "load": 2.0},
        condition_units={"load": "N"},
    )
    centred = movements.centred(("goal_x", "goal_y"))
    assert_allclose(centred.samples[0], [[np.nan, 0], [0, 0], [0.5, 2]])
    assert centred.channels == {"x": "cm", "y": "cm"}
    assert centred.conditions["target_x"] == [1]
    assert centred.conditions["target_y"] == [4]
    assert centred.condition_units["target_y"] == "cm"
    assert centred.condition_units["load"] == "N"
    assert set(centred.conditions) == {"home_x", "home_y", "load", "target_x", "target_y"}
    with_via = movements.with_conditions(via_x=2.5, via_y=0.0)
    via = with_via.centred(("goal_x", "goal_y")).conditions
    assert (via["via_x"], via["via_y"]) == ([0.5], [-1.0])
    # From a start that is given, and with goals that have the names of targets already.
    named = movements.rename(goal_x="target_x", goal_y="target_y")
    from_home = named.centred(("target_x", "target_y"), ("home_x", "home_y"))
    assert_allclose(from_home.samples[0][1:], [[3, 0.5], [3.5, 2.5]])
    assert from_home.conditions["target_x"] == [4]


def test_samples_at_the_models_rate_stay_as_they_are():
    x = np.random.default_rng(1).normal(size=(500, 2))
    x[7] = np.nan
    times = 12.34 + np.arange(500) * 0.01 * (1 + 1e-6)
    movements = recorded(x, times, channels={"x": "m", "y": "m"}, conditions={"load": "heavy"})
    trials = movements.trials(0.01)
    assert_array_equal(trials.observed[0], x)
    assert trials.channel_units == ("m", "m")
    assert trials.conditions["load"].tolist() == ["heavy"]


def test_a_slow_recording_leaves_steps_unobserved():
    movements = recorded([[1], [2], [3]], [5.0, 5.031, 5.059], channels={"x": "m"})
    expected = np.full(7, np.nan)
    expected[[0, 3, 6]] = [1, 2, 3]
    assert_array_equal(movements.trials(0.01).observed[0, :, 0], expected)
    _, notes = movements.on_grid(0.01)
    assert notes == ("samples are up to 0.001 s from their model step of 0.01 s",)


def test_a_fast_recording_gives_the_nearest_samples():
    times = np.array([0.0, 0.004, 0.009, 0.012, 0.018, 0.0215])
    movements = recorded(np.arange(6.0)[:, None], times, channels={"x": "m"})
    nearest = [np.argmin(np.abs(times - step)) for step in (0, 0.01, 0.02)]
    assert movements.trials(0.01).observed[0, :, 0].tolist() == nearest == [0, 2, 5]
    assert movements.on_grid(0.01)[1][0].startswith("3 samples left out: others are nearer")


def test_what_is_missing_at_the_ends_is_cut_off():
    x = np.array([[np.nan, np.nan], [1, np.nan], [np.nan, np.nan], [2, 2], [np.nan, np.nan]])
    movements = recorded(x, np.arange(5) * 0.1, channels={"x": "", "y": ""})
    assert_array_equal(movements.trials(0.1).observed[0], x[1:4])
    assert movements.on_grid(0.1)[1] == ("2 samples cut off: missing, at the ends of trials",)


def test_trials_too_short_for_the_model_are_left_out():
    movements = Movements(
        (np.ones((1, 1)), np.full((3, 1), np.nan), np.ones((2, 1)), np.ones((2, 1))),
        (np.zeros(1), np.arange(3.0), np.array([0, 0.001]), np.array([0, 0.1])),
        {"x": "m"},
        conditions={"load": [1, 2, 3, 4]},
    )
    trials = movements.trials(0.1)
    assert trials.conditions["load"].tolist() == [4]
    assert movements.on_grid(0.1)[1][:2] == (
        "1 of 4 trials left out: no sample",
        "2 of 4 trials left out: less than two model steps of 0.1 s",
    )
    with pytest.raises(mc.InputError, match="no trial has samples in two model steps"):
        movements[:3].trials(0.1)


def test_only_conditions_that_the_model_takes_travel():
    along = reaches().along(("goal_x", "goal_y"))
    trials = along.trials(0.005, conditions=["target"])
    assert list(trials.conditions) == ["target"]
    assert_allclose(trials.conditions["target"], [0.1, 0.2, 0.3])
    assert trials.channel_names == ("position", "lateral")
    assert_allclose(trials.observed[:, -1, 0], [0.1, 0.2, 0.3], atol=1e-12)


def test_sets_join():
    one = reaches().with_conditions(subject="a").noted("first")
    two = reaches([(0.5, 0.5)], rate=50.0).with_conditions(subject="bb").noted("second")
    both = concatenate_movements([one, two])
    assert len(both) == 4
    assert both.conditions["subject"].tolist() == ["a", "a", "a", "bb"]
    assert both.notes == ("first", "second")
    assert_array_equal(both.samples[3], two.samples[0])


def test_the_checksum_tells_changes_and_nothing_else():
    one = reaches()
    assert one.checksum() == reaches().noted("looked at").checksum()
    changed = [
        one[:2],
        one.scaled(1.0, "cm", ["x"]),
        one.rename(x="z"),
        one.with_conditions(goal_x=1.0),
        one.select(["y", "x"]),
        dataclasses.replace(one, times=tuple(time + 1 for time in one.times)),
    ]
    assert len({one.checksum(), *(other.checksum() for other in changed)}) == 7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.in_units(z="m"), "unknown channel or condition 'z'"),
        (lambda m: m.in_units(x="parsec"), "unknown unit 'parsec'"),
        (lambda m: m.in_units(x="deg"), "'x' is length in m: it cannot be in deg, which is angle"),
        (lambda m: m.scaled(1.0, "", ["x"]).in_units(x="m"), "'x' has no unit: say it when read"),
        (lambda m: m.scaled(1.0, "px", ["x"]).in_units(x="m"), "'x' is in px, which has no fixed"),
        (lambda m: m.scaled(0.0, "m", ["x"]), "factor must be positive"),
        (lambda m: m.with_conditions(c="a").scaled(2.0, "m", ["c"]), "'c' must be numbers"),
        (lambda m: m.cut(), "cut needs either a speed or a fraction"),
        (lambda m: m.cut(0.1, fraction=0.1), "cut needs either a speed or a fraction"),
        (lambda m: m.cut(fraction=1.5), "fraction must be below 1"),
        (lambda m: m.cut(9.0), r"fastest of 3 trials reaches 1.12 m/s, below speed=9"),
        (lambda m: m.cut(0.1, ["x", "speed"]), "unknown channel 'speed'"),
        (lambda m: m.in_units(x="mm").cut(0.1), "x, y must be in one unit, got mm, m"),
        (lambda m: m.along(("goal_x", "goal_z")), "unknown condition 'goal_z': did you mean"),
        (lambda m: m.in_units(goal_x="mm").along(("goal_x", "goal_y")), "'goal_x' is in mm, the"),
        (lambda m: m.with_conditions(goal_x=0.0, goal_y=0.0).along(("goal_x", "goal_y")),
         r"trial 1 starts at its goal, \(0, 0\)"),
        (lambda m: m.with_conditions(goal_x=np.nan).along(("goal_x", "goal_y")),
         r"goal_x, goal_y are missing in 3 of 3 trials \(1, 2, 3\): fill them in"),
        (lambda m: m.with_conditions(target=1.0).along(("goal_x", "goal_y")), "'target' already"),
        (lambda m: m.centred(("goal_x",)), "goal needs one condition for each of x, y, got goal_x"),
        (lambda m: m.with_conditions(target_x=1.0).centred(("goal_x", "goal_y")),
         "there is a condition 'target_x' already"),
        (lambda m: m.with_conditions(goal_x=0.0, goal_y=0.0).centred(("goal_x", "goal_y")),
         r"trial 1 starts at its goal, \(0, 0\): there is no way to go"),
        (lambda m: m.select(["x", "x"]), "channels must differ"),
        (lambda m: m.rename(x="y"), "channels and conditions must differ"),
        (lambda m: m.keep([1, 2], "no mask"), "true or false for each of 3 trials"),
        (lambda m: m[5], "cannot choose from 3 trials"),
        (lambda m: m[0], "by a slice or a list"),
        (lambda m: m.with_conditions(load=[1, 2]), "'load' must be one value or one for each of 3"),
        (lambda m: m.trials(0.01, ["load"]), "unknown condition 'load'"),
        (lambda m: m.trials(-1.0), "dt must be positive"),
        (lambda m: concatenate_movements([]), "there are no movements"),
        (lambda m: concatenate_movements([m, m.select(["x"])]), r"movements\[1\] has the channels"),
        (lambda m: recorded([[1]], [0, 1], channels={"x": ""}), r"trial 1: samples must have"),
        (lambda m: recorded([[1], [2]], [1, 0], channels={"x": ""}), "times finite and increasing"),
        (lambda m: Movements((), (np.ones(2),), {}), "samples, times and labels must be as many"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_line(call, message):
    with pytest.raises(mc.InputError, match=message) as caught:
        call(reaches())
    assert "\n" not in str(caught.value)


def test_trials_may_begin_before_their_first_sample():
    times = np.arange(10) * 0.01
    movements = mc.Movements(
        samples=(np.arange(10.0)[:, None],) * 2,
        times=(times, times + 3),
        channels={"position": "m"},
    )
    trials = movements.trials(0.01, lead=0.03)
    assert trials.lead_steps == 3
    assert trials.lengths.tolist() == [13, 13]
    assert_allclose(trials.observed[:, 3:, 0], [np.arange(10.0)] * 2)
    assert_allclose(trials.times[3], 0)
    with pytest.raises(mc.InputError, match="lead must be shorter than the shortest trial"):
        movements.on_grid(0.01, lead=0.2)
