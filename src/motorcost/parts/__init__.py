"""Parts of which tasks are made: bodies, points, goals, senses and force fields.

In the order of reading:

- `bodies`: what moves: a point mass with muscles, an eye, a cursor.
- `points`: where the body should go, or what pushes it: constants that the agent knows.
- `goals`: what is to be achieved, and when.
- `noises`: noise that grows with the control.
- `fields`: forces from outside.
- `assembly`: a `Problem` from parts.

A reach in the plane, for example:

    def reach(effort=1e-5, velocity=0.2, force=0.02, target_x=0.1, target_y=0.0, steps=30, dt=0.01):
        hand = mc.parts.point_mass(dt, muscle=0.04, dimensions=2)
        stop = {"position - target": 1.0, "velocity": velocity, "force": force}
        return mc.parts.assemble(
            hand,
            steps=steps,
            points=[mc.parts.Point("target", (target_x, target_y))],
            goals=[mc.parts.at_end(stop)],
            effort=effort / (steps - 1),
            control_noise=mc.parts.signal_dependent_noise(0.5, across=1.0),
            senses={"felt": {"position": 0.01, "velocity": 0.1, "force": 0.5}},
        )
"""

from motorcost.parts.assembly import assemble
from motorcost.parts.bodies import Body, cursor, eye, point_mass
from motorcost.parts.fields import Field, curl_field, load, pulse, viscous_field
from motorcost.parts.goals import Goal, at_end, at_time, first_steps, last_steps, throughout
from motorcost.parts.noises import SignalDependentNoise, signal_dependent_noise
from motorcost.parts.points import Point

__all__ = [
    "Body",
    "Field",
    "Goal",
    "Point",
    "SignalDependentNoise",
    "assemble",
    "at_end",
    "at_time",
    "curl_field",
    "cursor",
    "eye",
    "first_steps",
    "last_steps",
    "load",
    "point_mass",
    "pulse",
    "signal_dependent_noise",
    "throughout",
    "viscous_field",
]
