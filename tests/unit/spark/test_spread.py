"""The small statistics, against Python's own and by hand."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.spark.pipeline.spread import imbalance, mean, median, slope, variation

values = st.lists(st.floats(min_value=0.1, max_value=1e6), min_size=2, max_size=30)


@given(values)
def test_variation_is_standard_deviation_over_mean(numbers: list[float]) -> None:
    wanted = statistics.pstdev(numbers) / statistics.fmean(numbers)
    assert variation(numbers) == pytest.approx(wanted, abs=1e-6)


@given(values)
def test_median_is_pythons(numbers: list[float]) -> None:
    assert median(numbers) == statistics.median(numbers)


@given(values)
def test_slope_is_the_least_squares_one(numbers: list[float]) -> None:
    wanted = statistics.linear_regression(range(len(numbers)), numbers).slope
    assert slope(numbers) == pytest.approx(wanted, rel=1e-6, abs=1e-3)


def test_too_few_values_give_no_spread() -> None:
    assert mean([]) == 0
    assert median([]) == 0
    assert variation([5.0]) is None
    assert variation([0.0, 0.0]) is None
    assert slope([7.0]) == 0


def test_imbalance_of_equals_is_one_and_zero() -> None:
    found = imbalance([4.0, 4.0, 4.0])
    assert (found.count, found.mean, found.max_over_mean, found.cv) == (3, 4.0, 1.0, 0.0)


def test_imbalance_counts_the_idle() -> None:
    found = imbalance([8.0, 0.0])
    assert found.max_over_mean == 2.0
    assert found.cv == 1.0


def test_imbalance_of_nothing_is_not_defined() -> None:
    assert imbalance([]).max_over_mean is None
    assert imbalance([0.0, 0.0]).cv is None
