"""Reaching in the plane: to targets around a centre, in force fields, through via-points."""

from collections.abc import Mapping
from typing import Any

from motorcost import checks, parts
from motorcost.errors import InputError
from motorcost.model.problem import Problem
from motorcost.tasks._reaching import FELT, reaching
from motorcost.tasks.declarations import Parameter, declare
from motorcost.tasks.supports import LogUniform, Uniform

_OF_REACHING = ("effort", "velocity", "force", "motor_noise", "steps", "dt", "sensory_noise", "tau")
_SPREADS = ("aim_spread", "start_spread", "start_speed_spread")


@declare(
    **{name: reaching.parameters[name] for name in (*_OF_REACHING, *_SPREADS)},  # type: ignore[attr-defined]
    mass=Parameter("mass of the hand", "kg", "body", LogUniform(0.1, 10.0)),
    across=Parameter(
        "SD of the control's noise across its direction, as a share of that along it",
        "",
        "noise",
        LogUniform(0.01, 10.0),
    ),
    target_x=Parameter("position of the target, from the start", "m", "condition"),
    target_y=Parameter("position of the target, from the start", "m", "condition"),
    vision_noise=Parameter(
        "SD with which the hand's position is seen; no vision if left out",
        "m",
        "noise",
        LogUniform(1e-4, 1.0),
        typical=0.01,
    ),
    vision_delay=Parameter("steps by which vision is late", "", "condition"),
    proprioception_delay=Parameter("steps by which proprioception is late", "", "condition"),
    curl=Parameter(
        "force to the right of the movement, per m/s; no field if left out", "N s/m", "condition"
    ),
    viscosity=Parameter("force against the movement, per m/s", "N s/m", "condition"),
    load_x=Parameter("constant force on the hand", "N", "condition"),
    load_y=Parameter("constant force on the hand", "N", "condition"),
    field_on=Parameter(
        "share of the forces that act: 0 in catch trials, where the agent expects them",
        "",
        "condition",
    ),
    adaptation=Parameter(
        "share of the forces that the agent believes in; all if left out",
        "",
        "belief",
        Uniform(-0.5, 1.5),
        typical=0.5,
    ),
    via_x=Parameter("position of a via-point, from the start; none if left out", "m", "condition"),
    via_y=Parameter("position of a via-point, from the start; none if left out", "m", "condition"),
    via_time=Parameter(
        "time of the via-point, from the model's first step (a lead included)", "s", "condition"
    ),
    via=Parameter(
        "weight of the distance from the via-point; 1 if left out",
        "",
        "cost",
        LogUniform(1e-2, 1e3),
        typical=1.0,
    ),
)
def planar_reaching(
    effort: Any = 1e-5,
    velocity: Any = 0.2,
    force: Any = 0.02,
    motor_noise: Any = 0.5,
    across: Any = 1.0,
    target_x: Any = 0.1,
    target_y: Any = 0.0,
    steps: int = 30,
    dt: Any = 0.01,
    sensory_noise: Any = 0.5,
    vision_noise: Any = None,
    vision_delay: int = 0,
    proprioception_delay: int = 0,
    tau: Any = 0.04,
    mass: Any = 1.0,
    curl: Any = None,
    viscosity: Any = None,
    load_x: Any = None,
    load_y: Any = None,
    field_on: Any = 1.0,
    adaptation: Any = None,
    via_x: Any = None,
    via_y: Any = None,
    via_time: Any = None,
    via: Any = None,
    aim_spread: Any = 0.0,
    start_spread: Any = 0.0,
    start_speed_spread: Any = 0.0,
) -> Problem:
    """Reach from 0 to a target in the plane and stop there, at the end of a fixed time.

    The centre-out experiment: trials differ in their target, given by `target_x` and `target_y`
    from where the hand starts. Hand, muscle, senses and costs are those of `reaching` along either
    axis. The noise of the control has the same size in all directions if `across` is 1 (Todorov
    2005), and none across the direction of the control if it is 0.

    **Senses.** `proprioception` is of position, velocity and force, with the noise of `reaching`;
    `vision`, if `vision_noise` is given, of position. Each may be late by some steps.

    **Force fields.** A robot may push the hand: to the right of its movement and in proportion to
    its velocity (`curl`, as in Shadmehr & Mussa-Ivaldi 1994; negative for the left), against its
    movement (`viscosity`), or with a constant force (`load_x`, `load_y`). The agent believes in a
    share of it, `adaptation`: with 0 the field bends its paths, with 1 it compensates. With
    field_on=0 the field that it expects is absent (a catch trial), and its paths bend to the other
    side, the after-effect.

    **Via-points.** The cost has the term (via × distance from the via-point)² at `via_time` seconds
    from the first step.

    Examples
    --------
    >>> problem = mc.tasks.planar_reaching(target_x=0.05, target_y=0.08, curl=15.0)
    >>> problem.control_names, problem.steps
    (('control_x', 'control_y'), 30)
    """
    checks.nonnegative(
        velocity=velocity, force=force, motor_noise=motor_noise, sensory_noise=sensory_noise
    )
    checks.positive(effort=effort)
    T = checks.whole("steps", steps, 2, "T, the number of states in a trial")
    _require_a_way(target_x, target_y)
    hand = parts.point_mass(dt, mass=mass, muscle=tau, dimensions=2)
    target = parts.Point("target", (target_x, target_y), spread=aim_spread)
    stop = {"position - target": 1.0, "velocity": velocity, "force": force}
    goals, points = [parts.at_end(stop)], [target]
    has_via = _given("a via-point", via_x=via_x, via_y=via_y, via_time=via_time)
    fields = _fields(curl, viscosity, load_x, load_y, field_on)
    _require_parts(
        {"via": via if not has_via else None, "adaptation": adaptation if not fields else None},
        vision_delay if vision_noise is None else 0,
    )
    if has_via:
        weight = 1.0 if via is None else via
        checks.nonnegative(via=weight)
        goals.append(parts.at_time(via_time, dt, {"position - via": weight}))
        points.append(parts.Point("via", (via_x, via_y)))
    felt = {name: sensory_noise * sd for name, sd in FELT.items()}
    vision = {} if vision_noise is None else {"vision": {"position": vision_noise}}
    late = {"proprioception": proprioception_delay}
    return parts.assemble(
        hand,
        steps=T,
        points=points,
        goals=goals,
        effort=effort / (T - 1),
        control_noise=parts.signal_dependent_noise(motor_noise, across=across),
        senses={"proprioception": felt, **vision},
        fields=fields,
        adaptation=1.0 if adaptation is None else adaptation,
        start_spreads={"position": start_spread, "velocity": start_speed_spread},
        delays=late | ({"vision": vision_delay} if vision else {}),
    )


def _require_a_way(target_x: Any, target_y: Any) -> None:
    if (
        checks.is_concrete(target_x)
        and checks.is_concrete(target_y)
        and not target_x
        and not target_y
    ):
        raise InputError("the target is at the start: give target_x or target_y, in m from there")


def _require_parts(without: Mapping[str, Any], vision_delay: int) -> None:
    """Raise if an option is given whose via-point, field or vision is missing."""
    needs = {
        "via": "a via-point: via_x, via_y and via_time",
        "adaptation": "a field: curl, viscosity, load_x or load_y",
    }
    for name, value in without.items():
        if value is not None:
            raise InputError(f"{name} needs {needs[name]}")
    if vision_delay:
        raise InputError("vision_delay needs vision: give vision_noise")


def _given(what: str, **values: Any) -> bool:
    """Whether all of these are given; raises if only some are."""
    missing = [name for name, value in values.items() if value is None]
    if missing and len(missing) < len(values):
        raise InputError(f"{what} needs {', '.join(values)}: {', '.join(missing)} is missing")
    return not missing


def _fields(
    curl: Any, viscosity: Any, load_x: Any, load_y: Any, field_on: Any
) -> list[parts.Field]:
    """The forces that are given. Whether there is one does not depend on its size, so that trials
    with a field and trials without it have problems of the same structure."""
    fields = []
    if curl is not None:
        fields.append(parts.curl_field(curl))
    if viscosity is not None:
        fields.append(parts.viscous_field(viscosity))
    if load_x is not None or load_y is not None:
        fields.append(parts.load(tuple(0.0 if at is None else at for at in (load_x, load_y))))
    return [field._replace(present=field_on) for field in fields]
