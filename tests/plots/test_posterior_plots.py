import json

import numpy as np
import pytest
import xarray
from numpy.testing import assert_allclose

import motorcost as mc
from motorcost.posterior.result import Posterior

PEOPLE = ["anna", "ben", "cleo"]


def made_posterior(values, *, prior=None, verdicts=(), **groups):
    """A posterior as it might be, without a sampler: `values` by name, each a tuple of dimensions
    beyond chain and draw, and an array."""

    def dataset(arrays):
        return xarray.Dataset(
            {name: (("chain", "draw", *dims), array) for name, (dims, array) in arrays.items()},
            coords={"person": PEOPLE} if any(dims for dims, _ in arrays.values()) else None,
        )

    posterior = dataset(values)
    posterior.attrs |= {"method": "nuts", "verdicts": json.dumps(list(verdicts))}
    if prior is not None:
        groups["prior"] = dataset(prior)
    return Posterior(posterior=posterior, **groups)


def draws(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=(2, 150, *shape))


def panels(figure):
    return [ax for ax in figure.axes if ax.get_visible()]


def test_parameters_alone_and_in_pairs():
    effort, gain = 1e-5 * np.exp(0.1 * draws()), draws(seed=1)
    post = made_posterior(
        {"effort": ((), effort), "gain": ((), gain)},
        prior={"effort": ((), 1e-5 * np.exp(3 * draws(seed=2))), "gain": ((), 5 * draws(seed=3))},
        verdicts=["chains disagree"],
        sample_stats=xarray.Dataset({"diverging": (("chain", "draw"), gain > 2.5)}),
    )
    figure = post.plot()
    alone, pair, last = panels(figure)
    assert (alone.get_xscale(), last.get_xscale()) == ("log", "linear")
    assert (pair.get_xscale(), pair.get_yscale()) == ("log", "linear")
    assert_allclose(pair.lines[0].get_xdata(), effort.ravel())
    assert_allclose(pair.lines[0].get_ydata(), gain.ravel())
    assert pair.lines[1].get_ydata().min() > 2.5
    assert pair.get_xlabel() == "effort"
    assert figure.axes[0].get_title(loc="left") == "1 verdict: see the summary"
    # A density on the scale of the axis: the posterior is thirty times as narrow as the prior.
    prior, posterior = alone.lines
    assert prior.get_label() == "prior"
    assert posterior.get_ydata().max() > 10 * prior.get_ydata().max()
    x, heights = np.log(posterior.get_xdata()), posterior.get_ydata()
    assert_allclose(np.trapezoid(heights, x), 1.0, atol=0.03)


def test_of_many_parameters_the_first_are_drawn_those_of_populations_before():
    names = [f"p{i}" for i in range(7)]
    of_people = {"of_people": (("person",), draws(3))}
    post = made_posterior(of_people | {name: ((), draws()) for name in names})
    figure = mc.plots.plot_posterior(post)
    assert figure.axes[0].get_title(loc="left") == "the first 8 of 10 parameters"
    labels = [ax.get_xlabel() for ax in figure.axes[-8:]]
    assert labels == [*names, "of_people[anna]"]


def test_means_and_contrasts_of_groups_are_drawn_before_people():
    values = {
        "effort": (("person",), draws(3)),
        "gain": (("person",), draws(3)),
        "effort_mean": (("age",), draws(2)),
        "effort_log_ratio": (("contrast",), draws(1)),
        "effort_spread": ((), draws()),
    }
    labels = {"person": PEOPLE, "age": ["old", "young"], "contrast": ["young - old"]}
    arrays = {name: (("chain", "draw", *dims), array) for name, (dims, array) in values.items()}
    posterior = xarray.Dataset(arrays, coords=labels)
    posterior.attrs |= {"method": "nuts", "verdicts": "[]", "group": "person"}
    figure = mc.plots.plot_posterior(Posterior(posterior=posterior))
    shown = [ax.get_xlabel() for ax in figure.axes[-8:]]
    means = ["effort_mean[old]", "effort_mean[young]", "effort_log_ratio[young - old]"]
    people = [f"effort[{person}]" for person in PEOPLE]
    assert shown == [*means, "effort_spread", *people, "gain[anna]"]


def test_draws_that_are_all_the_same_are_a_line():
    post = made_posterior({"effort": ((), np.full((2, 9), 3.0))})
    (panel,) = panels(mc.plots.plot_posterior(post))
    assert list(panel.lines[0].get_xdata()) == [3.0, 3.0]


def test_people_beside_their_population():
    middles = np.array([3.0, 1.0, 20.0])
    values = {
        "effort": (("person",), middles * np.exp(0.05 * draws(3))),
        "effort_mean": ((), 2.0 + 0.1 * draws()),
    }
    post = made_posterior(values)
    alone = {"anna": [4.0, 2.0, 6.0], "ben": [0.5, 0.2, 1.0], "cleo": [30.0, 9.0, float("inf")]}
    post.posterior.attrs["alone"] = json.dumps({"effort": alone})
    figure = mc.plots.plot_shrinkage(post, "effort")
    assert "a wide prior around the estimate of all people together" in figure.caption
    (panel,) = figure.axes
    assert [text.get_text() for text in panel.get_yticklabels()] == ["ben", "anna", "cleo"]
    single, together = (container.lines[0].get_xdata() for container in panel.containers)
    assert_allclose(single, [0.5, 4.0, 30.0])
    assert_allclose(together, [1.0, 3.0, 20.0], rtol=0.03)
    assert panel.get_xscale() == "log"
    assert_allclose(panel.lines[0].get_xdata(), 2.0, rtol=0.03)
    with pytest.raises(mc.InputError, match=r"unknown parameter .*did you mean effort"):
        mc.plots.plot_shrinkage(post, "effrt")


def test_shrinkage_with_levels_between_people_has_a_mean_of_each():
    values = {
        "effort": (("person",), 3 + 0.1 * draws(3)),
        "effort_mean": (("age",), 3 + 0.1 * draws(2)),
    }
    dims = {"person": PEOPLE, "age": ["old", "young"]}
    arrays = {name: (("chain", "draw", *d), a) for name, (d, a) in values.items()}
    posterior = xarray.Dataset(arrays, coords=dims)
    alone = {person: [3.0, 2.0, 4.0] for person in PEOPLE}
    posterior.attrs |= {"method": "nuts", "verdicts": "[]", "alone": json.dumps({"effort": alone})}
    figure = mc.plots.plot_shrinkage(Posterior(posterior=posterior), "effort")
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["mean, old", "mean, young", "alone", "with the population"]


def test_posteriors_without_people_have_no_shrinkage():
    with pytest.raises(mc.InputError, match="sample with group="):
        mc.plots.plot_shrinkage(made_posterior({"effort": ((), draws())}), "effort")


def test_movements_over_what_is_predicted():
    times, channels = 0.01 * np.arange(6), ["position", "velocity"]
    rng = np.random.default_rng(0)
    recorded, simulated = rng.normal(size=(4, 6, 2)), rng.normal(size=(2, 10, 4, 6, 2))
    recorded[2:, 4:] = simulated[:, :, 2:, 4:] = np.nan
    coordinates = {"time": times, "channel": channels}
    dims = ("trial", "time", "channel")
    post = made_posterior(
        {"effort": ((), draws())},
        observed_data=xarray.Dataset({"observed": (dims, recorded)}, coords=coordinates),
        posterior_predictive=xarray.Dataset(
            {"observed": (("chain", "draw", *dims), simulated)}, coords=coordinates
        ),
    )
    figure = mc.plots.plot_predictive(post)
    assert [ax.get_ylabel() for ax in panels(figure)] == channels
    velocity = figure.axes[1]
    assert_allclose(velocity.lines[0].get_ydata(), recorded[0, :, 1])
    # Two of four trials reach the last times: too few for quantiles.
    vertices = velocity.collections[0].get_paths()[0].vertices
    assert_allclose(vertices[:, 0].max(), times[3])
    at = vertices[np.isclose(vertices[:, 0], times[1]), 1]
    expected = np.quantile(simulated[..., 1, 1], [0.025, 0.975])
    assert_allclose([at.min(), at.max()], expected)


def test_nothing_predicted_is_said():
    with pytest.raises(mc.InputError, match="predictive=True"):
        mc.plots.plot_predictive(made_posterior({"effort": ((), draws())}))
