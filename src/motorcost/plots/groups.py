"""Trials in groups that a figure tells apart by colour or by panel."""

from collections.abc import Mapping

import numpy as np

from motorcost import checks
from motorcost.errors import InputError
from motorcost.plots.style import COLOURS


def divided(name: str, values: np.ndarray, unit: str, most: int) -> list[tuple[str, np.ndarray]]:
    """Trials by the value of a condition: what each group is called, and which trials it has.

    Numbers with more than `most` different values are divided into thirds.
    """
    different = np.unique(values)
    of_numbers = values.dtype.kind in "iuf"
    if len(different) <= most:
        return [
            (f"{name} {f'{value:.3g} {unit}'.strip() if of_numbers else value}", values == value)
            for value in different
        ]
    if not of_numbers:
        raise InputError(
            f"{name} has {len(different)} values, and a figure tells at most {most} apart"
        )
    third = np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)
    return [
        (f"{name} {values[chosen].min():.3g} to {values[chosen].max():.3g} {unit}".strip(), chosen)
        for chosen in (third == k for k in range(3))
        if chosen.any()
    ]


def coloured_groups(
    conditions: Mapping[str, np.ndarray], units: Mapping[str, str], count: int, by: str | None
) -> list[tuple[str, np.ndarray]]:
    """Trials by the condition `by`; if that is None, by the first with 2 to 6 different values.

    If there is none, all of `count` trials are one group without a name.
    """
    few = range(2, len(COLOURS) + 1)
    if by is None:
        by = next((n for n, values in conditions.items() if len(np.unique(values)) in few), None)
    else:
        checks.one_of("condition", by, list(conditions))
    if by is None:
        return [("", np.ones(count, bool))]
    return divided(by, np.asarray(conditions[by]), units.get(by, ""), len(COLOURS))
