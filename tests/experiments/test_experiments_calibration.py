"""Calibration of posteriors: what the experiment makes of its tables."""

import numpy as np
import pandas as pd
import pytest

from motorcost.experiments import calibration
from motorcost.posterior.calibration import RANKED


def tables_with(places):
    """Tables in which true values have these places among draws, from 0 to 1."""
    tables = {}
    for name, (_, _, free) in calibration.CASES.items():
        columns = {"data_set": np.arange(len(places)), "failed": [""] * len(places)}
        for parameter in free:
            columns[f"{parameter}_rank"] = (places * (RANKED + 1)).astype(int)
            columns[f"{parameter}_below"] = places
        tables[name] = pd.DataFrame(columns)
    return tables


def test_sweeps_are_of_each_task():
    at = calibration.EXPERIMENT.scales["smoke"]
    plans = calibration.sweeps(at)
    assert [plan.name for plan in plans] == list(calibration.CASES)
    assert {plan.rows for plan in plans} == {at["sets"]}
    for plan in plans:
        assert tuple(name for name, _ in plan.function.priors) == calibration.CASES[plan.name][2]
        assert plan.function.n_trials == at["trials"]


def test_numbers_are_those_of_the_ranks():
    at = {"sets": 40, "trials": 20}
    even = (np.arange(40) + 0.5) / 40
    numbers = {number.name: number for number in calibration.numbers(at, tables_with(even))}
    assert len(numbers) == 3 * (1 + 2 + 3 + 3)
    assert numbers["chi-square p of the ranks of force, reaching, positions"].ours == 1
    covered = numbers["effort within its 50 % interval, fraction, saccade, all states"]
    assert covered.ours == 0.5
    assert covered.error == pytest.approx(np.sqrt(0.25 / 40))
    assert not any(number.note for number in numbers.values())
    # Posteriors that are too narrow: true values lie outside of all draws.
    outside = np.where(even < 0.5, 0.001, 0.999)
    wrong = calibration.numbers(at, tables_with(outside))
    assert [number.ours for number in wrong if "95 %" in number.name] == [0] * 9
    notes = [number.note for number in wrong if number.note]
    assert len(notes) == 4
    assert notes[0].startswith("In saccade, all states: the ranks of effort are not uniform")
    (picture,) = calibration.draw(at, tables_with(even))
    assert [ax.get_title() for ax in picture.figure.axes] == [
        title for title, _, _ in calibration.CASES.values()
    ]
