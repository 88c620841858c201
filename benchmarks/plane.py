"""Fits of recordings in the plane, without turning them onto a line.

    python benchmarks/plane.py fit FOLDER --data ../shared/data [--only mouse cp01 S1]
    python benchmarks/plane.py report FOLDER

`fit` saves the fit of each person in FOLDER, and skips those that are there. `report` writes a
report of each with paths, and maps of speed and curvature, and prints the estimates and what the
model misses.
"""

import argparse
import time
from pathlib import Path

import jax
import numpy as np

import motorcost as mc
from motorcost.experiments.recorded_reaches import pointing_reaches
from motorcost.study.template import KNOWN, RECOMMENDED
from recordings import mouse_reaches


def pointing(folder: Path, person: str) -> mc.Movements:
    """Reaches of one person who points."""
    movements = pointing_reaches(folder / "pointing" / f"{person}-1.dat")
    chosen = movements.select(conditions=["goal_x", "goal_y"])
    return chosen.rename(goal_x="target_x", goal_y="target_y")


def saccades(folder: Path, person: str) -> mc.Movements:
    """Saccades of one person, of at least 4 degrees."""
    file = folder / "saccades" / f"lookAtPoint_EL_{person}.npy"
    movements = mc.datasets.load("saccades", file, margin=0.05)
    centred = movements.cut(30.0, smooth=0.003, margin=0.01).centred(
        ("end_x", "end_y"), ("start_x", "start_y")
    )
    ways = np.hypot(centred.conditions["target_x"], centred.conditions["target_y"])
    return centred.keep(ways >= 4.0, "the target is nearer than 4 degrees")


def fitted(folder: Path, person: str, *, most: int, starts: int) -> mc.Fit:
    """The fit of one person's movements."""
    if person.startswith("S"):
        task, trials = (
            "planar_saccade",
            saccades(folder, person)[:most].trials(0.002, ["target_x", "target_y"]),
        )
    else:
        recorded = (
            mouse_reaches(folder / "centre-out" / "example.csv")
            if person == "mouse"
            else pointing(folder, person)
        )
        centred = recorded.centred(("target_x", "target_y")).cut(0.05)
        dt = 1 / 60 if person == "mouse" else 0.015
        task, trials = "planar_reaching", centred[:most].trials(dt, ["target_x", "target_y"])
    return mc.fit(
        getattr(mc.tasks, task),
        trials,
        RECOMMENDED[task],
        fixed=KNOWN.get(task, {}),
        observer=mc.ObserverSpec(["x", "y"]),
        lead=0.0 if person.startswith("S") else 0.05,
        n_starts=starts,
        key=jax.random.key(0),
    )


def fit_all(args: argparse.Namespace) -> None:
    """Save the fit of everyone who has none yet."""
    args.folder.mkdir(parents=True, exist_ok=True)
    for person in args.only:
        path = args.folder / f"{person}.fit"
        if path.exists():
            continue
        begin = time.perf_counter()
        fit = fitted(args.data, person, most=args.most, starts=args.starts)
        seconds = time.perf_counter() - begin
        print(f"{person}: {len(fit.trials)} trials, {seconds:.0f} s\n{fit.summary()}", flush=True)
        fit.save(path)


def report_all(args: argparse.Namespace) -> None:
    """Write the reports of all fits."""
    for path in sorted(args.folder.glob("*.fit")):
        fit = mc.load(path)
        fit.report(args.folder / path.stem, profiles=False, title=f"{path.stem}, in the plane")
        checked = mc.check_fit(fit, key=jax.random.key(0))
        print(f"{path.stem}\n{fit.summary()}", *checked.conclusion, sep="\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    fit = commands.add_parser("fit")
    fit.add_argument("folder", type=Path)
    fit.add_argument("--data", type=Path, required=True)
    fit.add_argument("--only", nargs="+", default=["mouse", "cp01", "S1"])
    fit.add_argument("--most", type=int, default=24, help="trials of each person")
    fit.add_argument("--starts", type=int, default=4)
    fit.set_defaults(run=fit_all)
    report = commands.add_parser("report")
    report.add_argument("folder", type=Path)
    report.set_defaults(run=report_all)
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    args.run(args)


if __name__ == "__main__":
    main()
