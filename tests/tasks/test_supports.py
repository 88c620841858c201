import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import motorcost as mc
from motorcost.tasks import Parameter, declare
from motorcost.tasks.supports import Support

KEY = jax.random.key(0)


def within(law, low, high):
    """The distribution function of `law`, cut off at low and high."""
    below, above = law.cdf(low), law.cdf(high)
    return lambda x: (law.cdf(x) - below) / (above - below)


LAWS = {
    "LogUniform": (mc.LogUniform(1e-6, 1e-2), stats.loguniform(1e-6, 1e-2).cdf),
    "Uniform": (mc.Uniform(-3.0, 0.5), stats.uniform(-3, 3.5).cdf),
    "LogNormal": (mc.LogNormal(0.2, 0.7), stats.lognorm(0.7, scale=0.2).cdf),
    "LogNormal cut off": (
        mc.LogNormal(0.2, 0.7, low=0.1, high=0.3),
        within(stats.lognorm(0.7, scale=0.2), 0.1, 0.3),
    ),
    "Normal": (mc.Normal(-2.0, 3.0), stats.norm(-2, 3).cdf),
    "Normal far from its centre": (
        mc.Normal(0.0, 1.0, low=1.5),
        within(stats.norm(0, 1), 1.5, np.inf),
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_draws_are_within_the_bounds_and_follow_the_law(name):
    support, law = LAWS[name]
    draws = np.asarray(support.from_search_scale(support.draw(KEY, (2000,))))
    assert ((draws >= support.low) & (draws <= support.high)).all()
    assert stats.kstest(draws, law).pvalue > 0.01


@pytest.mark.parametrize("name", LAWS)
def test_search_scale_and_back(name):
    support, _ = LAWS[name]
    points = support.draw(KEY, (50,))
    values = support.from_search_scale(points)
    assert_allclose(support.to_search_scale(values), points, rtol=1e-12, atol=1e-12)
    assert_allclose(values, np.exp(points) if "Log" in name else points, rtol=1e-14)
    low, high = support.bounds
    assert_allclose(support.from_search_scale(jnp.array([low, high])), [support.low, support.high])
    assert all(float(value) in support for value in values)
    assert support.high * 1.01 + 1 not in support or support.high == math.inf


@pytest.mark.parametrize(
    ("support", "law"),
    [
        (mc.LogNormal(0.2, 0.7), stats.norm(np.log(0.2), 0.7)),
        (mc.LogNormal(0.2, 0.7, low=0.1), stats.norm(np.log(0.2), 0.7)),
        (mc.Normal(-2.0, 3.0, high=0.0), stats.norm(-2, 3)),
        (mc.LogUniform(0.1, 5.0), stats.uniform(np.log(0.1), np.log(50))),
    ],
)
def test_log_prior_is_the_density_on_the_search_scale_up_to_a_constant(support, law):
    points = np.log([0.11, 0.2, 0.9]) if support.logarithmic else np.array([-7.0, -2.0, -0.5])
    ours, theirs = np.asarray(support.log_prior(points)), law.logpdf(points)
    assert_allclose(ours - ours[0], theirs - theirs[0], rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mc.LogUniform(2, 1), "needs low < high, got low 2, high 1"),
        (lambda: mc.Uniform(1, 1), "needs low < high"),
        (lambda: mc.LogUniform(0, 1), "on a log scale needs low > 0, got 0"),
        (lambda: mc.LogNormal(1, 1, low=-1), "on a log scale needs low > 0, got -1"),
        (lambda: mc.Uniform(math.nan, 1), "low of a parameter must be a number, got nan"),
        (lambda: mc.Normal(math.nan, 1), "centre of a parameter must be a number, got nan"),
        (lambda: mc.Normal(math.inf, 1), "centre of a parameter must be finite, got inf"),
        (lambda: mc.Uniform("0", 1), "low of a parameter must be a number, got '0'"),
        (lambda: mc.Uniform(0, True), "high of a parameter must be a number, got True"),
        (lambda: mc.Uniform(0, math.inf), "without a prior needs finite bounds"),
        (lambda: mc.LogUniform(1, math.inf), "without a prior needs finite bounds"),
        (lambda: mc.Normal(0, 0), "sd of a prior must be positive and finite, got 0"),
        (lambda: mc.Normal(0, math.inf), "sd of a prior must be positive and finite, got inf"),
        (lambda: mc.LogNormal(0, 1), "median of a LogNormal must be positive, got 0"),
        (lambda: mc.LogNormal("1", 1), "median of a LogNormal must be a number"),
    ],
)
def test_bad_supports(make, message):
    with pytest.raises(mc.InputError, match=message):
        make()


def test_supports_print_as_they_are_written():
    for text in ("LogUniform(1e-08, 0.01)", "Uniform(-3, 0.5)", "LogNormal(0.2, 0.7)"):
        name, numbers = text[:-1].split("(")
        assert str(getattr(mc, name)(*map(float, numbers.split(", ")))) == text
    grouped = mc.LogUniform(1.0, 2.0).grouped_by("subject")
    assert grouped.per == "subject"
    assert grouped == mc.LogUniform(1.0, 2.0, per="subject")


def built_in():
    names = ("reaching", "saccade", "tracking", "pursuit", "subjective_pursuit")
    return {name: getattr(mc.tasks, name) for name in names} | {
        "random_problem": mc.tasks.random_problem(KEY)
    }


@pytest.mark.parametrize("name", built_in())
def test_every_built_in_parameter_that_can_be_inferred_has_a_support(name):
    task = built_in()[name]
    typical = mc.tasks.typical_values(task)
    for parameter, what in mc.tasks.parameters(task).items():
        if what.role == "condition":
            assert what.support is None, parameter
        else:
            assert isinstance(what.support, Support), parameter
            assert what.support.low < typical[parameter] < what.support.high, parameter


def test_declare_refuses_a_default_outside_its_support():
    def task(effort=1.0, steps=10):
        return mc.tasks.reaching(effort, steps=steps)

    outside = Parameter("effort", support=mc.LogUniform(1e-3, 0.1))
    with pytest.raises(mc.InputError, match="the default of effort, 1, lies outside its support L"):
        declare(effort=outside)(task)
    with pytest.raises(mc.InputError, match="the task task has no argument gain with a default"):
        declare(gain=outside)(task)
    inside = Parameter("effort", support=mc.LogUniform(1e-3, 1.0))
    assert mc.tasks.parameters(declare(effort=inside)(task)) == {"effort": inside}
