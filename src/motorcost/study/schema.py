"""The study file: its tables and keys, declared as types that pydantic checks.

Each class is a table of the file, each field a key, with its default where it may be left out.
`document.read_document` reads a file into a `StudyFile` and words what is wrong with it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from motorcost import checks
from motorcost.errors import InputError
from motorcost.tasks import supports

UNKNOWN_KEY = "unknown_key"
# Whole numbers of a study are stored in 64 bits, one of which is the sign.
LARGEST_WHOLE = 2**63

_SUPPORT_NEEDS = "needs low and high, or median and sd, or mean and sd"


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_listed)]
"""A list of names; a single name may stand without brackets."""
Pair = Annotated[list[str], Field(min_length=2, max_length=2)]
Columns = Annotated[list[str] | dict[str, str], BeforeValidator(_listed)]
"""Columns of the data: by their names, or { your name = "column" }."""
Chosen = str | int | float | bool
"""A value of a condition."""
Whole = Annotated[int, Field(ge=0, lt=LARGEST_WHOLE)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Leads = float | list[float]
"""Seconds before the first sample, or several to compare; `leads_of` checks their values."""


Delay = Annotated[int, Field(ge=0)] | dict[str, Annotated[int, Field(ge=0)]]
Delays = Delay | Annotated[list[Delay], Field(min_length=1)]
"""Steps by which the senses are late, or by name of the sense; or several to compare."""


class Table(BaseModel):
    """A table of the file. Types are strict, and there are no other keys than the declared."""

    model_config = ConfigDict(strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _has_only_known_keys(cls, values: Any) -> Any:
        for key in values if isinstance(values, dict) else ():
            try:
                checks.one_of("key", key, list(cls.model_fields))
            except InputError as error:
                details = {"key": key, "message": str(error)}
                raise PydanticCustomError(UNKNOWN_KEY, "unknown key", details) from None
        return values


class Data(Table):
    """[data]: the files, and either how their tables are read or which public data set they are.

    Paths are relative to the study file. The keys from `trial` to `format` are those of
    `motorcost.io.read`; `options` are those of the data set's reader.
    """

    file: Names
    dataset: str | None = None
    options: dict[str, Any] | None = None
    trial: str | Annotated[list[str], Field(min_length=1)] | None = None
    time: str | None = None
    time_unit: str | None = None
    channels: Columns | None = None
    units: dict[str, str] | None = None
    conditions: Columns | None = None
    rate: float | None = None
    format: str | None = None


class Scale(Table):
    """scale: channels and conditions multiplied by `factor`, now in `unit`."""

    factor: float
    unit: str
    names: Names


class Along(Table):
    """along: trials turned onto the line from start to goal; see `Movements.along`."""

    goal: Pair
    start: Pair | None = None
    channels: Pair | None = None
    names: Pair | None = None


class Centred(Table):
    """centred: trials shifted so that they start at 0; see `Movements.centred`."""

    goal: Names
    start: Names | None = None
    channels: Names | None = None


class Cut(Table):
    """cut: trials cut to their movement; see `Movements.cut`."""

    speed: float | None = None
    fraction: float | None = None
    channels: Names | None = None
    margin: float | None = None
    smooth: float | None = None


class Least(Table):
    """least: trials left out whose target is nearer, or whose duration is shorter."""

    target: float | None = None
    duration: float | None = None


class Prepare(Table):
    """[prepare]: what is done to the recordings, in the order in which the file has it."""

    only: dict[str, Chosen | list[Chosen]] | None = None
    trials: str | None = None
    keep: str | None = None
    scale: Scale | None = None
    units: dict[str, str] | None = None
    along: Along | None = None
    centred: Centred | None = None
    cut: Cut | None = None
    least: Least | None = None


class Model(Table):
    """[model]: the task and its known parameters. `dt` left out is the recording's; `lead` is how
    long before the first sample the model begins, or a list to compare; `delay` is how many steps
    the senses are late, in all or by name, or a list to compare."""

    task: str
    dt: Seconds | None = None
    lead: Leads = 0.0
    delay: Delays = 0
    problem_seed: Whole = 0
    fixed: dict[str, float] = Field(default_factory=dict)


class SupportTable(Table):
    """Where a free parameter can lie: bounds, or a prior; `per` names what each have their own."""

    low: float | None = None
    high: float | None = None
    scale: Literal["log", "linear"] = "log"
    median: float | None = None
    mean: float | None = None
    sd: float | None = None
    per: str | None = None

    def support(self) -> supports.Support:
        """The support that the table describes."""
        ends = {"low": self.low, "high": self.high}
        bounds = {name: end for name, end in ends.items() if end is not None}
        if self.sd is not None and self.median is not None and self.mean is None:
            return supports.LogNormal(self.median, self.sd, per=self.per, **bounds)
        if self.sd is not None and self.mean is not None and self.median is None:
            return supports.Normal(self.mean, self.sd, per=self.per, **bounds)
        prior = (self.median, self.mean, self.sd)
        if self.low is None or self.high is None or any(value is not None for value in prior):
            got = ", ".join(sorted(self.model_fields_set))
            raise InputError(f"{_SUPPORT_NEEDS}; got {got or 'nothing'}")
        uniform = supports.LogUniform if self.scale == "log" else supports.Uniform
        return uniform(self.low, self.high, per=self.per)


Bounds = Annotated[list[float], Field(min_length=2, max_length=2)]
Free = Literal["usual"] | Bounds | SupportTable
"""A free parameter: "usual" (what the task declares), [low, high] on a log scale, or a table."""


def support_of(free: Free) -> supports.Support | None:
    """The support of a free parameter; None stands for the task's usual one."""
    if isinstance(free, SupportTable):
        return free.support()
    return None if isinstance(free, str) else supports.LogUniform(free[0], free[1])


class ObserverTable(Table):
    """[observer]: which states were recorded (all columns that are states if left out), and the
    SD of the recording noise: one number, or one for each channel by name."""

    states: Names | None = None
    noise: float | dict[str, float] = 0.0


class FitTable(Table):
    """[fit]: how the maximum is searched for."""

    seed: Whole = 0
    starts: Whole = 10
    method: str = "gradient"
    priors: bool = False


class ReportTable(Table):
    """[report]: what is computed after the fit."""

    folds: Whole = 5
    bootstrap: Whole = 0
    baselines: bool = True
    profiles: bool = True


class StudyFile(Table):
    """A study file as a whole."""

    title: str = ""
    data: Data
    prepare: Prepare = Prepare()
    model: Model
    free: dict[str, Free]
    observer: ObserverTable = ObserverTable()
    fit: FitTable = FitTable()
    report: ReportTable = ReportTable()
