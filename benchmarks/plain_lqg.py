"""Plain LQG, beside the package `lqg` (0.3.1, by Straub and Rothkopf), where both can do the work.

That package is licensed under the AGPL, so it is not among this project's dependencies and none
of its code is here. To have these rows, install it into an environment of your own, together
with this project, and run the suite there; without it they are skipped.

The two packages time the senses differently. In `lqg` an agent senses the state *after* each
step, before it acts again: y' = F x' + W om. Here it senses the state before the step, and acts
on it after. With x' = A x + B u + V xi these are the same where what is sensed directly is
neither driven nor disturbed in the same step, F V = F B = 0: then F x' = F A x, and H = F A is
the same sense. So the agent of this task sees positions, while force and noise act on
velocities, and the experimenter records the velocities. Both start at rest at zero, known
exactly, and the first sample has no density on either side: no constant is left between the two.

The task `pursuit` follows that timing itself, and has senses that are late: those rows are of its
bounded actor, whose past `lqg` keeps as further states, two for each step.
"""

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import motorcost as mc
from cases import Scale
from timing import Comparison, Run, SkippedError

DT = 1 / 60
RECORDED = ("velocity", "target velocity")
TRUTH = {"action_cost": 1e-3, "action_variability": 0.5, "sigma_target": 2.0}
# The bounds that `lqg` has built in for these names.
SUPPORTS = {
    "action_cost": mc.LogUniform(1e-7, 1e-2),
    "action_variability": mc.Uniform(0.01, 2.0),
    "sigma_target": mc.Uniform(0.01, 100.0),
}


def comparisons(scale: Scale) -> Iterator[Comparison]:
    n_trials, steps = (2, 6) if scale.once else (20, 180)
    of = f"plain LQG, {n_trials} trials, T = {steps}"
    value = partial(_likelihoods, n_trials, steps, lambda function: function)
    yield Comparison(f"{of}: log likelihood", "lqg", value, 51, agree=1e-9, aim=3.0)
    both = partial(_likelihoods, n_trials, steps, jax.value_and_grad)
    yield Comparison(f"{of}: value and gradient", "lqg", both, 51, agree=1e-7, aim=3.0)
    # Its search stops at a tolerance of 1e-4, ours goes on: so the maximum is what must agree.
    same = None if scale.once else 1e-6
    yield Comparison(f"{of}: 5-start fit", "lqg", partial(_fits, n_trials, steps), 3, agree=same)
    steps = 6 if scale.once else 100
    for delay in (0, 1) if scale.once else (0, 1, 12):
        of = f"pursuit, delay of {delay} steps"
        for what, function, repeats, agree in (
            ("log likelihood", lambda function: function, 31, 1e-9),
            ("value and gradient", jax.value_and_grad, 15, 1e-6),
        ):
            prepare = partial(_pursuits, delay, n_trials, steps, function)
            yield Comparison(f"{of}: {what}", "lqg", prepare, repeats, agree=agree, aim=3.0)


def _likelihoods(n_trials: int, steps: int, of: Any) -> tuple[Run, Run]:
    _require_lqg()
    observed = simulated(n_trials, steps).observed
    arguments = TRUTH, observed
    return partial(jax.jit(of(ours)), *arguments), partial(jax.jit(of(theirs)), *arguments)


PURSUIT = {"effort": 0.3, "target_noise": 3.0, "cursor_noise": 2.0}
# By step, as `lqg` has them; ours are by second.
WANDER, MOTOR_NOISE = 1.2, 0.4
SEEN = mc.ObserverSpec(["target", "cursor"])


def _pursuits(delay: int, n_trials: int, steps: int, of: Any) -> tuple[Run, Run]:
    _require_lqg()
    trials = pursued(n_trials, steps, delay)

    def ours(parameters: dict[str, Any]) -> Any:
        return pursuit_likelihood(parameters, delay, trials)

    def theirs(parameters: dict[str, Any]) -> Any:
        return their_pursuit_likelihood(parameters, delay, trials.observed)

    return partial(jax.jit(of(ours)), PURSUIT), partial(jax.jit(of(theirs)), PURSUIT)


def pursued(n_trials: int, steps: int, delay: int) -> mc.Trials:
    """Random walks, and cursors that follow them four steps late; known where they start."""
    rng = np.random.default_rng(0)
    target = np.cumsum(WANDER * rng.normal(size=(n_trials, steps)), axis=1)
    cursor = np.cumsum(MOTOR_NOISE * rng.normal(size=(n_trials, steps)), axis=1)
    for t in range(4, steps):
        noise = MOTOR_NOISE * rng.normal(size=n_trials)
        cursor[:, t] = 0.8 * cursor[:, t - 1] + 0.2 * target[:, t - 4] + noise
    samples = np.stack([target, cursor], axis=-1)
    problem = mc.tasks.pursuit(delay=delay, steps=steps, dt=DT)
    starts = mc.tasks.pursuit_starts(problem, samples[:, 0])
    return mc.Trials.recorded(samples, dt=DT, channels=SEEN.states, starts=starts)


def pursuit_likelihood(parameters: dict[str, Any], delay: int, trials: mc.Trials) -> Any:
    """The log likelihood of the bounded actor by this library."""
    by_second = {"wander": WANDER / DT**0.5, "motor_noise": MOTOR_NOISE / DT**0.5}
    steps = trials.observed.shape[1]
    problem = mc.tasks.pursuit(**parameters, **by_second, delay=delay, steps=steps, dt=DT)
    return mc.log_likelihood(problem, trials, observer=SEEN)


def their_pursuit_likelihood(parameters: dict[str, Any], delay: int, observed: Any) -> Any:
    """The same by `lqg`."""
    system = import_module("lqg.tracking.basic").BoundedActor(
        process_noise=WANDER,
        action_variability=MOTOR_NOISE,
        sigma_target=parameters["target_noise"],
        sigma_cursor=parameters["cursor_noise"],
        action_cost=parameters["effort"],
        dt=DT,
        T=observed.shape[1] - 1,
    )
    if delay:
        system = import_module("lqg.tracking.delay").TemporalDelayModel(system, delay)
    return system.log_likelihood(observed).sum()


def _fits(n_trials: int, steps: int) -> tuple[Run, Run]:
    _require_lqg()
    trials = simulated(n_trials, steps)
    their_value, their_maximum = jax.jit(theirs), their_fit(trials.observed)
    return lambda: our_fit(trials), lambda: their_value(their_maximum(), trials.observed)


def _require_lqg() -> None:
    if find_spec("lqg") is None:
        raise SkippedError(
            "lqg is not installed. It is licensed under the AGPL, so it is no extra of motorcost: "
            "pip install lqg==0.3.1 into an environment of your own that has motorcost"
        )


def matrices(action_cost: Any, action_variability: Any, sigma_target: Any) -> dict[str, Any]:
    """A hand follows a target; states are both velocities and both positions."""
    slow = 1 - DT  # both velocities die away within about a second
    distance = jnp.array([0.0, 0.0, 1.0, -1.0])
    return {
        "A": jnp.array([[slow, 0, 0, 0], [0, slow, 0, 0], [DT, 0, 1, 0], [0, DT, 0, 1]]),
        "B": jnp.array([[DT], [0.0], [0.0], [0.0]]),
        "F": jnp.eye(4)[2:],
        "V": jnp.zeros((4, 4)).at[0, 0].set(action_variability).at[1, 1].set(1.0),
        "W": jnp.diag(jnp.array([1.0, 1.0])).at[1, 1].set(sigma_target),
        "Q": jnp.outer(distance, distance),
        "R": jnp.reshape(jnp.asarray(action_cost, float), (1, 1)),
    }


def task(
    action_cost: Any = 1e-3,
    action_variability: Any = 0.5,
    sigma_target: Any = 2.0,
    steps: int = 180,
    dt: Any = DT,
) -> mc.Problem:
    """The task for this library."""
    parts = matrices(action_cost, action_variability, sigma_target)
    F = parts.pop("F")
    return mc.Problem(
        steps=steps,
        H=F @ parts["A"],
        states=["velocity", "target velocity", "position", "target"],
        dt=dt,
        **parts,
    )


def simulated(n_trials: int, steps: int) -> mc.Trials:
    problem = task(**TRUTH, steps=steps)
    observer = mc.observe(problem, RECORDED)
    policy = mc.solve(problem)
    key = jax.random.key(0)
    return mc.simulate(problem, policy, n_trials=n_trials, key=key, observer=observer)


def ours(parameters: dict[str, Any], observed: Any) -> Any:
    problem = task(**parameters, steps=observed.shape[1])
    return mc.log_likelihood(problem, observed, observer=mc.observe(problem, RECORDED))


def theirs(parameters: dict[str, Any], observed: Any) -> Any:
    lqg = import_module("lqg")
    system = lqg.LQG(**matrices(**parameters), T=observed.shape[1] - 1)
    return system.log_likelihood(observed, Sigma0=jnp.zeros((4, 4))).sum()


def our_fit(trials: mc.Trials) -> float:
    observer = mc.ObserverSpec(RECORDED)
    key = jax.random.key(1)
    return mc.fit(task, trials, SUPPORTS, observer=observer, key=key, n_starts=5).log_likelihood


def their_fit(observed: Any) -> Any:
    """Its own maximum likelihood (five starts of L-BFGS together), compiled once."""
    lqg = import_module("lqg")
    mle = import_module("lqg.infer.mle")
    numpyro = import_module("numpyro")

    class Tracking(lqg.LQG):  # type: ignore[name-defined]
        def __init__(
            self,
            action_cost: Any = 1e-3,
            action_variability: Any = 0.5,
            sigma_target: Any = 2.0,
            T: int = 1,
        ) -> None:
            super().__init__(**matrices(action_cost, action_variability, sigma_target), T=T)

    def model(x: Any, model_type: Any) -> None:
        values = {name: numpyro.param(name, jnp.array(value)) for name, value in TRUTH.items()}
        system = model_type(**values, T=x.shape[1] - 1)
        numpyro.sample("x", system.to_numpyro(xdim=2, Sigma0=jnp.zeros((4, 4))), obs=x)

    fit = jax.jit(lambda key, x: mle.max_likelihood(key, x, model=Tracking, numpyro_fn=model))
    return partial(fit, jax.random.key(1), observed)
