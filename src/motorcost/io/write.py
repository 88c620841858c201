"""Tidy tables in files other than text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from motorcost.data.movements import Movements
from motorcost.errors import InputError
from motorcost.io.files import written_whole
from motorcost.io.tidy import to_frame
from motorcost.model.trials import Trials


def write_parquet(trials: Trials | Movements, where: Path | str) -> None:
    """Write a tidy Parquet file, whole or not at all.

    Examples
    --------
    >>> mc.io.write_parquet(positions, "trials.parquet")
    >>> len(mc.io.read("trials.parquet"))
    8
    """
    frame = to_frame(trials)
    with written_whole(Path(where)) as draft:
        frame.to_parquet(draft, index=False, engine="pyarrow")


def write_npz(trials: Trials, where: Path | str) -> None:
    """Write an .npz file with the columns of the tidy table as arrays, whole or not at all.

    Examples
    --------
    >>> mc.io.write_npz(positions, "trials.npz")
    >>> len(mc.io.read("trials.npz"))
    8
    """
    columns = _columns(trials)
    for name in ("file", "allow_pickle"):
        if name in columns:
            raise InputError(f"a column of an .npz file cannot be called {name!r}")
    with written_whole(Path(where)) as draft, draft.open("wb") as stream:
        np.savez_compressed(stream, **columns)  # type: ignore[arg-type]


def write_mat(trials: Trials, where: Path | str) -> None:
    """Write a MATLAB file (version 5) with the columns of the tidy table as variables, text as
    cell arrays, whole or not at all.

    Examples
    --------
    >>> mc.io.write_mat(positions, "trials.mat")
    >>> len(mc.io.read("trials.mat"))
    8
    """
    from scipy.io import savemat

    columns = _columns(trials)
    for name in columns:
        if not (name.isidentifier() and name.isascii() and name[0] != "_" and len(name) < 32):
            raise InputError(f"{name!r} cannot be the name of a MATLAB variable: rename it")
    cells = {
        name: column.astype(object) if column.dtype.kind == "U" else column
        for name, column in columns.items()
    }
    with written_whole(Path(where)) as draft, draft.open("wb") as stream:
        savemat(stream, cells, oned_as="column")


def _columns(trials: Trials) -> dict[str, np.ndarray]:
    frame = to_frame(trials)
    columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    return {
        name: column if column.dtype.kind in "biuf" else column.astype(str)
        for name, column in columns.items()
    }
