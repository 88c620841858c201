"""The bias of the Gaussian approximation of the likelihood.

At the true parameters the mean score is zero if the likelihood is exact. Where it is not, the
estimates are biased: by the mean score divided by the information, which this prints, with its
Monte Carlo error, beside the standard error that 100 trials leave. The last columns are the
variance and the kurtosis of the whitened innovations e, 1 and 3 if they are standard normal.
Run `python benchmarks/approximation.py`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import motorcost as mc

N_TRIALS = 5_000


def measure(name: str, task: Any, parameters: tuple[str, ...], states: Any, noise: float) -> None:
    problem = task()
    observer = mc.ObserverSpec(problem.state_names if states is None else states, noise)
    trials = mc.simulate(
        problem,
        mc.solve(problem),
        n_trials=N_TRIALS,
        key=jax.random.key(0),
        observer=observer,
    )
    defaults = mc.tasks.defaults(task)

    @jax.jit
    @jax.jacfwd
    def scores(logs: Any, observed: Any) -> Any:
        world = task(**{k: defaults[k] * jnp.exp(logs[i]) for i, k in enumerate(parameters)})
        return mc.log_likelihood(world, observed, observer=observer, per_trial=True)

    per_trial = np.asarray(scores(jnp.zeros(len(parameters)), trials.observed))
    mean = per_trial.mean(axis=0)
    covariance = np.linalg.inv(np.cov(per_trial.T).reshape(len(parameters), -1))
    bias, error = covariance @ mean, np.sqrt(np.diagonal(covariance) / 100)
    mc_error = error * np.sqrt(100 / N_TRIALS)
    e = np.asarray(mc.track_beliefs(problem, trials, observer=observer).innovations)
    for i, parameter in enumerate(parameters):
        print(
            f"{name:<20}{parameter:<13}{bias[i]:>+9.4f} ± {mc_error[i]:.4f}{error[i]:>10.4f}"
            f"{np.nanvar(e):>10.3f}{np.nanmean(e**4) / np.nanmean(e**2) ** 2:>10.2f}"
        )


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    print(f"{N_TRIALS:,} simulated trials of each task at its defaults; parameters on a log scale")
    print(
        f"{'task':<20}{'parameter':<13}{'bias':>18}{'SE (100)':>10}{'var(e)':>10}{'kurtosis':>10}"
    )
    cost = ("effort", "velocity", "force")
    measure("reaching", mc.tasks.reaching, cost, None, 0.0)
    measure("reaching, position", mc.tasks.reaching, cost, ["position"], 1e-3)
    measure("saccade", mc.tasks.saccade, ("effort",), None, 0.0)
    measure("tracking", mc.tasks.tracking, ("effort", "motor_noise"), None, 0.0)
    for seed in range(5):
        task = mc.tasks.random_problem(jax.random.key(seed))
        measure(f"random problem {seed}", task, ("effort_1", "effort_2"), None, 0.0)


if __name__ == "__main__":
    main()
