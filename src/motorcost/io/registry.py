"""The formats that `read` reads."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from motorcost import checks
from motorcost.errors import InputError, shown


@dataclass(frozen=True)
class Format:
    """A format of files.

    - `name`: what `read(format=)` calls it; `endings`: those of its files.
    - `about`: what is read.
    - `extra`: the extra of motorcost that installs the library for it, "" where none is needed;
      `library`: that library.

    Examples
    --------
    >>> csv = mc.io.formats()[0]
    >>> csv.name, csv.endings, csv.installed
    ('csv', ('.csv', '.tsv', '.txt'), True)
    """

    name: str
    endings: tuple[str, ...]
    about: str
    extra: str = ""
    library: str = ""

    @property
    def installed(self) -> bool:
        """Whether files of this format can be read now."""
        return not self.library or find_spec(self.library) is not None

    def require_installed(self, source: str) -> None:
        """Raise if the library for this format is missing; `source` is the file's name."""
        if not self.installed:
            raise InputError(
                f"{shown(source)}: needs a library for {self.name}: "
                f"pip install 'motorcost[{self.extra}]'"
            )


FORMATS = (
    Format("csv", (".csv", ".tsv", ".txt"), "text with a header; commas, semicolons or tabs"),
    Format("parquet", (".parquet",), "tables without nested columns"),
    Format("npz", (".npz",), "NumPy arrays: columns by name, or samples (trial, time, channel)"),
    Format("mat", (".mat",), "MATLAB variables (v4 to v7.3), as npz; Subject(i).Trial(j) of DREAM"),
    Format("eyelink", (".asc",), "EyeLink samples, saccades and blinks; TRIALID, TRIAL_VAR"),
    Format("nwb", (".nwb",), "Neurodata Without Borders: positions, behaviour, trials"),
    Format(
        "c3d", (".c3d",), "motion capture: points, and analog channels at their rate", "c3d", "c3d"
    ),
    Format("kinarm", (".kinarm", ".zip"), "KINARM exam: one C3D per trial, hands", "c3d", "c3d"),
)
# Formats of others, and what to do with them.
_ADVICE = {
    ".xlsx": "is a spreadsheet: save it as CSV and read that",
    ".xls": "is a spreadsheet: save it as CSV and read that",
    ".ods": "is a spreadsheet: save it as CSV and read that",
    ".edf": "if it is an EyeLink recording, convert it with edf2asc and read the .asc file",
}


def formats() -> tuple[Format, ...]:
    """The formats that `read` reads, and whether what they need is installed.

    Examples
    --------
    >>> [format.name for format in mc.io.formats()]
    ['csv', 'parquet', 'npz', 'mat', 'eyelink', 'nwb', 'c3d', 'kinarm']
    """
    return FORMATS


def format_of(name: str, wanted: str | None = None) -> Format:
    """The format of a file by its name, or the one that is wanted, if it can be read here."""
    by_name = {format.name: format for format in FORMATS}
    if wanted is None:
        found = _by_ending(name)
    else:
        found = by_name[checks.one_of("format", wanted, sorted(by_name))]
    found.require_installed(name)
    return found


def _by_ending(name: str) -> Format:
    dot = name.rfind(".")
    ending = name[dot:].lower() if dot > 0 else ""
    if ending in _ADVICE:
        raise InputError(f"{shown(name)}: {_ADVICE[ending]}")
    for format in FORMATS:
        if ending in format.endings:
            return format
    known = ", ".join(ending for format in FORMATS for ending in format.endings)
    raise InputError(
        f"{shown(name)}: needs one of {known}, got '{shown(ending or 'no suffix', 20)}': say "
        "format='csv' if it is one, or make a table in ten lines of Python and use "
        "mc.io.from_frame: see 'Other formats' in docs/data.md"
    )
