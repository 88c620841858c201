"""Trials, fits and analyses made without a search, for tests of what shows them."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

import motorcost as mc
from motorcost.diagnostics import Adequacy, Channel, Plausibility, TrialFit
from motorcost.diagnostics.courses import CourseComparison
from motorcost.fitting.fitted import Fit
from motorcost.fitting.optimise import Found
from motorcost.fitting.profiles import Profile
from motorcost.fitting.specification import make_objective
from motorcost.inference.beliefs import Beliefs
from motorcost.study.analysis import Analysis
from motorcost.study.settings import Study


def scalar_problem(**changed):
    """One state, one control and one sense, with strong noise that grows with both signals."""
    options = {
        "steps": 4,
        "A": [[0.9]],
        "B": [[1.0]],
        "H": [[1.0]],
        "Q": [[1.0]],
        "R": [[0.2]],
        "C": [[[0.8]]],
        "D": [[[0.9]]],
        "V": [[0.3]],
        "W": [[0.5]],
        "initial_belief": [2.0],
    }
    return mc.Problem(**(options | changed))


def recorded(lengths=(8, 8, 8), channels=("position",), subjects=None, targets=None, missing=0.0):
    """Trials as they might be, without a model having made them."""
    rng = np.random.default_rng(0)
    samples = [0.1 * np.cumsum(rng.random((n, len(channels))), axis=0) / n for n in lengths]
    for trial in samples:
        trial[1:-1][rng.random((len(trial) - 2, len(channels))) < missing] = np.nan
    conditions = {"target": 0.1 if targets is None else targets}
    if subjects is not None:
        conditions["subject"] = subjects
    conditions = {name: np.broadcast_to(value, len(lengths)) for name, value in conditions.items()}
    return mc.Trials.recorded(samples, dt=0.01, channels=list(channels), conditions=conditions)


def made_fit(free, trials, information=25.0, *, task=mc.tasks.reaching, observer=None, **changed):
    """A fit as it might be, without a search."""
    if observer is None:
        observer = mc.ObserverSpec(trials.channel_names, noise=1e-3)
    objective = make_objective(task, trials, free, observer=observer)
    point = np.array([c.support.middle for c in objective.coordinates])
    starts = tuple(Found(point, 100.0 - below, 9, True, "") for below in (0.0, 1e-9, 3.0))
    fields = {
        "objective": objective,
        "method": "gradient",
        "priors": False,
        "point": point,
        "log_likelihood": 100.0,
        "information": np.broadcast_to(information, len(point)) * np.eye(len(point)),
        "starts": starts,
        "converged": True,
        "interrupted": False,
        "size": 3,
    }
    return Fit(**(fields | changed))


def made_adequacy(fit):
    rng = np.random.default_rng(1)
    observed = np.asarray(fit.trials.observed)
    gone = np.isnan(observed)
    innovations = np.where(gone, np.nan, rng.normal(size=observed.shape))
    replicates = observed + 0.01 * rng.normal(size=(5, *observed.shape))
    n = [int((~gone[..., i]).sum()) for i in range(observed.shape[2])]
    channels = [
        Channel(
            name=name,
            n=count,
            mean=0.0,
            variance=1.0,
            kurtosis=3.0,
            lag=0.0,
            coverage=0.95,
            covered=0.95,
            trials=len(observed),
        )
        for name, count in zip(fit.trials.channel_names, n, strict=True)
    ]
    nothing = jnp.zeros((*observed.shape[:2], 5))
    unsure = nothing[..., None] + jnp.eye(5)
    beliefs = Beliefs(
        mean=nothing,
        cov=unsure,
        state_mean=nothing,
        state_cov=unsure,
        predicted=jnp.zeros(observed.shape),
        predicted_cov=jnp.ones((*observed.shape, observed.shape[2])),
        innovations=jnp.asarray(innovations),
        trials=fit.trials,
    )
    worst = (TrialFit(0, "target 0.1", 1.0, 2.0, 3.0),)
    return Adequacy(
        tuple(channels),
        beliefs,
        replicates,
        phases=(replace(channels[0], where="mid-movement"),),
        groups={"target": (replace(channels[0], where="for target 0.1"),)},
        worst=worst,
        settled=fit.converged,
    )


def made_plausibility(fit, **changed):
    course = CourseComparison(
        name="position", unit="m", trials=3, moves=True, distance=0.1, covered=0.98, off=-0.002,
        end_sd=0.01, recorded_end_sd=0.012, peak=0.5, recorded_peak=0.55, peak_time=0.15,
        recorded_peak_time=0.14, duration=0.3, recorded_duration=0.31,
    )  # fmt: skip
    shares = {"position, target": 0.5, "velocity": 0.2, "effort": 0.3}
    return replace(
        Plausibility((course,), 1e-3, 1e-2, shares, 0.5, settled=fit.converged), **changed
    )


def made_profile(fit, name, width=1.0, ends=None):
    k = fit.names.index(name)
    points = fit.point[k] + width * np.linspace(-1, 1, 7)
    values = 100.0 - 3 * np.linspace(-1, 1, 7) ** 2
    ends = (points[0], points[-1]) if ends is None else ends
    return Profile(name, 0.95, points, values, (ends,), 0.0)


def made_analysis(fit, **changed):
    study = Study(
        files=(),
        task_name="reaching",
        task=mc.tasks.reaching,
        free={c.parameter: c.support for c in fit.objective.coordinates},
        seed=7,
    )
    adequacy = None if fit.interrupted else made_adequacy(fit)
    analysis = Analysis(study, fit.trials, ("a note",), "0" * 64, fit, adequacy=adequacy)
    analysis.plausibility = None if fit.interrupted else made_plausibility(fit)
    return replace(analysis, **changed)


ALL = ["effort", "velocity", "force", "motor_noise", "sensory_noise", "tau", "recording_noise"]
FITS = {
    "one parameter": lambda: made_fit(["effort"], recorded()),
    "seven parameters": lambda: made_fit(ALL, recorded()),
    "nothing known": lambda: made_fit(["effort", "force"], recorded(), information=0.0),
    "no information": lambda: made_fit(
        ["effort"], recorded(), information=np.nan, converged=False
    ),
    "a prior without bounds": lambda: made_fit(
        {"effort": mc.LogNormal(1e-5, 1.0), "tau": mc.Normal(0.04, 0.01)}, recorded()
    ),
    "on a linear scale": lambda: made_fit({"tau": mc.Uniform(0.01, 0.2)}, recorded()),
    "several channels": lambda: made_fit(["effort"], recorded(channels=("position", "force"))),
    "lengths and targets": lambda: made_fit(
        ["effort"], recorded((4, 9, 30, 2, 7, 9), targets=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    ),
    "missing samples": lambda: made_fit(["effort"], recorded((9, 12, 20), missing=0.6)),
    "two steps": lambda: made_fit(["effort"], recorded((2,) * 12)),
    "one trial": lambda: made_fit(["effort"], recorded((12,))),
    "subjects": lambda: made_fit(
        {"effort": mc.LogUniform(1e-8, 1e-2, per="subject"), "force": None},
        recorded((8,) * 4, subjects=["a$b", "$x^$", "<b>", "被験者 _1"]),
    ),
    "interrupted at once": lambda: made_fit(
        ["effort"], recorded(), information=np.nan, interrupted=True,
        starts=(Found(np.zeros(1), -np.inf, 0, False, "interrupted"),) * 2,
    ),
}  # fmt: skip
