"""Points: constants of a trial that the agent knows, such as where its target is."""

from __future__ import annotations

from typing import Any, NamedTuple


class Point(NamedTuple):
    """A point that the agent knows, for a target or a via-point; a state of the problem.

    - `name`: the state's name; in the plane there are two, `target_x` and `target_y`.
    - `at`: where it is, one number per axis.
    - `spread`: the SD over trials of where it is, which the agent knows.
    - `wander`: the SD of its displacement in a step, for a point that moves at random;
      None for one that stays.
    - `unit`: its unit, that of the body's place if it is left out.

    Examples
    --------
    >>> mc.parts.Point("target", (0.1, 0.0), spread=0.01).name
    'target'
    """

    name: str
    at: Any
    spread: Any = 0.0
    wander: Any = None
    unit: str | None = None
