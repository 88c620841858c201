import contextlib
import re
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.fitting.specification import make_objective
from motorcost.study.settings import Study
from motorcost.study.template import study_template

STUDY = """\
title = "Reaches"

[data]
file = "trials.csv"
units = { position = "m", target = "m" }

[prepare]
least = { duration = 0.1 }

[model]
task = "reaching"
fixed = { motor_noise = 0.5 }

[free]
effort = "usual"
velocity = [1e-3, 10]
force = { median = 0.02, sd = 1.0 }

[observer]
states = ["position"]
noise = 1e-3

[fit]
seed = 3
starts = 2
method = "gradient"
priors = true

[report]
folds = 2
bootstrap = 0
baselines = false
profiles = false
"""
SEEN = mc.ObserverSpec(["position"], noise=1e-3)


@pytest.fixture(scope="module")
def simulated():
    problem = mc.tasks.reaching(steps=8, dt=0.03)
    trials = mc.simulate(
        problem, mc.solve(problem), n_trials=14, key=jax.random.key(0), observer=SEEN(problem)
    )
    return trials.with_conditions(target=0.1, subject=["anna", "bert"] * 7)


@pytest.fixture
def study_file(tmp_path):
    def write(text=STUDY):
        (tmp_path / "study.toml").write_text(text, "utf-8")
        return tmp_path / "study.toml"

    return write


def options(**changed):
    """A study made without a file."""
    return Study(**({"task": mc.tasks.reaching, "free": {"effort": None}} | changed))


def log_likelihood(trials):
    def at(steps, target):
        problem = mc.tasks.reaching(steps=steps, dt=0.03, target=target)
        return problem, SEEN(problem)

    conditions = {"target": trials.conditions["target"]}
    kept = mc.Trials(trials.observed, trials.times, channels={"position": "m"},
                     lengths=trials.lengths, conditions=conditions)  # fmt: skip
    return float(mc.log_likelihood(at, kept))


def test_a_study_file_says_everything(study_file):
    study = Study.read(study_file())
    assert study.title == "Reaches"
    assert study.task is mc.tasks.reaching
    assert study.fixed == {"motor_noise": 0.5}
    assert study.free == {
        "effort": None,
        "velocity": mc.LogUniform(1e-3, 10.0),
        "force": mc.LogNormal(0.02, 1.0),
    }
    assert study.prepare == (("least", {"duration": 0.1}),)
    assert (study.states, study.noise, study.dt) == (("position",), 1e-3, None)
    assert study.lead == (0.0,)
    assert (study.seed, study.starts, study.method, study.priors) == (3, 2, "gradient", True)
    assert (study.folds, study.bootstrap, study.baselines, study.profiles) == (2, 0, False, False)


def test_a_study_in_python_takes_plain_arguments(study_file, tmp_path):
    study = Study("trials.csv", "reaching", ["effort", "force"], states=["position"])
    assert study.files == (Path("trials.csv"),)
    assert (study.task, study.task_name) == (mc.tasks.reaching, "reaching")
    assert study.free == {"effort": None, "force": None}
    assert study.states == ("position",)
    assert Study([Path("a.csv"), "b.csv"], mc.tasks.saccade, ["effort"]).task_name == "saccade"
    assert replace(study, profiles=False) == Study(
        "trials.csv", "reaching", ["effort", "force"], states=["position"], profiles=False
    )
    by_file = replace(Study.read(str(study_file())), title="")
    by_hand = Study(
        tmp_path / "trials.csv",
        "reaching",
        {"effort": None, "velocity": mc.LogUniform(1e-3, 10.0), "force": mc.LogNormal(0.02, 1.0)},
        reading={"units": {"position": "m", "target": "m"}},
        prepare=[("least", {"duration": 0.1})],
        fixed={"motor_noise": 0.5},
        states=["position"],
        noise=1e-3,
        seed=3,
        starts=2,
        priors=True,
        folds=2,
        baselines=False,
        profiles=False,
    )
    assert by_file == by_hand


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"task": "reeching"}, "unknown task 'reeching': did you mean reaching"),
        ({"free": "effort"}, r"free must be a list of names: free=\['effort'\]"),
        ({"states": "position"}, r"states must be a list of names: states=\['position'\]"),
        ({"method": "newton"}, "unknown method 'newton'"),
        ({"dataset": "pointin"}, "unknown data set 'pointin': did you mean pointing"),
        ({"bootstrap": 1}, "bootstrap must be 0"),
        ({"prepare": [("cutt", {})]}, "unknown step 'cutt': did you mean cut"),
        (
            {"prepare": [("cut", {"sped": 1})]},
            "the step cut cannot be done: .* 'sped'",
        ),
    ],
)
def test_a_study_in_python_that_cannot_be_is_refused(changed, message):
    with pytest.raises(mc.InputError, match=message):
        options(**({"files": "trials.csv"} | changed))


@pytest.mark.parametrize(
    ("free", "message"),
    [
        ("efort", "unknown parameter 'efort': did you mean effort"),
        ("recording_noise_x", "unknown parameter 'recording_noise_x': did you mean"),
        ("delay", "delay cannot be free"),
    ],
)
def test_names_of_what_is_free_are_checked_before_anything_is_read(free, message):
    with pytest.raises(mc.InputError, match=message):
        mc.analyse(options(files="absent.csv", free=[free]))


def test_a_study_without_files_cannot_be_read():
    with pytest.raises(mc.InputError, match="the study has no files to read"):
        options(files=[]).movements()


@pytest.mark.parametrize(
    ("suffix", "write"),
    [
        ("csv", mc.io.write_csv),
        ("parquet", mc.io.write_parquet),
        ("npz", mc.io.write_npz),
        ("mat", mc.io.write_mat),
    ],
)
def test_what_is_written_reads_back_with_the_same_likelihood(simulated, tmp_path, suffix, write):
    file = tmp_path / f"trials.{suffix}"
    write(simulated, file)
    trials, notes = options(files=(file,)).trials()
    assert trials.channel_names == ("position",)
    assert_allclose(trials.observed, simulated.observed, rtol=0, atol=0)
    assert_allclose(log_likelihood(trials), log_likelihood(simulated), rtol=1e-12)
    assert "the model steps by 0.03 s, as the recording does" in notes
    assert "no units were given; taken for granted: position in m, target in m" in notes


def test_a_channel_called_like_a_parameter_is_in_the_unit_of_the_state(tmp_path):
    """Reaching has a state `velocity` (m/s) and a parameter `velocity`, a weight (s)."""
    problem = mc.tasks.reaching(steps=8, dt=0.03)  # as `simulated`
    seen = mc.ObserverSpec(["position", "velocity"], noise=1e-3)
    trials = mc.simulate(
        problem, mc.solve(problem), n_trials=3, key=jax.random.key(2), observer=seen
    )
    mc.io.write_csv(trials, tmp_path / "v.csv")
    file = (tmp_path / "v.csv",)
    bare, notes = options(files=file, states=None).trials()
    assert any("velocity in m/s" in note for note in notes)
    scaled, _ = options(files=file, states=None, reading={"units": {"velocity": "mm/s"}}).trials()
    at = bare.channel_names.index("velocity")
    assert_allclose(scaled.observed[..., at], 1e-3 * bare.observed[..., at], rtol=1e-12)


def test_several_files_are_several_subjects(simulated, tmp_path):
    alone = simulated.with_conditions(target=0.1)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        mc.io.write_csv(_without(alone, "subject"), tmp_path / folder / "S1.csv")
        mc.io.write_csv(_without(alone, "subject"), tmp_path / folder / f"{folder}2.csv")
    files = (tmp_path / "a/S1.csv", tmp_path / "a/a2.csv")
    assert set(options(files=files).movements().conditions["subject"]) == {"S1", "a2"}
    files = (tmp_path / "a/S1.csv", tmp_path / "b/S1.csv")
    assert set(options(files=files).movements().conditions["subject"]) == {"a/S1", "b/S1"}
    with pytest.raises(mc.InputError, match="files must differ from each other, got 'a/S1' twice"):
        options(files=files[:1] * 2).movements()


def _without(trials, name):
    left = {key: values for key, values in trials.conditions.items() if key != name}
    return mc.Trials(trials.observed, trials.times, channels={"position": "m"}, conditions=left)


def test_units_of_channels_and_conditions_become_those_of_the_model(simulated, tmp_path):
    frame = mc.io.to_frame(simulated)
    frame["position"] *= 1000
    frame["target"] *= 100
    frame.to_csv(tmp_path / "t.csv", index=False)
    reading = {"units": {"position": "mm", "target": "cm"}}
    trials, _ = options(files=(tmp_path / "t.csv",), reading=reading).trials()
    assert_allclose(trials.observed, simulated.observed, rtol=1e-12)
    assert_allclose(trials.conditions["target"], 0.1)


def test_notes_tell_of_what_was_not_used(simulated, tmp_path):
    frame = mc.io.to_frame(simulated)
    frame["temperature"] = np.arange(len(frame))
    frame.to_csv(tmp_path / "t.csv", index=False)
    _, notes = options(files=(tmp_path / "t.csv",)).trials()
    assert "columns that are not states of reaching: temperature" in notes
    reading = {"conditions": {"goal": "target"}}
    _, notes = options(files=(tmp_path / "t.csv",), reading=reading).trials()
    assert "conditions that reaching does not take: goal" in notes


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('title = "Reaches"', "title = 3", 1, "title: must be text in quotes"),
        ("[report]", "[reprot]", 29, "[reprot]: unknown key 'reprot': did you mean report or"),
        ('file = "trials.csv"', 'fil = "x"', 4, "[data] fil: unknown key 'fil': did you mean file"),
        ('file = "trials.csv"', "", 3, "[data]: file is missing"),
        ('file = "trials.csv"', "file = [1]", 4, "[data] file.0: must be text in quotes"),
        ('position = "m",', "position = 1,", 5, "[data] units.position: must be text in quotes"),
        ('units = {', 'options = {', 5, "[data] options: are those of a data set"),
        ('units = { position = "m", target = "m" }', 'dataset = "pointin"', 5,
         "[data] dataset: unknown data set 'pointin': did you mean pointing"),
        ('file = "trials.csv"', 'file = "x"\ndataset = "pointing"', 6,
         "[data] units: the data set pointing is read as it is: leave units out"),
        ('units = { position = "m", target = "m" }', 'dataset = "saccades"\noptions = {mrgin=1}',
         6, "[data] options.mrgin: unknown option 'mrgin': did you mean margin"),
        ("least = {", "lest = {", 8, "[prepare] lest: unknown key 'lest': did you mean least"),
        ("duration = 0.1", "durtion = 1", 8,
         "[prepare] least.durtion: unknown key 'durtion': did you mean duration"),
        ("duration = 0.1", 'duration = "1"', 8,
         "[prepare] least.duration: must be a number, got '1'"),
        ("least = { duration = 0.1 }", "scale = { factor = 2 }", 8,
         "[prepare] scale: unit is missing"),
        ("least = { duration = 0.1 }", "along = { }", 8, "[prepare] along: goal is missing"),
        ("least = { duration = 0.1 }", 'along = { goal = ["a"] }', 8,
         "[prepare] along.goal: must be a list of 2, got ['a']"),
        ('"reaching"', '"reeching"', 11, "[model] task: unknown task 'reeching': did you mean"),
        ('task = "reaching"', "", 10, "[model]: task is missing"),
        ('task = "reaching"', 'task = "reaching"\ndt = -1', 12,
         "[model] dt: must be more than 0, got -1"),
        ('task = "reaching"', 'task = "reaching"\nlead = [0, -0.1]', 12,
         "[model] lead: lead must not be negative, got -0.1"),
        ('task = "reaching"', 'task = "reaching"\nlead = nan', 12,
         "[model] lead: lead must be finite, got nan"),
        ('task = "reaching"', 'task = "reaching"\nlead = []', 12,
         "[model] lead: lead must be a number of seconds, or a list of some to compare, got none"),
        ('task = "reaching"', 'task = "reaching"\nlead = "long"', 12,
         "[model] lead: must be a number or a list, got 'long'"),
        ("motor_noise = 0.5", "moter_noise = 1", 12,
         "[model] fixed.moter_noise: unknown parameter 'moter_noise': did you mean motor_noise"),
        ("motor_noise = 0.5", 'motor_noise = "0.5"', 12,
         "[model] fixed.motor_noise: must be a number, got '0.5'"),
        ("effort =", "efort =", 15, "[free] efort: unknown parameter 'efort': did you mean effort"),
        ('"usual"', '"usal"', 15,
         "[free] effort: must be 'usual' or a list or a table, as { name = value }, got 'usal'"),
        ("[1e-3, 10]", "[3, 1]", 16, "[free] velocity: a parameter needs low < high"),
        ("[1e-3, 10]", "[1, 2, 3]", 16,
         "[free] velocity: must be 'usual' or a list of 2 or a table"),
        ("[1e-3, 10]", "[0, 1]", 16, "[free] velocity: a parameter on a log scale needs low > 0"),
        ("[1e-3, 10]", "[nan, 1]", 16, "[free] velocity: the low of a parameter must be a number"),
        ("[1e-3, 10]", "[1, inf]", 16, "[free] velocity: a parameter without a prior needs finite"),
        ("[1e-3, 10]", f"[1, 1{'0' * 400}]", 16, "[free] velocity.1: must be a number below 1e308"),
        ("{ median = 0.02, sd = 1.0 }", "{ low = 1 }", 17,
         "[free] force: needs low and high, or median and sd, or mean and sd; got low"),
        ("{ median = 0.02, sd = 1.0 }", "{ low = 2, high = 1 }", 17, "[free] force: a parameter"),
        ("sd = 1.0", "sdd = 1.0", 17, "[free] force.sdd: unknown key 'sdd': did you mean sd"),
        ("sd = 1.0", "sd = -1.0", 17, "[free] force: the sd of a prior must be positive"),
        ("noise = 1e-3", 'noise = "1e-3"', 21, "[observer] noise: must be a number"),
        ('["position"]', '["positon"]', 20,
         "[observer] states: unknown state of reaching 'positon': did you mean position"),
        ("seed = 3", "seed = -3", 24, "[fit] seed: must be a whole number, 0 or more, got -3"),
        ("seed = 3", f"seed = {2**63}", 24, "[fit] seed: must be a whole number below 2^63"),
        ("starts = 2", "starts = 2.5", 25, "[fit] starts: must be a whole number"),
        ('"gradient"', '"newton"', 26, "[fit] method: unknown method 'newton'"),
        ("priors = true", "priors = 1", 27, "[fit] priors: must be true or false, got 1"),
        ("bootstrap = 0", "bootstrap = 1", 31, "[report] bootstrap: bootstrap must be 0 (none) or"),
        ("seed = 3", "seed = true", 24, "[fit] seed: must be a whole number, got true"),
        ("seed = 3", f"seed = 0x{'f' * 5000}", 24, "[fit] seed: must be a whole number below 2^63"),
        ("seed = 3", f"seed = {'9' * 5000}", 24, "a number has at most 4300 digits"),
        ("seed = 3", f"{'a.' * 30_000}a = 3", 24, "a key has at most 16 parts"),
        ("noise = 1e-3", f"noise = {{ {'a . ' * 30_000}a = 3 }}", 21, "a key has at most 16 parts"),
        ("noise = 1e-3", "noise = { position = true }", 21,
         "[observer] noise.position: must be a number, got true"),
        ("motor_noise = 0.5", "motor_noise = 0.5, steps = 2.5", 12,
         "[model] fixed.steps: must be a whole number, got 2.5"),
        ("[report]", "[report]\nfolds = [", 31, "is not valid TOML"),
        ("seed = 3", "seed = = 3", 24, "is not valid TOML: Invalid value (at line 24"),
        ("[fit]", "[fit", 23, "is not valid TOML: Expected ']'"),
    ],
)  # fmt: skip
def test_an_error_names_file_line_and_key(study_file, old, new, line, message):
    assert old in STUDY
    with pytest.raises(mc.InputError) as raised:
        Study.read(study_file(STUDY.replace(old, new, 1)))
    said = str(raised.value)
    assert said.startswith("study.toml")
    assert "\n" not in said
    assert len(said) < 300
    assert message in said
    assert re.search(rf"line {line}\b", said), said


@pytest.mark.parametrize(("lead", "leads"), [("0.05", (0.05,)), ("[0.1, 0]", (0.0, 0.1))])
def test_a_study_file_has_one_lead_or_several(study_file, lead, leads):
    text = STUDY.replace('task = "reaching"', f'task = "reaching"\nlead = {lead}')
    study = Study.read(study_file(text))
    assert study.lead == leads
    assert study.settings != Study.read(study_file()).settings


def test_nothing_free_is_said(study_file):
    text = re.sub(r"(?s)\[free\].*?\[observer\]", "[free]\n[observer]", STUDY)
    with pytest.raises(mc.InputError, match=r"study.toml, line 14: \[free\]: name at least one"):
        Study.read(study_file(text))


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"a = 1\n" + b"b = [" * 5000, b"a = 1" * 2])
def test_what_is_no_toml_is_said(tmp_path, content):
    (tmp_path / "study.toml").write_bytes(content)
    with pytest.raises(mc.InputError, match=r"^study.toml: (needs text in UTF-8|is not valid)"):
        Study.read(tmp_path / "study.toml")


def test_a_study_that_is_not_there_is_said(tmp_path):
    with pytest.raises(mc.InputError, match="there is no such file"):
        Study.read(tmp_path / "study.toml")


PIECES = ["[", "]", "{", "}", '"', "=", "\n", "nan", "-1", "1e999", "9" * 400, "true", "''",
          "[[a]]", "1979-05-27", "usual", "x.y", "\\u0000", "#", ",", "reaching", "file.py:f",
          "tracking", "inf", "0", "é"]  # fmt: skip
mutations = st.lists(
    st.tuples(st.integers(0, len(STUDY)), st.integers(0, 12), st.sampled_from(["", *PIECES])),
    min_size=1,
    max_size=3,
)
VALUE = re.compile(r"(?<== )\S.*$", re.M)
swaps = st.lists(st.integers(0, 30), min_size=2, max_size=2)


@settings(max_examples=60)
@given(edits=mutations, swapped=swaps)
def test_any_text_is_a_study_or_an_input_error(tmp_path_factory, edits, swapped):
    text = STUDY
    values = list(VALUE.finditer(text))
    one, two = (values[i % len(values)] for i in swapped)
    for mangled in (text[: one.start()] + two[0] + text[one.end() :], _edited(text, edits)):
        file = tmp_path_factory.getbasetemp() / "fuzzed.toml"
        file.write_text(mangled, "utf-8")
        with contextlib.suppress(mc.InputError):
            assert isinstance(Study.read(file), Study)


def _edited(text, edits):
    for at, length, piece in edits:
        text = text[:at] + piece + text[at + length :]
    return text


@pytest.mark.parametrize("task", ["reaching", "saccade", "tracking", "random_problem"])
def test_the_template_is_a_study_of_every_task(study_file, tmp_path, task):
    study = Study.read(study_file(study_template(task, tmp_path / "trials.csv", tmp_path)))
    assert study.files == (tmp_path / "trials.csv",)
    declared = mc.tasks.parameters(study.task)
    costs = {name for name, parameter in declared.items() if parameter.role == "cost"}
    further = {"motor_noise", "sensory_noise", "tau", "aim_spread", "start_spread"}
    recommended = {
        "reaching": costs | further | {"recording_noise"},
        "saccade": costs | {"motor_noise", "tau_fast", "aim_spread", "recording_noise"},
    }
    assert set(study.free) == recommended.get(task, costs)
    assert study.fixed == ({"start": 0.0, "sensory_noise": 10.0} if task == "saccade" else {})
    assert study.lead == ((0.0, 0.05, 0.1) if task == "reaching" else (0.0,))
    assert study.reading == {"trial": "trial", "time": "time", "time_unit": "s"}


@pytest.mark.parametrize(
    "name", ["a b.csv", 'quo"te.csv', "back\\slash.csv", "{brace}.csv", "two\nlines.csv", "é#.csv"]
)
def test_the_template_finds_files_of_any_name(study_file, simulated, tmp_path, name):
    mc.io.write_csv(simulated, tmp_path / name)
    text = study_template("reaching", tmp_path / name, tmp_path)
    study = Study.read(study_file(text))
    assert study.files == (tmp_path / name,)
    assert ": position, target, subject." in text
    assert len(study.movements()) == 14


def test_the_template_survives_a_file_that_does_not_read(study_file, tmp_path):
    (tmp_path / "bad.csv").write_text('trial,time,"x\ny"\n1,0,one\n1,1,two\n')
    Study.read(study_file(study_template("reaching", tmp_path / "bad.csv", tmp_path)))


def in_the_plane(folder, header):
    """A table of two reaches in the plane, sampled at 60 Hz, with columns of these names."""
    rows = [
        f"{trial},{i / 60:.5f},{0.1 * i / 30},{0.001 * i},0.1,0"
        for trial in (1, 2)
        for i in range(31)
    ]
    (folder / "plane.csv").write_text("\n".join([header, *rows]))
    return folder / "plane.csv"


def test_the_template_names_columns_and_steps_that_it_recognises(study_file, tmp_path):
    data = in_the_plane(tmp_path, "Trial_ID,t_s,x,y,target_x,target_y")
    study = Study.read(study_file(study_template("reaching", data, tmp_path)))
    assert study.reading == {"trial": "Trial_ID", "time": "t_s", "time_unit": "s"}
    assert [step for step, _ in study.prepare] == ["along", "cut"]
    assert study.prepare[0][1]["goal"] == ["target_x", "target_y"]
    assert study.states == ("position",)
    assert study.dt == 0.01  # the recording's 1/60 s is a large part of the muscle's 40 ms
    assert len(study.trials()[0]) == 2
    plane = Study.read(study_file(study_template("planar_reaching", data, tmp_path)))
    assert [step for step, _ in plane.prepare] == ["centred", "cut"]
    assert plane.states is None
    assert len(plane.trials()[0]) == 2


@pytest.mark.parametrize("task", ["reaching", "planar_reaching", "saccade", "pursuit", "posture"])
@pytest.mark.parametrize("name", ["plane.csv", "cp01-1.dat", "lookAtPoint_EL_S1.npy"])
def test_the_template_has_each_step_once_with_values_for_the_task(study_file, tmp_path, task, name):
    (tmp_path / name).write_text("")
    if name == "plane.csv":
        in_the_plane(tmp_path, "trial,time,x,y,target_x,target_y")
    text = study_template(task, tmp_path / name, tmp_path)
    start, end = text.index("[prepare]"), text.index("[model]")
    steps = re.findall(r"^(?:# )?(scale|centred|along|cut|least|most) =", text[start:end], re.M)
    assert len(steps) == len(set(steps))
    assert {"scale", "least", "most"} <= set(steps)
    # The comments are steps, too.
    uncommented = re.sub(
        r"^# (?=(scale|centred|along|cut|least|most) =)", "", text[start:end], flags=re.M
    )
    study = Study.read(study_file(text[:start] + uncommented + text[end:]))
    assert [step for step, _ in study.prepare if step not in ("keep", "units")] == steps
    if task == "saccade":
        of_step = dict(study.prepare)
        assert of_step["scale"]["unit"] == "deg"
        assert of_step["cut"]["speed"] == 30.0


def test_the_template_supposes_nothing_where_there_are_no_goals(study_file, tmp_path):
    data = in_the_plane(tmp_path, "trial,time,x,y,a,b")
    study = Study.read(study_file(study_template("reaching", data, tmp_path)))
    assert study.prepare == ()
    assert study.states is None


@pytest.mark.parametrize(
    ("name", "task", "steps", "states"),
    [
        ("cp01-1.dat", "reaching", ["keep", "scale", "along", "cut"], ("position",)),
        ("lookAtPoint_EL_S1.npy", "saccade", ["along", "least", "cut"], ("angle",)),
        ("cp01-1.dat", "tracking", [], None),
    ],
)
def test_the_template_recognises_public_recordings(study_file, tmp_path, name, task, steps, states):
    (tmp_path / name).write_text("")  # the name is enough
    study = Study.read(study_file(study_template(task, tmp_path / name, tmp_path)))
    assert study.dataset in ("pointing", "saccades")
    assert [step for step, _ in study.prepare] == steps
    assert study.states == states


OWN = """\
from dataclasses import dataclass

import motorcost as mc

@dataclass
class Settings:
    scale: "float" = 1.0

def gentle(effort=1e-5, target=0.1, steps=30, dt=0.01):
    return mc.tasks.reaching(effort=effort, target=target, steps=steps, dt=dt, velocity=1.0)

def needy(effort, steps=30, dt=0.01):
    return mc.tasks.reaching(effort=effort, steps=steps, dt=dt)

def nothing(effort=1.0, steps=30, dt=0.01):
    return None

number = 3
"""


def own(tmp_path, study_file, function, text=OWN):
    (tmp_path / "mine.py").write_text(text)
    free = "[free]\neffort = [1e-8, 1e-2]\n"
    where = '[data]\nfile = "trials.csv"\n[model]\n'
    return study_file(f'{where}task = "mine.py:{function}"\n{free}')


def test_a_task_of_ones_own(study_file, simulated, tmp_path):
    mc.io.write_csv(simulated, tmp_path / "trials.csv")
    study = Study.read(own(tmp_path, study_file, "gentle"))
    trials, _ = study.trials()
    assert trials.channel_names == ("position",)
    assert list(trials.conditions) == ["target"]
    assert make_objective(study.task, trials, study.free).names == ("effort",)


@pytest.mark.parametrize(
    ("function", "text", "message"),
    [
        ("missing", OWN, "mine.py has no function missing"),
        ("number", OWN, "mine.py has no function number"),
        ("gentle", "1 / 0", "mine.py does not run: ZeroDivisionError: division by zero"),
        ("gentle", "def", "mine.py does not run: SyntaxError"),
        ("gentle", "import sys; sys.exit(3)", "mine.py does not run: SystemExit: 3"),
    ],
)
def test_a_task_of_ones_own_that_is_not_there(study_file, tmp_path, function, text, message):
    with pytest.raises(mc.InputError, match=r"study.toml, line 4: \[model\] task: ") as raised:
        Study.read(own(tmp_path, study_file, function, text))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("needy", "the task mine.py:needy does not run with defaults"),
        ("nothing", "the task mine.py:nothing must make a Problem, got NoneType"),
    ],
)
def test_a_task_of_ones_own_that_makes_no_problem(
    study_file, simulated, tmp_path, function, message
):
    mc.io.write_csv(simulated, tmp_path / "trials.csv")
    study = Study.read(own(tmp_path, study_file, function))
    with pytest.raises(mc.InputError, match=message):
        study.trials()


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((("least", {"target": 1.0}),), r"^\[prepare\] least: least leaves none of 14 trials"),
        ((("least", {"duration": 9.0}),), r"^\[prepare\] least: least leaves none of 14 trials"),
        ((("keep", {"where": "subject"}),), "'subject' must be numbers, got 'anna'"),
        ((("keep", {"where": "outward"}),), r"^\[prepare\] keep: unknown condition 'outward'"),
    ],
)
def test_preparation_that_cannot_be_done_is_said(simulated, tmp_path, steps, message):
    mc.io.write_csv(simulated, tmp_path / "t.csv")
    with pytest.raises(mc.InputError, match=message):
        options(files=(tmp_path / "t.csv",), prepare=steps).trials()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "least = { duration = 0.1 }",
            'cut = { speed = 0.05, channels = ["positon"] }',
            "study.toml, line 8: [prepare] cut: unknown channel 'positon'",
        ),
        (
            "least = { duration = 0.1 }",
            'trials = "500:600"',
            "study.toml, line 8: [prepare] trials: trials 500:600: there are only 14 trials",
        ),
        (
            'target = "m" }',
            'target = "mm" }',
            "study.toml, line 5: [data] units: position covers 0.0",
        ),
        (
            'units = { position = "m", target = "m" }',
            'channels = { hand = "position" }',
            "study.toml, line 20: [observer] states: unknown channel 'position': known: hand",
        ),
    ],
)
def test_what_the_recordings_refute_names_file_line_and_key(
    study_file, simulated, tmp_path, old, new, message
):
    mc.io.write_csv(simulated, tmp_path / "trials.csv")
    assert old in STUDY
    study = Study.read(study_file(STUDY.replace(old, new)))
    with pytest.raises(mc.InputError, match="^" + re.escape(message)):
        study.trials()
    if "trials" in new:
        (trial,) = study.selected(trials="3").movements().labels
        assert trial == "3"
        with pytest.raises(mc.InputError, match=r"^--trials: trials 30: there are only"):
            study.selected(trials="30", written_at={"prepare.trials": "--trials"}).movements()


def test_trials_without_a_goal_are_named_and_can_be_left_out(simulated, tmp_path):
    frame = mc.io.to_frame(simulated)
    frame.loc[frame.trial % 5 == 4, "target"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(mc.InputError) as caught:
        options(files=[tmp_path / "t.csv"]).trials()
    assert "'target' is missing in 3 of 14 trials (4, 9, 14)" in str(caught.value)
    kept = options(files=[tmp_path / "t.csv"], prepare=[("keep", {"where": "has target"})])
    assert len(kept.trials()[0]) == 11
    assert kept.prepared().steps[1].left_out == 3


def test_a_study_file_chooses_trials(study_file, simulated, tmp_path):
    mc.io.write_csv(simulated, tmp_path / "trials.csv")
    chosen = 'only = { subject = ["bert", "anna"], target = 0.1 }\ntrials = "3:8"\n[model]'
    study = Study.read(study_file(STUDY.replace("[model]", chosen)))
    assert study.movements().labels == ("3", "4", "5", "6", "7", "8")
    wrong = study_file(STUDY.replace("[model]", 'trials = "8:3"\n[model]'))
    with pytest.raises(mc.InputError, match=r"line 10: \[prepare\] trials: trials 8:3: the last"):
        Study.read(wrong)


def test_settings_tell_studies_apart(study_file):
    study = Study.read(study_file())
    assert Study.read(study_file()).settings == study.settings
    for old, new in (("0.5", "0.4"), ("[1e-3, 10]", "[1e-3, 9]"), ("seed = 3", "seed = 4")):
        assert Study.read(study_file(STUDY.replace(old, new, 1))).settings != study.settings
