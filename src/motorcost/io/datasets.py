"""Public recordings: where they are, under which licence, and how they are read.

Nothing is downloaded: `describe` says what to fetch, `load` reads what was fetched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from motorcost import checks, io
from motorcost.data.joining import concatenate_movements
from motorcost.data.movements import Movements
from motorcost.errors import InputError, shown
from motorcost.io.arrays import read_npy
from motorcost.io.limits import GIBIBYTE, Budget

HOME = (720.0, 800.0)  # where each pointing movement starts and ends, in pixels


@dataclass(frozen=True)
class Dataset:
    """A public data set.

    - `where`: the address; `files`: what to fetch from there, as patterns.
    - `cite`: what to cite when it is used.
    - `checksums`: by file name, the SHA-256 of the files that this reader was tried on.
    - `reader`: from one of the files to `Movements`.

    Examples
    --------
    >>> print(mc.datasets.describe("pointing").files)
    ('[acp]p[0-9][0-9]-1.dat',)
    """

    name: str
    about: str
    where: str
    licence: str
    cite: str
    files: tuple[str, ...]
    reader: Callable[..., Movements]
    checksums: dict[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.about}\n"
            f"  where    {self.where}\n"
            f"  files    {', '.join(self.files)}\n"
            f"  licence  {self.licence}\n"
            f"  cite     {self.cite}"
        )


def names() -> list[str]:
    """The data sets that are known.

    Examples
    --------
    >>> mc.datasets.names()
    ['flint2012', 'pointing', 'saccades']
    """
    return sorted(_DATASETS)


def describe(name: str) -> Dataset:
    """What a data set is, where to get it, under which licence, what to cite; it can be printed.

    Examples
    --------
    >>> mc.datasets.describe("saccades").licence
    'MIT'
    """
    return _DATASETS[checks.one_of("data set", name, names())]


def recognised(path: Path | str) -> str | None:
    """The data set whose files are called like this one; None if there is none.

    Examples
    --------
    >>> mc.datasets.recognised("lookAtPoint_EL_S1.npy")
    'saccades'
    """
    for name in names():
        if any(Path(path).match(pattern) for pattern in describe(name).files):
            return name
    return None


def read_any(path: Path | str, **options: Any) -> Movements:
    """The movements in a file, as `io.read` reads them; an error names the data set that the file
    may be from.

    Examples
    --------
    >>> mc.io.write_csv(positions, "trials.csv")
    >>> len(mc.datasets.read_any("trials.csv"))
    8
    """
    try:
        return io.read(path, **options)
    except InputError as error:
        name = recognised(path)
        if name is None or not Path(path).is_file():
            raise
        raise InputError(
            f"{error}; or is it of the data set {name}? Name it: --dataset {name}, or "
            f'dataset = "{name}" in the study'
        ) from None


def load(name: str, path: Path | str, **options: Any) -> Movements:
    """The movements in one file of a data set, or in all its files in a folder.

    The condition `subject` is the file's name without its suffix. A note names files that are
    not those that the reader was tried on. `options` go to the reader, as in `margin=0.05`.

    Examples
    --------
    >>> rows = [(720 + 10 * i, 800, 30 * i, 1120, 800, 20, 0) for i in range(20)]
    >>> np.savetxt("cp09-1.dat", rows, fmt="%d")
    >>> movements = mc.datasets.load("pointing", "cp09-1.dat")
    >>> len(movements), movements.conditions["subject"].tolist()
    (1, ['cp09-1'])
    """
    dataset, path = describe(name), Path(path)
    files = [path]
    if path.is_dir():
        files = sorted(file for pattern in dataset.files for file in path.glob(pattern))
        if not files:
            raise InputError(
                f"{shown(path, 200)}: needs files {', '.join(dataset.files)}, got none"
            )
    parts = []
    for file in files:
        part = dataset.reader(file, **options)
        # A file of several people, numbered, keeps their numbers.
        who = [f"{file.stem}/{number}" for number in part.conditions.get("subject", [])]
        part = part.with_conditions(subject=who or file.stem)
        expected = dataset.checksums.get(file.name)
        if expected and hashlib.sha256(file.read_bytes()).hexdigest() != expected:
            part = part.noted(f"{file.name}: not the file that was published under this name")
        parts.append(part)
    return concatenate_movements(parts)


def read_pointing(path: Path | str) -> Movements:
    """A file of pointing movements on a screen: x, y in pixels, y down, about every 30 ms.

    A trial begins when its target appears, so it includes the reaction time. Conditions:
    `target_x`, `target_y`, `target_radius` (pixels), and `outward`: from home to a target rather
    than back. The first trial comes from an arbitrary place; that of pp03 was edited by its
    authors, so leave it out: `movements[1:]`.

    Examples
    --------
    >>> rows = [(720 + 10 * i, 800, 30 * i, 1120, 800, 20, 0) for i in range(20)]
    >>> np.savetxt("cp09-1.dat", rows, fmt="%d")
    >>> mc.datasets.read_pointing("cp09-1.dat").channels
    {'x': 'px', 'y': 'px'}
    """
    path = _existing(path)
    rows = []
    for line, text in enumerate(path.read_text("latin-1").splitlines(), start=1):
        if text[:1].isdigit():
            try:
                rows.append([float(field) for field in text.split()[:6]])
            except ValueError:
                rows.append([])
            if len(rows[-1]) != 6 or not np.isfinite(rows[-1]).all():
                raise InputError(
                    f"{shown(path.name)}: row {line}: needs x, y, time and target's x, y, radius, "
                    f"got '{shown(text)}'"
                )
    if len(rows) < 2:
        raise InputError(f"{shown(path.name)}: needs rows of samples, got {len(rows)}")
    table = np.array(rows)
    table[:, 2] = (table[:, 2] - table[0, 2]) / 1000
    starts = np.flatnonzero((np.diff(table[:, 3:6], axis=0) != 0).any(axis=1)) + 1
    parts = [part for part in np.split(table, starts) if len(part) > 1]
    targets = np.array([part[0, 3:6] for part in parts])
    pixels = ("target_x", "target_y", "target_radius")
    dropped = len(starts) + 1 - len(parts)
    note = f"{shown(path.name)}: {dropped} trials left out: they have one sample"
    return Movements(
        samples=tuple(part[:, :2] for part in parts),
        times=tuple(part[:, 2] for part in parts),
        channels={"x": "px", "y": "px"},
        conditions={
            **dict(zip(pixels, targets.T, strict=True)),
            "outward": (targets[:, :2] != HOME).any(axis=1),
        },
        condition_units=dict.fromkeys(pixels, "px"),
        notes=(note,) if dropped else (),
    )


def read_saccades(path: Path | str, margin: float = 0.05) -> Movements:
    """A file of saccades: x, y in degrees, 1000 Hz, NaN where the eye tracker lost the eye.

    A saccade is what its authors labelled as one, with up to `margin` seconds before and after,
    as far as the next saccade. The points that people looked at are not stored: conditions
    `start_x`, `start_y`, `end_x`, `end_y` are the median position in the 20 ms before and after.
    Saccades without either are left out.

    Examples
    --------
    >>> fields = [("t", float), ("x", float), ("y", float), ("status", bool), ("evt", int)]
    >>> gaze = np.zeros(300, fields)
    >>> gaze["t"], gaze["status"], gaze["evt"] = np.arange(300) / 1000, True, 1
    >>> gaze["x"][150:], gaze["evt"][130:150] = 8.0, 2
    >>> np.save("gaze.npy", gaze)
    >>> movements = mc.datasets.read_saccades("gaze.npy")
    >>> len(movements), movements.conditions["end_x"].tolist()
    (1, [8.0])
    """
    checks.nonnegative(margin=margin)
    path = _existing(path)
    try:
        table = read_npy(path, GIBIBYTE)
        t, evt = np.asarray(table["t"], float), np.asarray(table["evt"])
        position = np.column_stack([table["x"], table["y"]]).astype(float)
        position[~np.asarray(table["status"], bool)] = np.nan
    except InputError:
        raise
    except Exception:  # damaged files make NumPy raise nearly anything
        raise InputError(
            f"{shown(path.name)}: needs a NumPy file with the fields t, x, y, status, evt"
        ) from None
    if t.ndim != 1 or not np.isfinite(t).all() or (np.diff(t) <= 0).any():
        raise InputError(f"{shown(path.name)}: field 't' needs times that increase")
    edges = np.flatnonzero(np.diff(np.concatenate([[0], evt == 2, [0]]).astype(int)))
    first, after = edges[::2], edges[1::2]
    # Between the end of the saccade before and the start of the next.
    low, high = np.concatenate([[0], after[:-1]]), np.concatenate([first[1:], [len(t)]])

    def window(a: int, b: int, i: int, seconds: float) -> slice:
        reach = seconds + 1e-6  # rounding of times must not decide
        early, late = np.searchsorted(t, [t[a] - reach, t[b - 1] + reach])
        return slice(max(int(early), int(low[i])), min(int(late), int(high[i])))

    kept, ends = [], []
    for i, (a, b) in enumerate(zip(first.tolist(), after.tolist(), strict=True)):
        near = window(a, b, i, 0.02)
        before, behind = position[near.start : a], position[b : near.stop]
        if not all((~np.isnan(part)).all(axis=1).any() for part in (before, behind)):
            continue
        ends.append([*np.nanmedian(before, axis=0), *np.nanmedian(behind, axis=0)])
        kept.append(window(a, b, i, margin) if margin else slice(a, b))
    if not kept:
        raise InputError(f"{shown(path.name)}: needs saccades (evt == 2), got none with both ends")
    named = ("start_x", "start_y", "end_x", "end_y")
    lost = len(first) - len(kept)
    note = (
        f"{shown(path.name)}: {lost} of {len(first)} saccades left out: no eye position before or "
        "after"
    )
    return Movements(
        samples=tuple(position[window] for window in kept),
        times=tuple(t[window] for window in kept),
        channels={"x": "deg", "y": "deg"},
        conditions=dict(zip(named, np.array(ends).T, strict=True)),
        condition_units=dict.fromkeys(named, "deg"),
        notes=(note,) if lost else (),
    )


def _existing(path: Path | str) -> Path:
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{shown(path, 200)}: there is no such file")
    Budget(path.name, GIBIBYTE).take(path.stat().st_size)
    return path


_POINTING = {
    "ap01-1.dat": "09a0df55b6cf072e50df628794f1819cf1ce205eb7d2c80250e09681a831d542",
    "ap02-1.dat": "91122c81d3aed7f6fa55317b4c4fd63676188d28e34b8d964ee6b5e9a4e7ac36",
    "ap03-1.dat": "63b5cb52f8ecb0a541a88c37b9db407a2906241630d53fd09a200ac8e7bd6fd8",
    "cp01-1.dat": "56170537134b1c320bc1515c6de0b839040dddae70df5bcbe2432dd5cdf79a09",
    "cp02-1.dat": "4dac7d1409ae2a9cc7199601f7870a5c70f7fad1e2e4c22dc9bbe074f2ebfe41",
    "cp03-1.dat": "217d00fae2fde8c6df443d362400669ff6bb8ab04024ee80915afa789d2207b2",
    "pp01-1.dat": "5bf8306af966ac8005ba74a04d7c1a309e75ada7f0be42850b6f60f6bf5f71f7",
    "pp03-1.dat": "efd4b9851a85d70a041f4039dc007d6c3de601424cbe2daf7903de9f7551ea67",
    "pp04-1.dat": "8a0a004b1dbcbd38aea6d7864b50507523cb9b43a53898e146706e2172fbe387",
}
_SACCADES = {
    "lookAtPoint_EL_S1.npy": "c574aa558cf2b377389a5734f2c12b02b7c3007ebe3315178ab70b39badf2b97",
    "lookAtPoint_EL_S2.npy": "ff021f8318b6c0bd342a6976e90cf5b8abf7068645e726e0bb8d1a5885ef1329",
    "lookAtPoint_EL_S3.npy": "21e9123e33f54b37eaf72a77b7ab18ad3ea51aeb9d37eaedb32302005d165423",
    "lookAtPoint_EL_S4.npy": "98c212303c548bebc7f2959debb9f762750b311872529874372cc413f5c727d0",
    "lookAtPoint_EL_S5.npy": "3f4bcae828d40fc3be8128f3ec7aa096b41552467af12fa53473a4764974a682",
    "lookAtPoint_EL_S6.npy": "9a25bb2c54524637f20748a3fa94241036082415b2285354b9ac42f82f65b35d",
}
_DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            name="pointing",
            about="nine people (young, aged, after a stroke) point at targets on a screen",
            where="https://github.com/NolanPich/reach-target-smoothness-analysis",
            licence="MIT",
            cite="NolanPich, reach-target-smoothness-analysis (GitHub)",
            files=("[acp]p[0-9][0-9]-1.dat",),
            reader=read_pointing,
            checksums=_POINTING,
        ),
        Dataset(
            name="saccades",
            about="six people look at points that jump, EyeLink at 1000 Hz, saccades labelled",
            where="https://github.com/r-zemblys/irf",
            licence="MIT",
            cite="Zemblys, Niehorster, Komogortsev & Holmqvist (2018), Using machine learning to "
            "detect events in eye-tracking data, Behavior Research Methods 50:160-181",
            files=("lookAtPoint_EL_S[0-9].npy",),
            reader=read_saccades,
            checksums=_SACCADES,
        ),
        Dataset(
            name="flint2012",
            about="a monkey reaches from a centre to targets around it (from the DREAM database)",
            where="https://portal.nersc.gov/project/crcns/download/dream/data_sets/Flint_2012",
            licence="the terms of CRCNS, to be accepted at crcns.org",
            cite="Flint, Lindberg, Jordan, Miller & Slutzky (2012), Accurate decoding of reaching "
            "movements from field potentials in the absence of spikes, Journal of Neural "
            "Engineering 9:046006",
            files=("Flint_2012_e[0-9].mat",),
            reader=io.read,
        ),
    )
}
