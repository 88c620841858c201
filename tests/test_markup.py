"""Percentages as text."""

import pytest

from motorcost.markup import percent


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [
        (0.9, 1, "90 %"),
        (0.0456, 2, "4.6 %"),
        (0.996, 2, "100 %"),
        (12.34, 3, "1230 %"),
        (1e-7, 1, "0.00001 %"),
        (float("inf"), 3, "inf %"),
        (float("nan"), 3, "nan %"),
    ],
)
def test_a_percentage_has_no_exponent(share, digits, text):
    assert percent(share, digits) == text
