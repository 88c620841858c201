"""Every public name has an example in its docstring, and the examples show what comes out.

They share small values, which are made when an example first names them. Examples whose programs
take long to compile are slow tests; docs/reference/index.md lists the shared values.
"""

import doctest
import functools
import inspect
import re

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from public_names import MODULES, public

import motorcost as mc
from made import made_fit
from test_docs import DOCS

KEY = jax.random.key(0)


@functools.cache
def problem():
    return mc.tasks.reaching(steps=12)


@functools.cache
def policy():
    return mc.solve(problem())


@functools.cache
def camera():
    return mc.ObserverSpec(["position"], noise=1e-3)


@functools.cache
def trials():
    return mc.simulate(problem(), policy(), n_trials=8, key=KEY)


@functools.cache
def positions():
    return mc.simulate(problem(), policy(), n_trials=8, key=KEY, observer=camera())


@functools.cache
def fit():
    return mc.fit(
        mc.tasks.reaching, positions(), ["effort"], observer=camera(), n_starts=1, key=KEY
    )


@functools.cache
def adequacy():
    return mc.check_fit(fit(), key=KEY, n_replicates=10)


@functools.cache
def post():
    return mc.sample(
        mc.tasks.reaching,
        positions(),
        {"effort": mc.LogNormal(1e-5, 1.0)},
        observer=camera(),
        method="laplace",
        n_chains=1,
        n_draws=50,
        n_starts=1,
        key=KEY,
    )


@functools.cache
def planar():
    task, recorded = mc.tasks.planar_reaching, mc.ObserverSpec(["x", "y"], noise=1e-3)
    reach = task(steps=12)
    paths = mc.simulate(reach, mc.solve(reach), n_trials=4, key=KEY, observer=recorded)
    paths = paths.with_conditions(target_x=0.1, target_y=0.0)
    return made_fit(["effort"], paths, task=task, observer=recorded)


SHARED = {
    make.__name__: make
    for make in (problem, policy, camera, trials, positions, fit, adequacy, post, planar)
}
IMPORTED = {"mc": mc, "jax": jax, "jnp": jnp, "np": np, "pd": pd}


def public_names():
    own = [name for name in mc.__all__ if not inspect.ismodule(getattr(mc, name))]
    return own + [f"{module}.{name}" for module in MODULES for name in public(module)]


def value_of(name):
    return functools.reduce(getattr, name.split("."), mc)


def docstrings(name):
    """The docstring of a name and those of its methods, by name."""
    value = value_of(name)
    found = {name: inspect.getdoc(value) or ""}
    if inspect.isclass(value):
        members = {key: member for key, member in vars(value).items() if key[0] != "_"}
        found |= {f"{name}.{key}": inspect.getdoc(member) or "" for key, member in members.items()}
    return found


def examples(text):
    return doctest.DocTestParser().get_examples(text)


SLOW = {
    "Analysis",
    "Approximation",
    "Bootstrap",
    "Calibration",
    "DelayFit",
    "Design",
    "ExactLogLikelihood",
    "LeadFit",
    "Likelihood",
    "Posterior",
    "Precision",
    "Recovery",
    "analyse",
    "bootstrap",
    "calibrate",
    "check_approximation",
    "cross_validate",
    "design",
    "exact_log_likelihood",
    "expected_precision",
    "factor",
    "load_posterior",
    "plots.plot_analysis",
    "plots.plot_approximation",
    "plots.plot_bootstrap",
    "plots.plot_calibration",
    "plots.plot_delays",
    "plots.plot_design",
    "plots.plot_exact_log_likelihood",
    "plots.plot_leads",
    "plots.plot_paths",
    "plots.plot_posterior",
    "plots.plot_precision",
    "plots.plot_predictive",
    "plots.plot_profile",
    "plots.plot_recovery",
    "plots.plot_shrinkage",
    "plots.plot_targets",
    "sample",
}


@pytest.mark.parametrize("name", public_names())
def test_has_an_example(name):
    assert examples(docstrings(name)[name]), f"the docstring of mc.{name} has no example (>>>)"


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in public_names()],
)
def test_examples_show_what_comes_out(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where examples write
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for where, text in docstrings(name).items():
        used = set(re.findall(r"\w+", text))
        names = IMPORTED | {key: make() for key, make in SHARED.items() if key in used}
        test = doctest.DocTestParser().get_doctest(text, names, f"mc.{where}", None, None)
        runner, said = doctest.DocTestRunner(optionflags=flags, verbose=False), []
        assert runner.run(test, out=said.append).failed == 0, "".join(said)
    plt.close("all")


def test_the_reference_has_every_public_name():
    pages = [page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md")]
    listed = re.findall(r"(?m)^\.\. auto\w+:: motorcost\.(\S+)$", "\n".join(pages))
    assert sorted(set(listed) - {"tasks.Task"}) == sorted(public_names())


def test_every_command_has_an_example():
    from command_line import commands, described

    for name, command in commands().items():
        text = "\n".join(described(name, command))
        assert f"```sh\nmotorcost {name}" in text, name
