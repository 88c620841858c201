"""The schema of `fit.json`, declared as types that pydantic checks.

Each class is an object of the file, each field a key that must be there. Further keys are allowed,
so that a file may say more. `Number` is null where a number is infinite or unknown.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from motorcost.io.files import printable

Number = float | None
Count = Annotated[int, Field(ge=0)]
Pair = Annotated[list[Number], Field(min_length=2, max_length=2)]
ByName = dict[str, Number]

# Characters of a damaged file that an error shows.
_SHOWN = 60


class Part(BaseModel):
    """An object of the file. Types are strict: "1" is no number."""

    model_config = ConfigDict(strict=True, frozen=True)


class Search(Part):
    """`starts`: where one search ended."""

    log_likelihood: Number
    evaluations: Count
    converged: bool
    parameters: ByName


class Maximum(Part):
    """`maxima`: a maximum, how far it is below the best, and how many searches came to it."""

    estimates: ByName
    below: Number
    searches: Count


class Lead(Part):
    """`leads`: a lead that was tried, in seconds, and its fit."""

    lead: Number
    log_likelihood: Number
    after_first_sample: Number
    starts: Count
    agreed: Count
    converged: bool


class Cut(Part):
    """`cuts`: a speed at which movements were cut instead, and how far estimates are from those of
    the study, in standard errors."""

    speed: Number
    trials: Count
    converged: bool
    estimates: ByName
    standard_errors: ByName
    apart: ByName
    uncompared: list[str] = []


class Delay(Part):
    """`delays`: a delay that was tried, in steps (or in words, by sense), and its fit."""

    delay: int | str
    seconds: Number
    log_likelihood: Number
    starts: Count
    agreed: Count
    converged: bool


class ImprobableTrial(Part):
    """`checks.worst_trials`: a trial by its number, from 0, and how improbable it is."""

    trial: Count
    about: str
    per_sample: Number
    expected: Number
    improbability: Number


class Checks(Part):
    """`checks`: sentences, whether the model passed (null: unknown), and numbers by channel."""

    verdicts: list[str]
    passed: bool | None
    channels: dict[str, dict[str, Any]]
    phases: list[dict[str, Any]] = []
    groups: dict[str, list[dict[str, Any]]] = {}
    worst_trials: list[ImprobableTrial] = []
    outlying_trials: list[Count] = []


class VariabilityPart(Part):
    """`variability`: the shares of variance of a channel, in the middle or at the end."""

    channel: str
    unit: str
    when: str
    sd: Number
    recorded_sd: Number
    shares: ByName


class Agent(Part):
    """`plausibility`: what the fitted agent does."""

    sentences: list[str]
    warnings: list[str]
    expected_cost: Number
    cost_of_not_moving: Number
    shares_of_cost: ByName
    motor_noise: Number
    channels: dict[str, dict[str, Any]]


class Baseline(Part):
    """`baselines`: a model of the comparison."""

    name: str
    parameters: Count
    log_likelihood: Number
    aic: Number
    bic: Number
    cross_validated: Number


class Resampled(Part):
    """`bootstrap`: standard errors and intervals from `n` data sets; the searches of `unsettled`
    further ones did not settle."""

    n: Count
    unsettled: Count = 0
    standard_errors: ByName
    intervals: dict[str, Pair]


class Step(Part):
    """`preparation`: what a step did to the trials."""

    step: str
    arguments: dict[str, Any]
    before: Count | None
    after: Count
    samples: Count
    notes: list[str]
    unit: str = ""


class Data(Part):
    """`data`: the names of the files, and SHA-256 of what was read from them."""

    files: list[str]
    checksum: str


class ResultFile(Part):
    """`fit.json` as a whole."""

    format: int
    title: str
    task: str
    estimates: ByName
    standard_errors: ByName
    log_standard_errors: ByName
    intervals: dict[str, Pair]
    interval_level: float
    interval_method: str
    correlation: dict[str, ByName]
    log_likelihood: Number
    aic: Number
    bic: Number
    cross_validated_log_likelihood: Number
    n_trials: Count
    converged: bool
    interrupted: bool
    starts: list[Search]
    starts_that_agree: Count
    maxima: list[Maximum]
    lead: Number
    leads: list[Lead]
    delays: list[Delay] = []
    cuts: list[Cut] = []
    checks: Checks
    variability: list[VariabilityPart]
    plausibility: Agent | None
    baselines: list[Baseline]
    bootstrap: Resampled | None
    settings: dict[str, Any]
    preparation: list[Step]
    warnings: list[str]
    notes: list[str]
    seed: int
    versions: dict[str, str]
    device: str
    data: Data
    files: list[str] = []

    @model_validator(mode="after")
    def _has_whole_parts(self) -> Self:
        names = set(self.estimates)
        named: dict[str, Any] = {
            "standard_errors": self.standard_errors,
            "log_standard_errors": self.log_standard_errors,
            "intervals": self.intervals,
            "correlation": self.correlation,
            **{f"correlation.{name}": row for name, row in self.correlation.items()},
            **{f"starts.{i}.parameters": start.parameters for i, start in enumerate(self.starts)},
            **{f"maxima.{i}.estimates": other.estimates for i, other in enumerate(self.maxima)},
        }
        for part, values in named.items():
            if set(values) != names:
                raise ValueError(f"{part} must name the same parameters as estimates")
        if self.starts_that_agree > len(self.starts):
            raise ValueError("starts has fewer searches than starts_that_agree")
        return self


def damage_in(result: Any) -> str:
    """What is wrong with a result, in words of one line; empty if nothing is."""
    try:
        ResultFile.model_validate(result)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        said = said[:1].lower() + said[1:]
        return _cut(f"{where}: {said}" if where else said)
    return ""


def _cut(text: str) -> str:
    """Text from a file on one line: what is not printable is escaped, and the rest cut."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in printable(text))
    return shown if len(shown) <= 2 * _SHOWN else shown[: 2 * _SHOWN - 3] + "..."
