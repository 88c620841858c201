"""How long posteriors take, and whether they are right.

`python benchmarks/posterior.py nuts`: 4 chains of 1,000 draws of the costs of 100 simulated
reaches, after a few draws that compile the programs, and how far the intervals are from the profile
intervals of the fit, in standard errors. Beside wall time it prints the time of all cores together,
which does not depend on what else the machine does. `smc`: the same by sequential Monte Carlo.
`people`: 20 people of 50 trials each, of whom one has 3 and one has 300; the estimates of the
population beside the truth, and those of these two beside their estimates alone. `recordings`: the
first 20 movements of a person who was recorded.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import motorcost as mc
from motorcost.posterior.sampling import sample
from motorcost.posterior.words import convergence_table
from motorcost.study.template import KNOWN, RECOMMENDED
from recordings import files, saccades

PRIORS = {
    "effort": mc.LogUniform(1e-8, 1e-2),
    "velocity": mc.LogUniform(1e-3, 10.0),
    "force": mc.LogUniform(1e-4, 1.0),
}
TRUTH: dict[str, Any] = {"effort": 1e-5, "velocity": 0.2, "force": 0.02}
# Draws that take the same programs as a thousand.
FEW = 50
# Of people, by number, whose trials are few and many.
TRIALS_OF = {0: 3, 1: 300}
SPREADS = {"effort": 0.4, "velocity": 0.3, "force": 0.2}


def stages() -> tuple[Callable[[str, int, int | None], None], dict[str, float]]:
    """A progress function that notes when each stage began."""
    began: dict[str, float] = {}

    def note(what: str, done: int, total: int | None) -> None:
        began.setdefault(what, time.perf_counter())

    return note, began


def reaches(method: Any, draws: int) -> None:
    problem = mc.tasks.reaching(**TRUTH)
    trials = mc.simulate(problem, mc.solve(problem), n_trials=100, key=jax.random.key(0))
    for run, count in (("to compile", FEW), ("compiled", draws)):
        note, began = stages()
        start, start_of_cores = time.perf_counter(), time.process_time()
        post = sample(
            mc.tasks.reaching,
            trials,
            PRIORS,
            key=jax.random.key(1),
            method=method,
            n_draws=count,
            progress=note,
        )
        total, of_cores = time.perf_counter() - start, time.process_time() - start_of_cores
        sampling = began["predicting"] - began.get("sampling", start)
        table = convergence_table(post.posterior)
        least = min(row["ess_bulk"] for row in table.values())
        print(
            f"{run}, {count} draws: {total:.0f} s, of which sampling {sampling:.0f} s; all cores "
            f"together {of_cores:.0f} s"
        )
        print(
            f"  least effective draws {least:.0f}, {least / sampling:.0f} per second of sampling, "
            f"{least / of_cores:.0f} per second of all cores"
        )
        print(f"  largest R-hat {max(row['r_hat'] for row in table.values()):.4f}")
        if method == "nuts":
            stats = post.sample_stats
            print(
                f"  divergences {int(stats.diverging.sum())}, gradients per draw "
                f"{float(stats.n_steps.mean()):.1f}, acceptance "
                f"{float(stats.acceptance_rate.mean()):.2f}"
            )
    print(post.summary())
    fit = mc.fit(mc.tasks.reaching, trials, PRIORS, key=jax.random.key(1), n_starts=4)
    intervals, drawn = fit.interval(0.95, method="profile"), post.interval(0.95)
    for name in fit.names:
        error = np.sqrt(np.linalg.inv(fit.information)[fit.names.index(name)].max())
        off = (np.log(drawn[name]) - np.log(intervals[name])) / error
        print(f"{name}: ends of 95 % intervals off the profile's by {off[0]:+.2f}, {off[1]:+.2f}")


def people(count: int, trials_each: int, draws: int) -> None:
    rng = np.random.default_rng(0)
    parts = []
    truth = {name: np.exp(rng.normal(np.log(TRUTH[name]), SPREADS[name], count)) for name in TRUTH}
    for i in range(count):
        own: dict[str, Any] = {name: float(values[i]) for name, values in truth.items()}
        problem = mc.tasks.reaching(**own)
        n = TRIALS_OF.get(i, trials_each)
        trials = mc.simulate(problem, mc.solve(problem), n_trials=n, key=jax.random.key(i))
        parts.append(trials.with_conditions(subject=f"p{i:02d}"))
    trials = mc.concatenate(parts)
    note, began = stages()
    start = time.perf_counter()
    post = sample(
        mc.tasks.reaching,
        trials,
        PRIORS,
        key=jax.random.key(1),
        group="subject",
        n_draws=draws,
        n_starts=3,
        predictive=False,
        progress=note,
    )
    end = time.perf_counter()
    print(f"{count} people, {len(trials)} trials: {end - start:.0f} s; stages began at")
    print({what: round(at - start) for what, at in began.items()})
    print(f"gradients per draw {float(post.sample_stats.n_steps.mean()):.1f}")
    print(post.summary())
    for name in TRUTH:
        logs = np.log(truth[name])
        mean = np.log(post.posterior[f"{name}_mean"].values)
        spread = post.posterior[f"{name}_spread"].values
        print(
            f"{name}: mean {np.exp(logs.mean()):.4g} (of the people), "
            f"{np.exp(mean.mean()):.4g} ± {100 * mean.std():.0f} %; spread "
            f"{logs.std(ddof=1):.2f}, {spread.mean():.2f} ± {spread.std():.2f}"
        )
        alone = json.loads(post.posterior.attrs["alone"])[name]
        for i in TRIALS_OF:
            person = f"p{i:02d}"
            together = np.log(post.posterior[name].sel(subject=person)).mean()
            print(
                f"  {person}, {TRIALS_OF[i]} trials: true {truth[name][i]:.4g}, alone "
                f"{alone[person][0]:.4g}, with the population {np.exp(float(together)):.4g}, "
                f"whose mean is {np.exp(mean.mean()):.4g}"
            )


def recordings(person: str, folder: Path, draws: int) -> None:
    """A person's first 20 movements, with a lead of 50 ms."""
    file, read = files(folder)[person]
    of_eyes = read is saccades
    task = "saccade" if of_eyes else "reaching"
    trials = read(file, 0.05)[:20].trials(dt=0.002 if of_eyes else 0.01)
    note, began = stages()
    start = time.perf_counter()
    post = sample(
        getattr(mc.tasks, task),
        trials.with_lead(0.01 if of_eyes else 0.05),
        RECOMMENDED[task],
        fixed=KNOWN.get(task, {}),
        observer=mc.ObserverSpec(["angle" if of_eyes else "position"]),
        key=jax.random.key(0),
        n_draws=draws,
        n_warmup=150,
        n_starts=3,
        predictive=False,
        progress=note,
    )
    print(f"{person}: {time.perf_counter() - start:.0f} s; stages began at")
    print({what: round(at - start) for what, at in began.items()})
    print(post.summary())


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["nuts", "smc", "people", "recordings"])
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", default="S1", help="whose recordings are sampled")
    arguments = parser.parse_args()
    if arguments.what == "people":
        people(arguments.people, arguments.trials, arguments.draws)
    elif arguments.what == "recordings":
        recordings(arguments.only, arguments.data, arguments.draws)
    else:
        reaches(arguments.what, arguments.draws)


if __name__ == "__main__":
    main()
