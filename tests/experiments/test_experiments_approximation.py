"""The exact likelihood beside moment matching: what the experiment makes of its table."""

import numpy as np
import pandas as pd
from numpy.testing import assert_allclose

from motorcost.experiments import approximation


def test_numbers_are_means_over_repetitions():
    at = approximation.EXPERIMENT.scales["smoke"]
    (sweep,) = approximation.sweeps(at)
    assert sweep.rows == 2 * len(approximation.CASES)
    rows = [
        {
            "case": case,
            "failed": "",
            "gap": 0.1 * i + shift,
            "gap_error": 0.03,
            "gap_sd": 0.5,
            "bias_1": -shift,
            "bias_2": 0.2,
            "bias_3": np.nan,
        }
        for i, case in enumerate(approximation.CASES)
        for shift in (-0.01, 0.01)
    ]
    tables = {sweep.name: pd.DataFrame(rows)}
    numbers = {number.name: number for number in approximation.numbers(at, tables)}
    gap = numbers["gap per trial (nats), reaching, positions"]
    assert_allclose([gap.ours, gap.error], [0.1, 0.01])
    assert "Monte Carlo error is 0.021" in gap.note
    bias = numbers["bias of effort (SE of 100 trials), saccade, angles"]
    assert_allclose([bias.ours, bias.error], [0.0, 0.01], atol=1e-12)
    assert len(numbers) == 6 + 3 + 3 + 1 + 1 + 2 + 2
    (picture,) = approximation.draw(at, tables)
    assert len(picture.figure.axes) == 2
