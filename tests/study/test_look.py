import re
import subprocess
import sys

import numpy as np
import pytest

import motorcost as mc
from motorcost.study.preparation import prepared as study_prepared
from motorcost.study.suspicions import length


def reaches(n=12, distance=0.1, duration=0.5, dt=0.01, *, cut=0, noise=1e-4, spread=0.003):
    """Movements of minimum jerk from (0, 0) to goals around it."""
    rng = np.random.default_rng(0)
    t = np.arange(0, duration + dt / 2, dt)
    s = t / duration
    course = 10 * s**3 - 15 * s**4 + 6 * s**5
    angles = np.linspace(0, 2 * np.pi, n, endpoint=False)
    goals = distance * np.column_stack([np.cos(angles), np.sin(angles)])
    ends = goals + spread * rng.normal(size=goals.shape)
    samples = [(np.outer(course, end) + noise * rng.normal(size=(len(t), 2)))[cut:] for end in ends]
    return mc.Movements(
        samples=tuple(samples),
        times=(t[cut:],) * n,
        channels={"x": "m", "y": "m"},
        conditions={
            "target_x": goals[:, 0],
            "target_y": goals[:, 1],
            "subject": ["anna", "bert"] * (n // 2),
        },
        condition_units={"target_x": "m", "target_y": "m"},
    )


def write(movements, path):
    """A table with a row for each sample."""
    names = [*movements.channels, *movements.conditions]
    rows = [f"trial,time,{','.join(names)}"]
    for i, (label, samples) in enumerate(zip(movements.labels, movements.samples, strict=True)):
        values = ",".join(str(column[i]) for column in movements.conditions.values())
        for time, sample in zip(movements.times[i], samples, strict=True):
            rows.append(f"{label},{time:.6f},{','.join(map(str, sample))},{values}")
    path.write_text("\n".join(rows))


@pytest.fixture
def study(tmp_path):
    write(reaches(), tmp_path / "hand.csv")
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path / "study.toml"


STUDY = """\
[data]
file = "hand.csv"
units = { x = "m", y = "m", target_x = "m", target_y = "m" }
[prepare]
along = { goal = ["target_x", "target_y"] }
cut = { speed = 0.01, channels = ["position", "lateral"], smooth = 0.05, margin = 0.02 }
[model]
task = "reaching"
[free]
effort = "usual"
recording_noise = "usual"
[observer]
states = ["position"]
"""


def on_a_line(movements):
    turned = movements.along(("target_x", "target_y"))
    return turned.select(["position"], ["target"])


def test_nothing_looks_wrong_with_sound_reaches():
    look = mc.look(reaches())
    assert look.warnings == ()
    assert look.group_names == ("anna", "bert")
    assert "Nothing looks wrong." in look.summary()
    assert len(look) == 12


def test_a_study_is_looked_at_as_it_will_be_fitted(study):
    look = mc.look(study)
    assert look.warnings == ()
    assert [record.step for record in look.steps] == ["read", "along", "cut", "model"]
    trials, notes = mc.Study.read(study).trials()
    assert look.steps[-1].after == len(trials) == 12
    assert look.steps[-1].samples == int(np.isfinite(np.asarray(trials.observed)).sum())
    assert set(notes) == set(look.notes)
    assert list(look.movements.channels) == ["position", "lateral"]
    assert np.median(look.measures.end_error) < 0.01
    frame = look.to_frame()
    assert frame.loc["3", "subject"] == "anna"
    assert len(frame) == 12
    assert "<table>" in look._repr_html_()


def test_looking_compiles_nothing_and_loads_no_matplotlib(study):
    code = f"""
import sys, jax
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: compiled.append(event) if "backend_compile" in event else None
)
import motorcost as mc
look = mc.look({str(study)!r})
look.summary(), look.to_frame(), look._repr_html_()
print(compiled, "matplotlib" in sys.modules)
jax.jit(lambda x: x + 1)(1)
print(len(compiled) > 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\nTrue\n"


def test_a_picture_has_a_row_for_each_group():
    look = mc.look(reaches())
    figure = look.plot()
    assert len(figure.axes) == 6
    assert [ax.get_title(loc="left") for ax in figure.axes[::3]] == [
        "anna: 6 trials",
        "bert: 6 trials",
    ]
    ends = figure.axes[2].lines[1].get_xydata()
    np.testing.assert_allclose(ends, look.measures.ends[::2])


def shifted(movements):
    goals = movements.conditions
    return movements.with_conditions(target_x=goals["target_x"] + 0.05)


def still(movements):
    samples = [0.001 * s if i in (2, 5) else s for i, s in enumerate(movements.samples)]
    return movements.with_samples(samples, movements.times, movements.channels)


def slowed(movements):
    times = [4.0 * t if i == 3 else t for i, t in enumerate(movements.times)]
    return movements.with_samples(movements.samples, times, movements.channels)


def stopped(movements):
    """Two movements end after 40 % of the way."""
    samples = [0.4 * s if i in (2, 5) else s for i, s in enumerate(movements.samples)]
    return movements.with_samples(samples, movements.times, movements.channels)


def merged(movements):
    """Each trial with the one before it under its number."""
    pairs = list(zip(movements.samples[::2], movements.samples[1::2], strict=True))
    times = [np.concatenate([t, t + 4.0]) for t in movements.times[::2]]
    return movements[1::2].with_samples(
        [np.concatenate(pair) for pair in pairs], times, movements.channels
    )


def jumping(movements):
    times = [np.concatenate([t[:1], t[:1] + 1e-5, t[1:]]) for t in movements.times]
    samples = [np.concatenate([s[:1] + 0.05, s]) for s in movements.samples]
    return movements.with_samples(samples, times, movements.channels)


def times_scaled(movements, factor):
    times = [factor * t for t in movements.times]
    return movements.with_samples(movements.samples, times, movements.channels)


def shortened(movements):
    samples = [s[:30] for s in movements.samples]
    return movements.with_samples(samples, [t[:30] for t in movements.times], movements.channels)


def in_degrees(movements):
    return movements.scaled(1.0, "deg", ["x", "y", "target_x", "target_y"])


@pytest.mark.parametrize(
    ("movements", "said"),
    [
        (
            reaches().with_conditions(target_x=0.3, target_y=0.1),
            "cm from their goals, which are 31.6 cm from their starts: are goals in the frame",
        ),
        (shortened(reaches()), "% of the way: do trials hold whole movements, or were they cut"),
        (shifted(reaches()), "All miss by about (-0.05"),
        (reaches(cut=14), "movements are under way at the first sample"),
        (still(reaches()), "2 of 12 trials (3, 6) hardly move"),
        (slowed(reaches()), "but 1 of 12 trials (4) more than three times that (2 s): are"),
        (stopped(reaches()), "2 of 12 trials (3, 6) end before 50 % of the way to their goals"),
        (merged(reaches()), "6 of 6 trials (2, 4, 6, 8, 10, ...) have a pause of up to 3.5 s"),
        (jumping(reaches()), "12 of 12 trials (1, 2, 3, 4, 5, ...) jump from one sample"),
        (reaches(distance=100.0, spread=1.0), "movements cover 100 m: is that their unit? If the "),
        (reaches(distance=100.0, spread=1.0), 'say so, as in units = { x = "mm" }, and the units'),
        (on_a_line(reaches(distance=100.0, spread=1.0)), 'units = { position = "mm" }, and the'),
        (reaches(distance=1e-4, spread=1e-6, noise=1e-7), "movements cover 0.0001 m: is that"),
        (times_scaled(reaches(), 1e4), "trials last 5e+03 s: is the unit of time right"),
        (times_scaled(reaches(), 0.012), "cm in 0.006 s: are the units of length and of"),
        (in_degrees(reaches(distance=1e3, spread=1.0)), "movements cover 1e+03 deg: is that their"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_nothing_else(movements, said):
    (warning,) = mc.look(movements).warnings
    assert said in warning
    assert warning.endswith((".", "?"))
    assert "\n" not in warning


@pytest.mark.parametrize("movements", [slowed(reaches()), stopped(reaches())])
def test_trials_are_left_out_as_the_warning_says(movements):
    (warning,) = mc.look(movements).warnings
    (step,) = re.findall(r"write (\w+) = \{ (\w+) = ([\d.]+) \} in", warning)
    prepared = mc.Study((), "reaching", (), prepare=[(step[0], {step[1]: float(step[2])})]).prepare
    kept = study_prepared(movements, prepared).movements
    assert len(kept) == len(movements) - (2 if step[1] == "way" else 1)
    assert "left out" in kept.notes[-1]
    assert mc.look(kept).warnings == ()


def test_what_is_wrong_with_one_group_is_said_of_it():
    late, sound = reaches(cut=14), reaches(n=20)
    parts = [late.with_conditions(subject="anna"), sound.with_conditions(subject="bert")]
    (warning,) = mc.look(mc.concatenate_movements(parts)).warnings
    assert warning.startswith("anna: movements are under way at the first sample")


def test_a_speed_under_way_is_that_of_the_first_samples():
    (warning,) = mc.look(reaches(cut=14, noise=0.0)).warnings
    s = np.array([0.28, 0.32])
    course = 10 * s**3 - 15 * s**4 + 6 * s**5
    share = np.diff(course)[0] / 0.04 / 1.875
    assert f"their speed is {100 * share:.0f} % of its peak" in warning
    assert "in 12 of 12 trials" in warning
    assert "lead = 0.05 to 0.1 s" in warning


@pytest.mark.parametrize(
    ("angle", "said"),
    [(20, "or with y pointing the other way?"), (45, "and with y pointing the same way?")],
)
def test_ends_beside_the_way_to_the_goal_are_another_frame(angle, said):
    """Movements that were turned onto the line to a goal with y pointing the other way, which is
    at twice this angle from them."""
    sound = reaches(n=72)
    flipped = sound.with_conditions(target_y=-sound.conditions["target_y"])
    turned = flipped[[angle // 5, 36 + angle // 5]].along(("target_x", "target_y"))
    (line,) = [text for text in mc.look(turned).warnings if "from their goals" in text]
    assert line.endswith(said)
    short = shortened(sound).along(("target_x", "target_y"))
    assert not any("y pointing" in text for text in mc.look(short).warnings)


def test_a_stream_without_trials_is_told_to_number_them():
    parts = reaches(n=4)
    channels = {"x": "m", "y": "m", "target_x": "m", "target_y": "m"}
    goals = [[parts.conditions[f"target_{axis}"][i] for axis in "xy"] for i in range(4)]
    samples = np.concatenate(
        [
            np.column_stack([s, np.tile(g, (len(s), 1))])
            for s, g in zip(parts.samples, goals, strict=True)
        ]
    )
    stream = mc.Movements(
        samples=(samples,), times=(0.01 * np.arange(len(samples)),), channels=channels
    )
    (said, *_) = mc.look(stream).warnings
    assert "jump, and all is one trial" in said


def test_a_goal_that_jumps_within_a_trial_is_a_merged_trial(tmp_path):
    write(reaches(), tmp_path / "hand.csv")
    lines = (tmp_path / "hand.csv").read_text().splitlines()
    # Trials 1 and 2 under one number, and a clock that goes on.
    rows = [line.split(",") for line in lines[1:]]
    for number, row in enumerate(rows):
        row[0] = str((int(row[0]) + 1) // 2)
        row[1] = f"{0.01 * number:.2f}"
    (tmp_path / "hand.csv").write_text("\n".join([lines[0], *[",".join(row) for row in rows]]))
    look = mc.look(tmp_path / "hand.csv", reading={"conditions": []})
    assert any("target_x, target_y jump within a trial" in text for text in look.warnings)


def test_a_step_longer_than_the_time_constant(study):
    study.write_text(STUDY.replace('task = "reaching"', 'task = "reaching"\ndt = 0.05'))
    (warning,) = mc.look(study).warnings
    assert "the model's step of 0.05 s is longer than the time constant tau of 0.04 s" in warning
    assert "dt = 0.01" in warning
    study.write_text(study.read_text().replace("dt = 0.05", "dt = 0.05\nfixed = { tau = 0.06 }"))
    assert mc.look(study).warnings == ()


def test_a_target_that_the_trials_do_not_have(tmp_path):
    far = reaches(distance=0.5).rename(x="position").select(["position"], ["subject"])
    write(far[:1], tmp_path / "hand.csv")
    look = mc.look(tmp_path / "hand.csv", task="reaching")
    assert any("task's default target of 10 cm" in text for text in look.warnings)


def test_what_fit_would_refuse_is_a_warning(study):
    study.write_text(STUDY.replace('states = ["position"]', 'states = ["force"]'))
    (first,) = mc.look(study).warnings
    where = "study.toml, line 13: [observer] states"
    assert first.startswith(f"motorcost fit would refuse this: {where}: unknown channel 'force'")


def with_nothing_in(movements, trial):
    samples = list(movements.samples)
    samples[trial] = np.full_like(samples[trial], np.nan)
    return movements.with_samples(samples, movements.times, movements.channels)


def test_a_trial_without_samples_is_left_out_and_nothing_else_is_said_of_it(tmp_path):
    write(with_nothing_in(reaches(), 2), tmp_path / "hand.csv")
    look = mc.look(tmp_path / "hand.csv")
    assert look.notes == ("trial 3 left out: no sample of x, y",)
    assert look.warnings == ()
    assert look.movements.labels == ("1", "2", *map(str, range(4, 13)))
    both = mc.look(with_nothing_in(with_nothing_in(reaches(), 2), 4))
    assert both.notes == ("2 of 12 trials (3, 5) left out: no sample of x, y",)


def test_a_trial_without_samples_of_what_is_measured_is_not_measured():
    pressed = [np.column_stack([samples, np.ones(len(samples))]) for samples in reaches().samples]
    pressed[2][:, :2] = np.nan
    channels = {"x": "m", "y": "m", "force": "N"}
    look = mc.look(reaches().with_samples(pressed, reaches().times, channels))
    assert np.isnan(look.measures.duration).tolist() == [i == 2 for i in range(12)]
    assert look.warnings == ()


@pytest.mark.parametrize(("n", "said"), [(1, "is only 1 trial"), (5, "are only 5 trials"), (6, "")])
def test_few_trials_are_too_few_for_standard_errors(n, said):
    warnings = mc.look(reaches(cut=14)[:n]).warnings
    few = [text for text in warnings if text.startswith(f"there {said}: standard errors")]
    assert len(few) == (n < 6)
    assert any("under way" in text for text in warnings) == (n >= 4)


def test_a_first_speed_is_shown_as_a_size():
    look = mc.look(reaches().with_conditions(subject="anna"))
    assert (look.measures.first_speed < 0).any()
    shown = {name: values for name, *values in look.table()[1]}
    assert all(float(value) >= 0 for value in shown["first speed (% of peak)"])


def test_a_scale_that_made_the_unit_is_named(study):
    scale = 'scale = { factor = 0.26, unit = "m", names = ["x", "y", "target_x", "target_y"] }'
    raw = reaches(distance=0.12 / 0.26e-3, spread=1.0, noise=0.1)
    write(raw, study.parent / "hand.csv")
    text = re.sub("units = .*", "", STUDY).replace("[prepare]", f"[prepare]\n{scale}")
    study.write_text(text.replace("speed = 0.01", "speed = 10"))
    (warning,) = [text for text in mc.look(study).warnings if "is that their unit" in text]
    assert "The step scale of [prepare] says so: with factor = 0.00026 they cover 0.1" in warning
    assert "units =" not in warning


def test_a_look_at_some_of_the_trials(study):
    look = mc.look(study, only={"subject": "bert"}, trials="2:4")
    assert [record.step for record in look.steps] == [
        "read", "only", "along", "cut", "trials", "model",
    ]  # fmt: skip
    assert look.movements.labels == ("4", "6", "8")
    assert [record.left_out for record in look.steps] == [0, 6, 0, 0, 3, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "saccade"}, "task is part of the study"),
        ({"by": "hand"}, "unknown condition 'hand'"),
        ({"only": {"subject": "nobody"}}, "no trial has subject = nobody; there are anna, bert"),
        ({"trials": "9:3"}, "trials 9:3: the last must not come before the first"),
    ],
)
def test_a_look_that_cannot_be(study, arguments, message):
    with pytest.raises(mc.InputError, match=message):
        mc.look(study, **arguments)


def test_a_file_of_a_public_data_set_is_recognised(tmp_path):
    (tmp_path / "cp01-1.dat").write_text("1 2 3 4 5 6\n")
    with pytest.raises(mc.InputError, match="or is it of the data set pointing"):
        mc.look(tmp_path / "cp01-1.dat")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.2, "m", "20 cm"), (0.0021, "m", "2.1 mm"), (3.0, "m", "3 m"), (12.3, "deg", "12.3 deg"),
     (7.0, "", "7")],
)  # fmt: skip
def test_lengths_are_in_the_unit_that_people_use(value, unit, text):
    assert length(value, unit) == text
