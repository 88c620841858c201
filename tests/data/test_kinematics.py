"""Which channels and states are positions."""

import pytest

from motorcost.data.kinematics import position_states, positions_among
from motorcost.explore.recordings import task_names
from motorcost.study.task_lookup import example_problem, find_task

FIRST = {"pursuit": ("cursor",), "subjective_pursuit": ("cursor",)}


@pytest.mark.parametrize("name", task_names())
def test_the_positions_of_every_task_come_first_but_for_a_cursor(name):
    states = example_problem(find_task(name), name, {}).state_names
    expected = ("x", "y") if states[1] == "y" else states[:1]
    assert position_states(states) == FIRST.get(name, expected)


def test_positions_are_known_by_their_names():
    assert positions_among(["time", "y", "x"]) == ("x", "y")
    assert positions_among(["x", "y", "position"]) == ("position",)
    assert positions_among(["x", "y", "position"], ("x", "y")) == ("x", "y")
    assert positions_among(["lean", "rate"], ()) == ()
    assert position_states(["lean", "rate"]) == ("lean",)
