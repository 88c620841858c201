"""Fits of real recordings: do they settle, do halves agree, does the cut matter?

    python benchmarks/recordings.py fit FOLDER --data ../shared/data [--only cp01] [--parts all odd]
    python benchmarks/recordings.py table FOLDER

`fit` writes a file for each person, part of the trials and seed into FOLDER, and skips those that
are there, so that it can be stopped and goes on. Parts are all trials, those with odd and even
numbers, and all trials cut at other speeds. `table` prints what docs/real-data.md shows.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import motorcost as mc
from motorcost.experiments.recorded_reaches import pointing_reaches
from motorcost.io.files import written_whole
from motorcost.study.cuts import APART, errors_apart
from motorcost.study.leaving_out import least
from motorcost.study.template import KNOWN, RECOMMENDED

# Metres per screen height, which nobody measured.
SCREEN = 0.3
# Screen heights from the centre within which an outward reach has to begin.
CENTRE = 0.025
# By part: which trials, and the speed in m/s at which a reach is cut.
PARTS: dict[str, tuple[slice, float]] = {
    "all": (slice(None), 0.05),
    "odd": (slice(0, None, 2), 0.05),
    "even": (slice(1, None, 2), 0.05),
    "cut at 0.03": (slice(None), 0.03),
    "cut at 0.08": (slice(None), 0.08),
}
CUTS = [part for part in PARTS if part.startswith("cut")]


def pointing(file: Path, speed: float) -> mc.Movements:
    """Reaches of one person who points."""
    movements = pointing_reaches(file).select(conditions=["goal_x", "goal_y"])
    turned = movements.along(("goal_x", "goal_y"))
    return turned.cut(speed, channels=("position", "lateral")).select(["position"], ["target"])


def mouse_reaches(file: Path) -> mc.Movements:
    """Outward reaches of one person with a mouse, without those that are not to be used."""
    import pandas as pd  # needed for these files only

    samples = pd.read_csv(file)
    samples = samples[samples["phase"] == "out"]
    keys = ["trial", "condition", "order", "target_index"]
    if samples["visible"].isna().all():
        # Recorded from a movement's beginning, without the wait before it: sample 0 is where the
        # movement before ended, and some movements begin there instead of at the centre.
        samples = samples[samples["sample"] > 0]
        first = samples.groupby(keys)[["x", "y"]].transform("first")
        samples = samples[np.hypot(first["x"], first["y"]) <= CENTRE]
    else:
        samples = samples[samples["visible"] == 1]
    movements = mc.io.from_frame(
        samples,
        trial=keys,
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


# Columns of the table.
COLUMNS = (
    "person",
    "trials",
    "lead",
    "settled",
    "searches that agree",
    "maxima",
    "innovations",
    "halves within 2 SE",
    "other cuts within 2 SE",
    "effort",
    "motor noise",
)
# Log likelihoods that are closer than this are of the same maximum.
SAME = 1e-3

Row = dict[str, Any]
Reader = Callable[[Path, float], mc.Movements]


def files(folder: Path) -> dict[str, tuple[Path, Reader]]:
    """Where the recordings of each person are, and how they are read."""
    result: dict[str, tuple[Path, Reader]] = {}
    for file in sorted((folder / "pointing").glob("*.dat")):
        result[file.stem.split("-")[0]] = (file, pointing)
    result["mouse"] = (folder / "centre-out" / "example.csv", centre_out)
    # Other sessions of the same software, probably of the same hand.
    result["mouse 2"] = (folder / "centre-out" / "example-experiment.csv", centre_out)
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
) -> Row:
    """What a fit of one part of a person's trials finds, as a row."""
    which, speed = PARTS[part]
    of_eyes = read is saccades
    task = "saccade" if of_eyes else "reaching"
    movements = least(read(file, speed)[:most], way=way)[which]
    trials = movements.trials(dt=0.002 if of_eyes else 0.01)
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
    if fit.interrupted:
        raise KeyboardInterrupt  # no file is written, so that the next call fits it again
    (channel,) = mc.check_fit(fit, key=jax.random.key(1), n_replicates=20).channels
    return {
        "trials": len(trials),
        "lead": fit.trials.lead,
        "leads": [
            {
                "lead": tried.lead,
                "after_first_sample": tried.after_first_sample,
                "converged": tried.converged,
            }
            for tried in fit.leads
        ],
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
            begin = time.perf_counter()
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
            row |= {"seed": args.seed, "seconds": time.perf_counter() - begin}
            with written_whole(path) as draft:
                draft.write_text(json.dumps({"person": person, "part": part, **row}))
            print(person, part, {k: v for k, v in row.items() if k != "point"}, flush=True)


def of_first_seed(rows: list[Row]) -> dict[str, dict[str, Row]]:
    """The fit with the lowest seed, by person and part."""
    result: dict[str, dict[str, Row]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        result.setdefault(row["person"], {}).setdefault(row["part"], row)
    return dict(sorted(result.items()))


def read_rows(folder: Path) -> list[Row]:
    """What `fit` has written."""
    rows = []
    for path in sorted(folder.glob("*.json")):
        row = json.loads(path.read_text())
        # Files that were written before rows had a seed have it in their name only.
        rows.append({"seed": int(path.stem.split()[-1])} | row)
    return rows


def table(folder: Path) -> None:
    """Print a row for each person."""
    rows = read_rows(folder)
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---" * len(COLUMNS) + "|")
    halves: list[float] = []
    cuts: list[float] = []
    for person, parts in of_first_seed(rows).items():
        of_halves = compared(parts, "odd", "even")
        of_cuts = [
            x for part in parts if part.startswith("cut") for x in compared(parts, "all", part)
        ]
        halves += of_halves
        cuts += of_cuts
        cells = [person, *cells_of(parts.get("all"))]
        between = [
            "; ".join(filter(None, [counted(of_halves), unsettled(parts, ("odd", "even"))])),
            "; ".join(filter(None, [counted(of_cuts), unsettled(parts, CUTS)])),
        ]
        cells[7:7] = between
        print("| " + " | ".join(cells) + " |")
    if halves:
        print(f"\nHalves agree within 2 standard errors in {counted(halves)} parameters.")
    if cuts:
        print(f"Other cuts agree within 2 standard errors in {counted(cuts)} parameters.")
    same, people = same_maximum(rows)
    if people:
        print(f"Fits with another seed found the same maximum in {same} of {people} people.")


def cells_of(whole: Row | None) -> list[str]:
    """What the table says of the fit to all trials of a person, but for comparisons."""
    if whole is None or "failed" in whole:
        message = "not fitted" if whole is None else f"failed: {whole['failed']}"
        return ["", "", message.replace("|", "/"), "", "", "", "", ""]
    value = {name: np.exp(x) for name, x in whole["point"].items()}
    others = ", ".join(f"{below:.2g}" for below in whole["maxima"][1:])
    tried = ", ".join(f"{1000 * lead['lead']:.0f}" for lead in whole.get("leads", []))
    return [
        f"{whole['trials']}",
        f"{1000 * whole['lead']:.0f} ms" + (f" of {tried}" if tried else ""),
        "yes" if whole["converged"] else "no",
        f"{whole['agreed']} of {whole['searches']}",
        f"{len(whole['maxima'])}" + (f" ({others} below)" if others else ""),
        f"{whole['variance']:.2f}, lag {whole['lag']:.2f}",
        f"{value['effort']:.2g}",
        f"{value['motor_noise']:.2g}",
    ]


def settled(row: Row | None) -> bool:
    """Whether a part was fitted and its search settled."""
    return row is not None and "failed" not in row and row["converged"]


def unsettled(parts: dict[str, Row], which: Iterable[str]) -> str:
    """The parts that cannot be compared although they were tried, in words."""
    names = [part for part in which if part in parts and not settled(parts[part])]
    return f"{', '.join(names)} did not settle" if names else ""


def compared(parts: dict[str, Row], one: str, other: str) -> list[float]:
    """How far two parts of a person's trials are apart in each parameter, in standard errors.

    Halves are of different trials: their errors add up as independent ones do. Cuts are of the same
    trials, and the larger error counts, as in a study's report.
    """
    first, second = parts.get(one), parts.get(other)
    if first is None or second is None or not (settled(first) and settled(second)):
        return []
    same_trials = other.startswith("cut")
    result = []
    for name, x in first["point"].items():
        difference = x - second["point"][name]
        errors = [row["errors"][name] for row in (first, second)]
        if same_trials:
            at_ends = all(name in row["at_bounds"] for row in (first, second))
            result.append(errors_apart(difference, errors, at_ends=at_ends))
        else:
            result.append(abs(difference) / np.hypot(*errors))
    return [distance for distance in result if np.isfinite(distance)]


def same_maximum(rows: list[Row]) -> tuple[int, int]:
    """In how many people fits of all trials with every other seed found the maximum that the first
    found, and how many people were fitted with several seeds."""
    of_person: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        if row["part"] == "all":
            of_person.setdefault(row["person"], []).append(row.get("log_likelihood", np.nan))
    several = [np.array(found) for found in of_person.values() if len(found) > 1]
    return sum(bool(np.all(np.abs(f - f[0]) < SAME)) for f in several), len(several)


def counted(distances: list[float]) -> str:
    return f"{sum(x < APART for x in distances)} of {len(distances)}" if distances else ""


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
