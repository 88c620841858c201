"""Fits of real recordings: do they settle, do halves agree, does the cut matter?

    python benchmarks/recordings.py fit FOLDER --data ../shared/data [--only cp01] [--parts all odd]
    python benchmarks/recordings.py table FOLDER

`fit` writes a file for each person and part of the trials into FOLDER, and skips those that are
there, so that it can be stopped and goes on. Parts are all trials, those with odd and even numbers,
and all trials cut at other speeds. `table` prints what docs/real-data.md shows.
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
from motorcost.experiments.recorded_reaches import pointing_reaches
from motorcost.io.files import written_whole
from motorcost.study.leaving_out import least
from motorcost.study.template import KNOWN, RECOMMENDED

# Metres per screen height, which nobody measured.
SCREEN = 0.3
# By part: which trials, and the speed in m/s at which a reach is cut.
PARTS: dict[str, tuple[slice, float]] = {
    "all": (slice(None), 0.05),
    "odd": (slice(0, None, 2), 0.05),
    "even": (slice(1, None, 2), 0.05),
    "cut at 0.03": (slice(None), 0.03),
    "cut at 0.08": (slice(None), 0.08),
}


def pointing(file: Path, speed: float) -> mc.Movements:
    """Reaches of one person who points."""
    movements = pointing_reaches(file).select(conditions=["goal_x", "goal_y"])
    turned = movements.along(("goal_x", "goal_y"))
    return turned.cut(speed, channels=("position", "lateral")).select(["position"], ["target"])


def mouse_reaches(file: Path) -> mc.Movements:
    """Outward reaches of one person with a mouse, without those that are not to be used."""
    import pandas as pd  # needed for this file only

    samples = pd.read_csv(file)
    movements = mc.io.from_frame(
        samples[(samples["visible"] == 1) & (samples["phase"] == "out")],
        trial=["trial", "condition", "order", "target_index"],
        time="t_s",
        channels=["x", "y"],
        conditions=["target_x", "target_y"],
    )
    return movements.scaled(SCREEN, "m", ["x", "y", "target_x", "target_y"])


def centre_out(file: Path, speed: float) -> mc.Movements:
    """Reaches of one person with a mouse, on the lines to their targets."""
    turned = mouse_reaches(file).along(("target_x", "target_y"))
    return turned.cut(speed, channels=("position", "lateral")).select(["position"], ["target"])


def saccades(file: Path, speed: float) -> mc.Movements:
    """Saccades of at least 4 degrees of one person; they are cut at 30 degrees/s."""
    movements = mc.datasets.load("saccades", file, margin=0.05)
    turned = movements.along(
        ("end_x", "end_y"), start=("start_x", "start_y"), names=("angle", "lateral")
    )
    turned = turned.keep(turned.conditions["target"] >= 4.0, "the target is nearer than 4")
    cut = turned.cut(30.0, channels=("angle", "lateral"), smooth=0.003, margin=0.01)
    return cut.select(["angle"], ["target"])


Reader = Callable[[Path, float], mc.Movements]


def files(folder: Path) -> dict[str, tuple[Path, Reader]]:
    """Where the recordings of each person are, and how they are read."""
    result: dict[str, tuple[Path, Reader]] = {}
    for file in sorted((folder / "pointing").glob("*.dat")):
        result[file.stem.split("-")[0]] = (file, pointing)
    result["mouse"] = (folder / "centre-out" / "example.csv", centre_out)
    for file in sorted((folder / "saccades").glob("*.npy")):
        result[file.stem.split("_")[-1]] = (file, saccades)
    return result


def fitted(
    file: Path,
    read: Reader,
    part: str,
    *,
    most: int,
    starts: int,
    leads: list[float],
    seed: int,
    way: float | None = None,
) -> dict[str, Any]:
    """What a fit of one part of a person's trials finds, as a row."""
    which, speed = PARTS[part]
    of_eyes = read is saccades
    task = "saccade" if of_eyes else "reaching"
    movements = least(read(file, speed)[:most], way=way)[which]
    trials = movements.trials(dt=0.002 if of_eyes else 0.01)
    begin = time.perf_counter()
    fit = mc.fit(
        getattr(mc.tasks, task),
        trials,
        RECOMMENDED[task],
        fixed=KNOWN.get(task, {}),
        observer=mc.ObserverSpec(["angle" if of_eyes else "position"]),
        lead=leads,
        n_starts=starts,
        key=jax.random.key(seed),
    )
    (channel,) = mc.check_fit(fit, key=jax.random.key(1), n_replicates=20).channels
    return {
        "trials": len(trials),
        "seconds": time.perf_counter() - begin,
        "lead": fit.trials.lead,
        "log_likelihood": fit.log_likelihood,
        "converged": fit.converged,
        "agreed": fit.agreed,
        "searches": len(fit.starts),
        "maxima": [m.below for m in fit.maxima],
        "at_bounds": list(fit.at_bounds),
        "point": dict(zip(fit.names, fit.point.tolist(), strict=True)),
        "errors": {name: float(error) for name, error in fit.search_scale_errors.items()},
        "variance": channel.variance,
        "lag": channel.lag,
        "coverage": channel.coverage,
    }


def fit_all(args: argparse.Namespace) -> None:
    """Fit every person and part that has no file yet."""
    args.folder.mkdir(parents=True, exist_ok=True)
    for person, (file, read) in files(args.data).items():
        for part in args.parts:
            path = args.folder / f"{person} {part} {args.seed}.json"
            cut_elsewhere = read is saccades and part.startswith("cut")
            if (args.only and person not in args.only) or path.exists() or cut_elsewhere:
                continue
            try:
                row = fitted(
                    file,
                    read,
                    part,
                    most=args.most,
                    starts=args.starts,
                    leads=[0.0] if read is saccades else args.leads,
                    seed=args.seed,
                    way=args.way,
                )
            except (mc.InputError, mc.ConvergenceError) as error:
                row = {"failed": str(error)}
            with written_whole(path) as draft:
                draft.write_text(json.dumps({"person": person, "part": part, **row}))
            print(person, part, {k: v for k, v in row.items() if k not in ("point",)}, flush=True)


def apart(one: dict[str, Any], other: dict[str, Any]) -> list[float]:
    """How far two fits are from each other in each parameter, in standard errors of the
    difference; those that are at an end of a support in either are left out."""
    result = []
    for name, x in one["point"].items():
        error = np.hypot(one["errors"][name], other["errors"][name])
        if np.isfinite(error):
            result.append(abs(x - other["point"][name]) / error)
    return result


def table(folder: Path) -> None:
    """Print a row for each person."""
    rows = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    of_person: dict[str, dict[str, Any]] = {}
    for row in rows:
        of_person.setdefault(row["person"], {})[row["part"]] = row
    print(
        "| person | trials | lead | settled | searches that agree | maxima | innovations |", end=""
    )
    print(" halves within 2 SE | other cuts within 2 SE | effort | motor noise |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    halves: list[float] = []
    for person, parts in of_person.items():
        whole = parts.get("all")
        if whole is None or "failed" in whole:
            print(f"| {person} | {'' if whole is None else whole['failed']} |" + " |" * 9)
            continue
        of_halves = within(parts, ("odd", "even"))
        halves += of_halves
        of_cuts = [
            x for part in parts if part.startswith("cut") for x in within(parts, ("all", part))
        ]
        value = {name: np.exp(x) for name, x in whole["point"].items()}
        others = ", ".join(f"{below:.2g}" for below in whole["maxima"][1:])
        print(
            f"| {person} | {whole['trials']} | {1000 * whole['lead']:.0f} ms "
            f"| {'yes' if whole['converged'] else 'no'} "
            f"| {whole['agreed']} of {whole['searches']} "
            f"| {len(whole['maxima'])}{f' ({others} below)' if others else ''} "
            f"| {whole['variance']:.2f}, lag {whole['lag']:.2f} "
            f"| {counted(of_halves)} | {counted(of_cuts)} "
            f"| {value['effort']:.2g} | {value['motor_noise']:.2g} |"
        )
    if halves:
        print(f"\nHalves agree within 2 standard errors in {counted(halves)} parameters.")


def within(parts: dict[str, Any], pair: tuple[str, str]) -> list[float]:
    """The distances between two parts of a person's trials, if both were fitted."""
    rows = [parts.get(part) for part in pair]
    if any(row is None or "failed" in row or not row["converged"] for row in rows):
        return []
    return apart(rows[0], rows[1])  # type: ignore[arg-type]


def counted(distances: list[float]) -> str:
    return f"{sum(x < 2 for x in distances)} of {len(distances)}" if distances else ""


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit real recordings.")
    parser.add_argument("what", choices=["fit", "table"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="the folder with pointing, saccades, ...")
    parser.add_argument("--only", nargs="*", help="names of people")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--most", type=int, default=40, help="trials of a person, at most")
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--leads", type=float, nargs="*", default=[0.0, 0.05, 0.1])
    parser.add_argument("--way", type=float, help="leave out trials that end before this share")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    if args.what == "table":
        table(args.folder)
    elif args.data is None or not args.data.is_dir():
        parser.error("fit needs --data, a folder with recordings")
    else:
        fit_all(args)


if __name__ == "__main__":
    main()
