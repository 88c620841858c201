"""Models that differ in structure, compared by leave-one-out cross-validation of simulated reaches:
`python benchmarks/structures.py`. docs/posteriors.md shows what it prints."""

import argparse
from collections.abc import Callable
from functools import wraps
from typing import Any

import jax

import motorcost as mc
from motorcost.posterior.arviz_groups import arviz
from motorcost.tasks.declarations import Task
from motorcost.tasks.late_senses import delayed

# Coarse steps, so that the comparison takes minutes.
STEP = 0.03
TRUTH: dict[str, Any] = {"effort": 1e-5, "motor_noise": 0.5, "steps": 15, "dt": STEP}
PRIORS = {"effort": mc.LogNormal(1e-5, 1.5), "motor_noise": mc.LogNormal(0.5, 0.7)}
OBSERVER = mc.ObserverSpec(["position", "velocity"], noise=1e-3)


def unaware(task: Task) -> Task:
    """The task of an agent that does not know of its signal-dependent motor noise."""

    @wraps(task)
    def changed(**arguments: Any) -> mc.Problem:
        return task(**arguments).believing(C=[])

    return changed


MODELS: dict[str, Callable[[Task], Task]] = {
    "as simulated": lambda task: task,
    "steady noise": mc.baselines.with_average_noise,
    "senses 60 ms late": lambda task: delayed(task, 2),
    "unaware of its noise": unaware,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--draws", type=int, default=250)
    parser.add_argument("--chains", type=int, default=2)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    problem = mc.tasks.reaching(**TRUTH)
    trials = mc.simulate(
        problem,
        mc.solve(problem),
        n_trials=arguments.trials,
        key=jax.random.key(0),
        observer=OBSERVER,
    )
    posteriors = {}
    for name, change in MODELS.items():
        posteriors[name] = mc.sample(
            change(mc.tasks.reaching),
            trials,
            PRIORS,
            key=jax.random.key(1),
            fixed={"dt": STEP},
            observer=OBSERVER,
            n_chains=arguments.chains,
            n_draws=arguments.draws,
            n_warmup=100,
            n_starts=2,
            predictive=False,
        )
        print(f"{name}\n{posteriors[name]}\n", flush=True)
    table = arviz().compare(posteriors)
    columns = ["rank", "elpd_loo", "p_loo", "elpd_diff", "dse", "weight", "warning"]
    print(table[columns].round(2).to_string())


if __name__ == "__main__":
    main()
