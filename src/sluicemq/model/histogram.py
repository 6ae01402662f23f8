"""Histograms: counts of values between fixed bounds, as Prometheus wants them."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

DURATIONS_S: Final[tuple[float, ...]] = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""Bounds for what takes from a fraction of a millisecond to some seconds, in seconds."""

SIZES: Final[tuple[float, ...]] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
"""Bounds for how many things are done together."""


class Histogram:
    """Counts values between bounds; a value that equals a bound counts as below it."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """How many values were up to each bound and above the one before; the last: above all."""
        self.total = 0.0
        """The sum of all the values."""

    def add(self, value: float) -> None:
        """Count one more value, whatever its size."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def as_json(self) -> dict[str, Any]:
        """Return bounds, counts and sum as JSON."""
        return {"bounds": [*self.bounds], "counts": [*self.counts], "sum": self.total}
