"""Write reaches.csv, a table as a lab might have it: `python docs/start/make_reaches.py`.

Sixty simulated reaches of 10 to 14 cm from a home position to targets in eight directions, recorded
at 100 Hz: subject, trial, time in milliseconds, hand and target in millimetres.
"""

import jax
import numpy as np
import pandas as pd

jax.config.update("jax_enable_x64", True)

import motorcost as mc  # noqa: E402

HOME = np.array([250.0, 180.0])  # mm, from a corner of the table
TRUTH = {"effort": 1e-5, "velocity": 0.2, "force": 0.02, "motor_noise": 0.5}


def reach(number: int, distance: float, angle: float) -> pd.DataFrame:
    """One trial: the hand in the plane, which leaves the line to the target only by noise."""
    problem = mc.tasks.reaching(**TRUTH, target=distance, steps=40)
    key = jax.random.key(number)
    camera = mc.ObserverSpec(["position"], noise=5e-4)
    trial = mc.simulate(problem, mc.solve(problem), n_trials=1, key=key, observer=camera)
    along = np.asarray(trial.observed[0, :, 0]) * 1000
    across = np.random.default_rng(number).normal(0, 0.5, len(along))
    direction = np.array([np.cos(angle), np.sin(angle)])
    normal = np.array([-direction[1], direction[0]])
    hand = HOME + np.outer(along, direction) + np.outer(across, normal)
    target = HOME + 1000 * distance * direction
    return pd.DataFrame(
        {
            "subject": "s01",
            "trial": number,
            "time_ms": 10 * np.arange(len(along)),
            "hand_x": hand[:, 0].round(2),
            "hand_y": hand[:, 1].round(2),
            "target_x": target[0].round(2),
            "target_y": target[1].round(2),
        }
    )


def main() -> None:
    """Write the file."""
    rows = [reach(i + 1, (0.10, 0.12, 0.14)[i % 3], (i % 8) * np.pi / 4) for i in range(60)]
    pd.concat(rows).to_csv("reaches.csv", index=False)


if __name__ == "__main__":
    main()
