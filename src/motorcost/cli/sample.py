"""motorcost sample."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from motorcost import checks
from motorcost.cli import options
from motorcost.cli.app import app
from motorcost.cli.computing import Device
from motorcost.cli.progress import showing_progress
from motorcost.cli.studies import study_of
from motorcost.errors import InputError
from motorcost.io.files import printable
from motorcost.study.named_texts import items
from motorcost.study.settings import Study
from motorcost.tasks.late_senses import delayed
from motorcost.tasks.supports import Support

if TYPE_CHECKING:
    from motorcost.posterior.result import Posterior

# What is done so far, beside the posterior, until that is complete.
SAMPLING = "sampling"
# Options that say what to do with a study, which may stand beside a file that describes it.
ALSO_WITH_A_STUDY_FILE = (
    "data", "output", "method", "draws", "chains", "warmup", "target_accept", "group", "common",
    "between", "no_predictive", "device", "quiet",
)  # fmt: skip


@app.command(
    epilog="Examples: motorcost sample study.toml -o posterior/ · motorcost sample trials.csv "
    "--task reaching --free effort,velocity=1e-3:10 --noise 1e-3 --method smc -o posterior/ · "
    "motorcost sample study.toml --group subject --common velocity -o people/"
)
def sample(
    context: typer.Context,
    data: options.DataFile,
    output: options.Output = Path("posterior"),
    task: options.TaskOption = None,
    free: options.Free = None,
    fixed: options.Fixed = None,
    per: options.Per = None,
    noise: options.Noise = "0",
    channels: options.Channels = None,
    units: options.Units = None,
    conditions: options.Conditions = None,
    trial_column: options.TrialColumn = "trial",
    time_column: options.TimeColumn = "time",
    time_unit: options.TimeUnit = "s",
    rate: options.Rate = None,
    only: options.Only = None,
    trials: options.TrialRange = None,
    dt: options.Step = None,
    lead: options.LeadOption = "0",
    delay: options.DelayOption = "0",
    method: options.SamplingMethodOption = "nuts",
    draws: options.Draws = 1_000,
    chains: options.Chains = 4,
    warmup: options.Warmup = 200,
    target_accept: options.TargetAccept = 0.7,
    group: options.Group = None,
    common: options.Common = None,
    between: options.Between = None,
    starts: options.Starts = 6,
    seed: options.Seed = 0,
    no_predictive: options.NoPredictive = False,
    device: Device = None,
    quiet: options.Quiet = False,
) -> None:
    """Draw costs and noises from their posterior, given recorded movements.

    Takes what motorcost fit takes; where parameters can lie is their prior. Writes posterior.nc
    (which mc.load_posterior and ArviZ open), summary.txt, pictures and report.html into the output
    folder. After an interruption the same command goes on from where it was.
    """
    checks.one_of("--method", method, options.SAMPLERS)
    study = study_of(context, ALSO_WITH_A_STUDY_FILE)
    settings = {
        "method": method,
        "n_draws": draws,
        "n_chains": chains,
        "n_warmup": warmup,
        "target_accept": target_accept,
        "predictive": not no_predictive,
    }
    people = _people(study, group, items(common), between)
    _carry_out(study, output, settings | people, quiet=quiet)


def _people(
    study: Study, group: str | None, common: list[str], between: str | None
) -> dict[str, Any]:
    """What `mc.sample` takes of a population of people.

    Where the study has parameters with a value in each group, the others are common to all,
    unless `--common` says which are.
    """
    if group is None:
        if common or between is not None:
            raise InputError("--common and --between need --group, as in --group subject")
        return {}
    for name in common:
        checks.one_of("--common", name, list(study.free))
    others = [s.per for s in study.free.values() if s and s.per and s.per != group]
    if others:
        raise InputError(f"--group {group}: a parameter has one value per {others[0]} in the study")
    with_own = [name for name, s in study.free.items() if s and s.per == group]
    if with_own and not common:
        common = [name for name in study.free if name not in with_own]
    return {"group": group, "common": common, "between": between}


def _carry_out(study: Study, output: Path, settings: dict[str, Any], *, quiet: bool) -> None:
    """Sample the posterior of a study, write it into a folder, and print it."""
    from motorcost.io.locks import held
    from motorcost.report.posterior import check_posterior_places, write_posterior

    command = shlex.join(["motorcost", *sys.argv[1:]])
    with held(output, "posterior"), showing_progress(quiet=quiet) as progress:
        check_posterior_places(output)
        try:
            post, notes = _sampled(study, settings | {"folder": output / SAMPLING}, progress)
        except KeyboardInterrupt:
            if not (output / SAMPLING).exists():  # nothing was done yet
                raise
            raise InterruptedError(
                f"interrupted: what was done until then is kept in {output / SAMPLING}; the same "
                "command goes on from there"
            ) from None
        progress("report", 0, None)
        report = write_posterior(post, output, notes=notes, command=command)
        interrupted = any(verdict.startswith("interrupted") for verdict in post.verdicts)
        if not interrupted:
            shutil.rmtree(output / SAMPLING, ignore_errors=True)
    if not quiet:
        typer.echo(printable(post.summary()))
        typer.echo(f"\nReport: {printable(report)}")
    if interrupted:
        raise InterruptedError(
            f"interrupted: the draws until then lie in {output}; the same command goes on from "
            "there"
        )


def _sampled(
    study: Study, settings: dict[str, Any], progress: Callable[..., None]
) -> tuple[Posterior, tuple[str, ...]]:
    """The posterior of a study, and notes on its data."""
    import jax

    import motorcost as mc

    progress("reading", 0, None)
    lead, delay = _only("lead", study.lead), _only("delay", study.delay)
    groups = [settings[name] for name in ("group", "between") if settings.get(name)]
    trials, notes = study.trials(study.movements(), groups)
    post = mc.sample(
        study.task if delay == 0 else delayed(study.task, delay),
        trials.with_lead(lead) if lead else trials,
        {name: _without_group(s, settings.get("group")) for name, s in study.free.items()},
        key=jax.random.key(study.seed),
        fixed=study.fixed,
        observer=mc.ObserverSpec(trials.channel_names, study.noise),
        n_starts=study.starts,
        progress=progress,
        **settings,
    )
    return post, notes


def _only(what: str, values: tuple[Any, ...]) -> Any:
    """The lead or the delay of a study; a posterior has one."""
    if len(values) > 1:
        shown = ", ".join(map(str, values))
        raise InputError(
            f"a posterior is of one {what}, and the study has {shown}: motorcost fit tells which "
            "is the best; sample with that one"
        )
    return values[0]


def _without_group(support: Support | None, group: str | None) -> Support | None:
    """A support as the prior of a population, whose groups `mc.sample` makes itself."""
    if support is None or group is None:
        return support
    return replace(support, per=None)
