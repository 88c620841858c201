"""Fit `pursuit` and `subjective_pursuit` to recordings of a cursor that follows a target.

    python benchmarks/pursuit.py FILE ... [--rate 20] [--delays 0 2 4]

The files are those of visuomotor-phase-locked-loop (Matic 2022, bioRxiv 2022.07.20.500761):
`random-*.json` (60 s at 60 Hz, pixels of 160/1080 mm) and `ellipse-*.json` (16 s at 200 Hz, pixels
of 1/10.8 mm). The first four seconds and the last one are left out; both axes are cut into pieces
of five seconds, which are taken for separate trials. 20 samples per second are used; delays are in
steps between these.

A line for each model and delay: the log likelihood of the cursor per sample, beyond that of a
cursor which takes a random walk by itself; the correlation of each innovation of the cursor with
the next, which is 0 if the model explains how the cursor moves; and the estimates. Above them is by
how much the recorded cursor lags behind the target, from the correlation of their steps.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

import motorcost as mc

SKIPPED, LAST, PIECE = 4.0, 1.0, 5.0  # seconds
SEEN = mc.ObserverSpec(["target", "cursor"], 0.0)
FREE = {
    mc.tasks.pursuit: ["effort", "target_noise", "motor_noise"],
    mc.tasks.subjective_pursuit: [
        "effort",
        "target_noise",
        "motor_noise",
        "believed_wander",
        "believed_drift",
    ],
}


def pieces(path: Path, rate: int) -> tuple[np.ndarray, float]:
    """Pieces of both axes, (piece, time, target and cursor), in metres from the target's start, and
    by how many seconds the cursor lags."""
    recorded = json.loads(path.read_text())
    random = "txs" in recorded
    recorded_rate, metres = (60, 160 / 1080 / 1000) if random else (200, 1 / 10.8 / 1000)
    length, every = int(PIECE * recorded_rate), recorded_rate // rate
    cut, lags = [], []
    for axis in "xy":
        names = [f"{what}{axis}{'s' if random else ''}" for what in "tc"]
        both = metres * np.stack([recorded[name] for name in names], axis=-1)
        both = both[int(SKIPPED * recorded_rate) : -int(LAST * recorded_rate)]
        lags.append(lag(np.diff(both, axis=0), recorded_rate))
        count = len(both) // length
        cut.append(both[: count * length].reshape(count, length, 2))
    samples = np.concatenate(cut)[:, ::every]
    return samples - samples[:, :1, :1], float(np.mean(lags))


def lag(steps: np.ndarray, rate: int) -> float:
    """The time after the target's steps at which those of the cursor are most like them."""
    delays = range(-rate // 4, rate // 2)
    inner = slice(rate // 2, len(steps) - rate // 2)
    alike = [np.corrcoef(steps[inner, 0], np.roll(steps[:, 1], -d)[inner])[0, 1] for d in delays]
    return delays[int(np.argmax(alike))] / rate


def random_walk(steps: np.ndarray) -> float:
    """The log likelihood of steps that are normal and independent, at the best SD."""
    return float(-0.5 * steps.size * (np.log(2 * np.pi * (steps**2).mean()) + 1))


def fitted(task: Any, samples: np.ndarray, dt: float, delay: int, n_starts: int) -> str:
    """A line about the fit of one model with one delay."""
    wander = float(np.sqrt((np.diff(samples[..., 0], axis=1) ** 2).mean() / dt))
    fixed = {"wander": wander, "delay": delay, "cursor_noise": 1e-3}
    problem = task(**fixed, steps=samples.shape[1], dt=dt)
    trials = mc.Trials.recorded(
        samples,
        dt=dt,
        channels=SEEN.states,
        starts=mc.tasks.pursuit_starts(problem, samples[:, 0]),
    )
    fit = mc.fit(
        task,
        trials,
        FREE[task],
        fixed=fixed,
        observer=SEEN,
        n_starts=n_starts,
        key=jax.random.key(0),
    )
    # What is known of the target does not depend on the agent.
    alone = random_walk(np.diff(samples[..., 0], axis=1))
    cursor = np.diff(samples[..., 1], axis=1)
    gain = (fit.log_likelihood - alone - random_walk(cursor)) / cursor.size
    whitened = np.asarray(fit.beliefs().innovations)[:, 1:, 1]
    lag = np.corrcoef(whitened[:, 1:].ravel(), whitened[:, :-1].ravel())[0, 1]
    values = ", ".join(f"{name} {value:.3g}" for name, value in fit.estimates.items())
    settled = "" if fit.converged else "  (not settled)"
    return f"{gain:8.3f}  {lag:6.2f}  {values}{settled}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--rate", type=int, default=20, help="samples per second")
    parser.add_argument("--delays", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--starts", type=int, default=3)
    chosen = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for path in chosen.files:
        samples, behind = pieces(path, chosen.rate)
        moved = np.diff(samples[..., 0], axis=1)
        smooth = np.corrcoef(moved[:, 1:].ravel(), moved[:, :-1].ravel())[0, 1]
        print(
            f"{path.name}: {len(samples)} pieces; correlation of the target's steps {smooth:.3f}; "
            f"the cursor lags by {1e3 * behind:.0f} ms"
        )
        print("model               delay   gain     lag 1  estimates")
        for task in FREE:
            for delay in chosen.delays:
                line = fitted(task, samples, 1 / chosen.rate, delay, chosen.starts)
                print(f"{task.__name__:18s} {delay:6d} {line}", flush=True)


if __name__ == "__main__":
    main()
