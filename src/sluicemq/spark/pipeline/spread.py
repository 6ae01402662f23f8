"""The few statistics the tables need, over lists of a value a second or a client."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from sluicemq.spark.pipeline.results import Imbalance


def mean(values: Sequence[float]) -> float:
    """Return the mean of the values; 0 when there are none."""
    return sum(values) / len(values) if values else 0.0


def variation(values: Sequence[float]) -> float | None:
    """Return the coefficient of variation (standard deviation / mean); None for under 2 values, or
    a mean of 0."""
    average = mean(values)
    if len(values) < 2 or average == 0:
        return None
    return sqrt(mean([(value - average) ** 2 for value in values])) / average


def slope(values: Sequence[float]) -> float:
    """Return the least-squares slope per step of the sequence; 0 for under 2 values."""
    count = len(values)
    if count < 2:
        return 0.0
    middle, average = (count - 1) / 2, mean(values)
    spread = sum((x - middle) ** 2 for x in range(count))
    return sum((x - middle) * (y - average) for x, y in enumerate(values)) / spread


def median(values: Sequence[float]) -> float:
    """Return the middle value, or the mean of the middle two of an even number of them; 0 when
    there are none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def imbalance(values: Sequence[float]) -> Imbalance:
    """Return how unevenly the values are spread over their clients or queues."""
    average = mean(values)
    largest = max(values) / average if values and average else None
    return Imbalance(len(values), average, largest, variation(values))
