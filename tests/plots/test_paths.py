from io import BytesIO

import numpy as np
import pytest
from numpy.testing import assert_allclose

import motorcost as mc
from made import made_adequacy, made_fit
from motorcost.plots.plane import _curvature, targets_of


def trials_to(ways):
    ways = np.asarray(ways, float)
    course = np.linspace(0, 1, 21)
    straight = course[None, :, None] * ways[:, None]
    return mc.Trials.recorded(
        straight,
        dt=0.01,
        channels={"x": "m", "y": "m"},
        conditions={"target_x": ways[:, 0], "target_y": ways[:, 1]},
    )


def test_trials_to_nearly_the_same_target_belong_together():
    around = [[0.1, 0.0], [0.0, 0.1], [0.101, -0.002], [-0.1, 0.0], [0.002, 0.099]]
    targets = targets_of(trials_to(around))
    assert targets.group.tolist() == [0, 1, 0, 2, 1]
    assert_allclose(targets.places[0], [0.1005, -0.001])


def test_curvature_is_the_largest_distance_to_the_left():
    target = np.array([0.0, 0.2])
    path = np.array([[0, 0], [0.01, 0.05], [-0.03, 0.1], [np.nan, 0.1], [0, 0.2]])
    assert_allclose(_curvature(path, target), 15.0)
    assert_allclose(_curvature(-path, -target), 15.0)
    assert_allclose(_curvature(path * [-1, 1], target), -15.0)


@pytest.fixture(scope="module")
def fitted():
    """A fit to two targets, as it might be."""
    ways = np.array([[0.1, 0.0], [0.0, 0.1]] * 2)
    fit = made_fit(["effort"], trials_to(ways), task=mc.tasks.planar_reaching)
    return fit, made_adequacy(fit)


def test_paths_and_maps_show_what_was_recorded(fitted):
    fit, adequacy = fitted
    paths, maps = mc.plots.plot_paths(fit, adequacy), mc.plots.plot_targets(fit, adequacy)
    for figure in (paths, maps):
        figure.savefig(BytesIO())
    recorded, model = paths.axes
    assert recorded.get_title() == "recorded"
    first = np.column_stack(recorded.lines[0].get_data())
    assert_allclose(first, np.asarray(fit.trials.observed)[0])
    assert_allclose(np.column_stack(model.lines[0].get_data()), adequacy.replicates[0, 0])
    speed = maps.axes[0]
    assert speed.get_title() == "peak speed (m/s)"
    labels = [float(text.get_text()) for text in speed.texts]
    assert_allclose(labels, 0.5)  # 0.1 m in 0.2 s


def test_paths_need_a_plane():
    line = mc.Trials.recorded(np.zeros((2, 5, 1)), dt=0.1, channels={"position": "m"})
    with pytest.raises(mc.InputError, match="channels x and y and the conditions target_x"):
        targets_of(line)
