"""What users hand to the wrong function: one line that says how to get what it takes."""

import jax
import numpy as np
import pytest

import motorcost as mc

TRIALS = mc.Trials.recorded(np.eye(5)[:2, :, None], dt=0.01, channels=["position"])
MOVEMENTS = mc.io.from_frame(mc.io.to_frame(TRIALS))
KEY = jax.random.key(0)


@pytest.mark.usefixtures("as_users_call_it")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: mc.concatenate([TRIALS, MOVEMENTS]),
            r"trials\[1\] must be Trials, got Movements: mc.io.read\(file\).trials\(dt=...\)",
        ),
        (lambda: mc.concatenate(TRIALS), "trials must be a list of Trials, got Trials: "),
        (
            lambda: mc.plots.plot_trials(MOVEMENTS),
            r"trials must be Trials, got Movements: movements.trials\(dt=...\) makes them",
        ),
        (
            lambda: mc.plots.plot_movements(TRIALS),
            "movements must be Movements, got Trials: .* mc.plots.plot_trials draws Trials",
        ),
        (lambda: mc.look(TRIALS), "source must be a study, recordings .* or a file, got Trials: "),
        (
            lambda: mc.analyse("study.toml"),
            "study must be a Study, got 'study.toml': mc.Study.read",
        ),
        (lambda: mc.compare([1, 2]), "fits must be a mapping from names to fits, got list: as in"),
        (lambda: mc.compare({"a": TRIALS}), r"fits\['a'\] must be a Fit, got Trials: mc.fit\("),
        (lambda: mc.check_fit(TRIALS, key=KEY), r"fit must be a Fit, got Trials: mc.fit\("),
    ],
)
def test_it_is_said_how_to_get_what_is_needed(call, message):
    with pytest.raises(mc.InputError, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)
