import numpy as np
import pytest

import motorcost as mc
from motorcost.study.selection import keep_only, keep_range, trial_range, with_selection

MOVEMENTS = mc.Movements(
    samples=(np.zeros((2, 1)),) * 6,
    times=(np.arange(2.0),) * 6,
    channels={"x": "m"},
    conditions={
        "subject": ["a", "a", "b", "b", "c", "c"],
        "target": [0.1, 0.3] * 3,
        "outward": [True, False] * 3,
        "block": [1, 1, 1, 2, 2, 2],
    },
)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ({"subject": "b"}, "34"),
        ({"subject": ["a", "c"]}, "1256"),
        ({"target": 0.3}, "246"),
        ({"target": "0.3"}, "246"),
        ({"outward": "true"}, "135"),
        ({"outward": False}, "246"),
        ({"block": "2", "outward": True}, "5"),
    ],
)
def test_only_some_conditions(values, labels):
    kept = keep_only(MOVEMENTS, **values)
    assert "".join(kept.labels) == labels
    assert len(kept.notes) == len(values)


@pytest.mark.parametrize(
    ("which", "labels"),
    [("1:2", "12"), ("3:", "3456"), (":2", "12"), ("4", "4"), ("1::2", "135"), ("2:9:3", "25"),
     (" 2 : 3 ", "23")],
)  # fmt: skip
def test_trials_by_their_place(which, labels):
    assert "".join(keep_range(MOVEMENTS, which).labels) == labels


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("3:1", "the last must not come before the first"),
        ("0:3", "trials are counted from 1"),
        ("1:0", "trials are counted from 1"),
        ("1:4:0", "trials are counted from 1"),
        ("", "trials must be FIRST:LAST, as in 1:20, got ''"),
        ("-1:3", "trials must be FIRST:LAST"),
        ("one", "trials must be FIRST:LAST"),
        ("7:9", "trials 7:9: there are only 6 trials"),
    ],
)
def test_trials_that_there_are_not(which, message):
    with pytest.raises(mc.InputError, match=message):
        keep_range(MOVEMENTS, which)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"subject": "d"}, "no trial has subject = d; there are a, b, c"),
        ({"subject": ["a", "d"]}, "no trial has subject = d"),
        ({"target": "far"}, "no trial has target = far; there are 0.1, 0.3"),
        ({"outward": "maybe"}, "no trial has outward = maybe; there are False, True"),
        ({"subjekt": "a"}, "unknown condition 'subjekt': did you mean subject"),
    ],
)
def test_conditions_that_there_are_not(values, message):
    with pytest.raises(mc.InputError, match=message):
        keep_only(MOVEMENTS, **values)


def test_a_selection_replaces_that_of_the_preparation():
    steps = [("only", {"subject": "a"}), ("scale", {}), ("trials", {"which": "1:2"}), ("cut", {})]
    only, scale, trials, cut = with_selection(steps, {"subject": ["b"]}, "3:4")
    assert only == ("only", {"subject": ["b"]})
    assert trials == ("trials", {"which": "3:4"})
    assert (scale, cut) == (steps[1], steps[3])
    assert [name for name, _ in with_selection([("cut", {})], {"a": 1}, "1:2")] == [
        "only", "cut", "trials",
    ]  # fmt: skip
    assert with_selection([("cut", {})]) == (("cut", {}),)


def test_an_open_range():
    assert trial_range("5:") == (5, None, 1)
