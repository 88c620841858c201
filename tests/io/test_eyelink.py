"""EyeLink recordings, as edf2asc writes them, against the same table as CSV."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import motorcost as mc

PREAMBLE = """** CONVERTED FROM gaze.edf using edfapi 4.2.1 Linux on Mon Jan  8 10:00:00 2024
** DATE: Mon Jan  8 09:30:00 2024
** TYPE: EDF_FILE BINARY EVENT SAMPLE TAGGED
** VERSION: EYELINK II 1
**

"""
START = """START\t{time} \t{eyes}\tSAMPLES\tEVENTS
PRESCALER\t1
VPRESCALER\t1
PUPIL\tAREA
EVENTS\tGAZE\t{eyes}\tRATE\t1000.00\tTRACKING\tCR\tFILTER\t2
SAMPLES\tGAZE\t{eyes}\tRATE\t1000.00\tTRACKING\tCR\tFILTER\t2\tINPUT
"""


def recording(trials, *, eyes="RIGHT", messages=True):
    """An .asc file of trials: (name, first time, x, y, variables), one sample per millisecond."""
    text = PREAMBLE
    for name, begin, x, y, variables in trials:
        if messages:
            text += f"MSG\t{begin - 5} TRIALID {name}\n"
        text += START.format(time=begin, eyes=eyes)
        for i, (a, b) in enumerate(zip(x, y, strict=True)):
            missing = np.isnan(a)
            one = "   .\t   .\t    0.0" if missing else f"  {a:.1f}\t  {b:.1f}\t  {512 + i}.0"
            other = one if missing else f"  {a + 3:.1f}\t  {b:.1f}\t  {490 + i}.0"
            both = one if eyes in ("LEFT", "RIGHT") else f"{one}\t{other}"
            text += f"{begin + i}\t{both}\t  127.0\t...\n"
            if i == 1:
                text += f"SSACC R  {begin + 1}\n"
            if i == 3:
                text += (
                    f"ESACC R  {begin + 1}\t{begin + 3}\t3\t  1.0\t 1.0\t 2.0\t 2.0\t 1.1\t 90\n"
                )
        text += f"END\t{begin + len(x)} \tSAMPLES\tEVENTS\tRES\t  26.11\t  26.43\n"
        for key, value in variables.items():
            text += f"MSG\t{begin + len(x) + 4} -3 !V TRIAL_VAR {key} {value}\n"
        if messages:
            text += f"MSG\t{begin + len(x) + 5} TRIAL_RESULT 0\n"
    return text


X = np.array([[100.0, 101, 104, 110, 113], [200, 201, np.nan, 230, 231]])
Y = np.array([[500.0, 501, 500, 503, 504], [600, 601, np.nan, 599, 598]])
TRIALS = [
    ("1", 1000, X[0], Y[0], {"target": "113.5", "cue": "left side", "rt": "210"}),
    ("2", 2000, X[1], Y[1], {"target": "231", "cue": "right side", "rt": "."}),
]
TWIN = "trial,time,x,y,saccade,target,cue,rt\n" + "".join(
    f"{name},{(begin + i) / 1000},{'' if np.isnan(a) else a},{'' if np.isnan(b) else b},"
    f"{int(1 <= i <= 3)},{facts['target']},{facts['cue']},{facts['rt'].strip('.')}\n"
    for name, begin, x, y, facts in TRIALS
    for i, (a, b) in enumerate(zip(x, y, strict=True))
)


def read(folder, text, **options):
    path = folder / "gaze.asc"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return mc.io.read(path, **options)


def test_an_eyelink_file_is_its_table(tmp_path):
    (tmp_path / "gaze.csv").write_text(TWIN)
    twin = mc.io.read(tmp_path / "gaze.csv")
    movements = read(tmp_path, recording(TRIALS), channels=["x", "y", "saccade"])
    assert movements.labels == twin.labels
    for found, expected in zip(movements.samples, twin.samples, strict=True):
        assert_array_equal(found, expected)
    for found, expected in zip(movements.times, twin.times, strict=True):
        assert_allclose(found, expected, rtol=1e-15)
    assert list(movements.conditions) == list(twin.conditions)
    for name, values in twin.conditions.items():
        assert_array_equal(movements.conditions[name], values)
    assert movements.channels == {"x": "px", "y": "px", "saccade": ""}


def test_the_users_unit_of_time_does_not_matter(tmp_path):
    seconds = read(tmp_path, recording(TRIALS))
    assert_array_equal(read(tmp_path, recording(TRIALS), time_unit="ms").times, seconds.times)
    assert read(tmp_path, recording(TRIALS), units={"x": "mm"}).channels["x"] == "mm"


def test_both_eyes(tmp_path):
    movements = read(tmp_path, recording(TRIALS, eyes="LEFT\tRIGHT"))
    assert list(movements.channels)[:6] == [
        "left_x", "left_y", "left_pupil", "right_x", "right_y", "right_pupil",
    ]  # fmt: skip
    assert_array_equal(movements.samples[0][:, 0], X[0])
    assert_array_equal(movements.samples[0][:, 3], X[0] + 3)


def test_recordings_are_trials_where_no_message_says_it(tmp_path):
    movements = read(tmp_path, recording(TRIALS, messages=False), channels=["x"])
    assert movements.labels == ("1", "2")
    assert_array_equal(movements.samples[1][:, 0], X[1])
    assert movements.conditions["target"].tolist() == [113.5, 231]


def test_an_eye_may_change_between_recordings(tmp_path):
    text = recording(TRIALS[:1], eyes="LEFT") + recording(TRIALS[1:], eyes="RIGHT")
    movements = read(tmp_path, text, channels=["x", "y"])
    assert_array_equal(movements.samples[1], np.column_stack([X[1], Y[1]]))
    assert any("some recordings are of the left eye" in note for note in movements.notes)


def test_one_recording_may_hold_all_trials(tmp_path):
    """Samples between a result and the next trial belong to none."""
    lines = [f"{t}\t{t / 10:.1f}\t5.0\t400.0\t...\n" for t in range(100, 160)]
    lines[50] = "MSG\t150 TRIAL_RESULT 1\n" + lines[50]
    lines[30] = "MSG\t130 TRIALID B\n" + lines[30]
    lines[20] = "MSG\t120 TRIAL_RESULT 1\n" + lines[20]
    lines[10] = "MSG\t110 TRIALID A\n" + lines[10]
    text = PREAMBLE + START.format(time=100, eyes="LEFT") + "".join(lines) + "END\t160\tSAMPLES\n"
    movements = read(tmp_path, text, channels=["x"])
    assert movements.labels == ("A", "B")
    assert [len(times) for times in movements.times] == [10, 20]
    assert "gaze.asc: 30 samples left out: they are in no trial" in movements.notes


def test_names_that_repeat_or_are_taken(tmp_path):
    trials = [(name, begin, x, y, {"trial": 7, "x": "3"}) for (_, begin, x, y, _), name in
              zip(TRIALS, ("same", "same"), strict=True)]  # fmt: skip
    movements = read(tmp_path, recording(trials), channels=["x"])
    assert movements.labels == ("1", "2")
    assert movements.conditions["trial_id"].tolist() == ["same", "same"]
    assert movements.conditions["trial_var"].tolist() == [7, 7]
    assert "gaze.asc: the variable 'x' is called 'x_var'" in movements.notes


GOOD = recording(TRIALS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("101.0", "abc"), "gaze.asc: row 15: needs a number, got 'abc'"),
        (GOOD.replace("101.0", "a\x1b[2J"), r"row 15: needs a number, got 'a\x1b[2J'"),
        (GOOD.replace("1001\t", "999\t"), "gaze.asc: row 15, column 'time': needs times that"),
        (GOOD.replace("\t  501.0\t  513.0\t  127.0\t...", ""), "row 15: needs a time and x, y, pu"),
        (PREAMBLE, "gaze.asc: needs EyeLink samples within trials, got none of 0 samples in 0"),
        ("any text\nat all\n", "gaze.asc: needs EyeLink samples within trials"),
        (b"\x00\x01SR_RESEARCH", "gaze.asc: needs text that edf2asc made, got a binary file"),
    ],
)
def test_bad_files_are_refused_in_one_line(text, message, tmp_path):
    with pytest.raises(mc.InputError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


def test_the_binary_format_has_advice(tmp_path):
    (tmp_path / "gaze.edf").write_bytes(b"SR_RESEARCH")
    with pytest.raises(mc.InputError, match=r"gaze.edf: .* convert it with edf2asc"):
        mc.io.read(tmp_path / "gaze.edf")
