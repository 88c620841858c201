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
    """The recordings: a file or several, relative to the study file."""
    dataset: str | None = None
    """The name of a public data set that the files are from (`motorcost datasets`)."""
    options: dict[str, Any] | None = None
    """Options of that data set's reader, as in `{ margin = 0.05 }`."""
    trial: str | Annotated[list[str], Field(min_length=1)] | None = None
    """The column that numbers trials, or several that do so together; `trial` if left out."""
    time: str | None = None
    """The column of times; `time` if left out."""
    time_unit: str | None = None
    """The unit of times: `s` (if left out), `ms` or `us`."""
    channels: Columns | None = None
    """The recorded columns, as in `["x", "y"]` or `{ position = "x" }`."""
    units: dict[str, str] | None = None
    """By channel or condition, the unit in the file, as in `{ position = "mm" }`."""
    conditions: Columns | None = None
    """Columns with one value per trial, as in `{ target = "goal" }`."""
    rate: float | None = None
    """Samples per second, for data without a column of times."""
    format: str | None = None
    """The name of a format (`motorcost formats`), where the file's ending does not say it."""


class Scale(Table):
    """scale: channels and conditions multiplied by `factor`, now in `unit`."""

    factor: float
    """What values are multiplied by."""
    unit: str
    """Their unit afterwards."""
    names: Names
    """Channels and conditions to multiply."""


class Along(Table):
    """along: trials turned onto the line from start to goal; see `Movements.along`."""

    goal: Pair
    """The conditions that hold the goal's coordinates."""
    start: Pair | None = None
    """The conditions that hold the start's; the first sample if left out."""
    channels: Pair | None = None
    """The two channels to turn; `x` and `y` if left out."""
    names: Pair | None = None
    """What the channels are called afterwards; `position` and `lateral` if left out."""


class Centred(Table):
    """centred: trials shifted so that they start at 0; see `Movements.centred`."""

    goal: Names
    """The conditions that hold the goal's coordinates."""
    start: Names | None = None
    """The conditions that hold the start's; the first sample if left out."""
    channels: Names | None = None
    """The channels to shift; `x` and `y` if left out."""


class Cut(Table):
    """cut: trials cut to their movement; see `Movements.cut`."""

    speed: float | None = None
    """The threshold, in the channels' unit per second."""
    fraction: float | None = None
    """Instead of `speed`: the threshold as a fraction of each trial's peak speed."""
    channels: Names | None = None
    """The channels whose speed it is; `x` and `y` if left out."""
    margin: float | None = None
    """Seconds to keep before and after the movement."""
    smooth: float | None = None
    """Seconds over which the speed is averaged before it is compared."""


class Least(Table):
    """least: trials left out whose target is nearer, whose duration is shorter, or that end
    before this share of the way to their goal."""

    target: float | None = None
    """The smallest distance of the target, in the unit of the condition."""
    duration: float | None = None
    """The shortest duration in seconds."""
    way: float | None = None
    """The smallest share of the way to the goal that the movement covers, as in `0.5`."""


class Most(Table):
    """most: trials left out that are longer."""

    duration: Seconds
    """The longest duration in seconds."""


class Prepare(Table):
    """[prepare]: what is done to the recordings, in the order in which the file has it."""

    only: dict[str, Chosen | list[Chosen]] | None = None
    """Conditions whose trials are kept, as in `{ subject = "s01" }`."""
    trials: str | None = None
    """A range of trials, counted from 1: `1:20`, `21:`, `1::2`."""
    keep: str | None = None
    """Trials by a condition: true (`outward`), false (`not outward`) or there (`has target`)."""
    scale: Scale | None = None
    """Multiply channels and conditions."""
    units: dict[str, str] | None = None
    """By name, units to convert to."""
    along: Along | None = None
    """Turn trials onto the line from start to goal."""
    centred: Centred | None = None
    """Shift trials so that they start at 0."""
    cut: Cut | None = None
    """Cut trials to their movement."""
    least: Least | None = None
    """Leave out small and short movements, and those that end before their goal."""
    most: Most | None = None
    """Leave out long movements."""


class Model(Table):
    """[model]: the task and its known parameters. `dt` left out is the recording's; `lead` is how
    long before the first sample the model begins, or a list to compare; `delay` is how many steps
    the senses are late, in all or by name, or a list to compare."""

    task: str
    """One of motorcost's tasks, or `file.py:function`."""
    dt: Seconds | None = None
    """The model's step in seconds; that of the recordings if left out."""
    lead: Leads = 0.0
    """Seconds before the first sample at which the model begins; a list is compared."""
    delay: Delays = 0
    """Steps by which the senses are late, in all or by sense; a list is compared."""
    problem_seed: Whole = 0
    """Which of the random problems, for `random_problem`."""
    fixed: dict[str, float] = Field(default_factory=dict)
    """Parameters that are known, where they differ from the task's defaults."""


class SupportTable(Table):
    """Where a free parameter can lie: bounds, or a prior; `per` names what each have their own."""

    low: float | None = None
    """Lower bound."""
    high: float | None = None
    """Upper bound."""
    scale: Literal["log", "linear"] = "log"
    """Scale of the search between bounds."""
    median: float | None = None
    """Median of a log-normal prior, whose `sd` is that of the natural logarithm."""
    mean: float | None = None
    """Mean of a normal prior."""
    sd: float | None = None
    """Standard deviation of the prior."""
    per: str | None = None
    """A condition: the parameter has one value for each of its values, as in `"subject"`."""

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
    """States that were recorded."""
    noise: float | dict[str, float] = 0.0
    """SD of the recording noise."""


class FitTable(Table):
    """[fit]: how the maximum is searched for."""

    seed: Whole = 0
    """Seed of all random numbers: the same seed gives the same result."""
    starts: Whole = 10
    """Searches from different points."""
    method: str = "gradient"
    """`gradient`, `nelder-mead` or `bobyqa`."""
    priors: bool = False
    """Add the priors of `[free]` to the log likelihood."""


class ReportTable(Table):
    """[report]: what is computed after the fit."""

    folds: Whole = 5
    """Folds of the cross-validation."""
    bootstrap: Whole = 0
    """Simulated data sets to bootstrap from."""
    cuts: list[Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default_factory=list)
    """Other speeds of the step `cut`, to say whether estimates depend on it: `[0.03, 0.08]`."""
    baselines: bool = True
    """Fit models without signal-dependent noise for comparison."""
    profiles: bool = True
    """Compute intervals by profile likelihood."""


class StudyFile(Table):
    """A study file as a whole."""

    title: str = ""
    """Title of the report."""
    data: Data
    """The recordings."""
    prepare: Prepare = Prepare()
    """What is done to them."""
    model: Model
    """The task and its known parameters."""
    free: dict[str, Free]
    """By parameter: `"usual"`, `[low, high]` on a log scale, or a table."""
    observer: ObserverTable = ObserverTable()
    """What was recorded, and how precisely."""
    fit: FitTable = FitTable()
    """How the maximum is searched for."""
    report: ReportTable = ReportTable()
    """What is computed after the fit."""
