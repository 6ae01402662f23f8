"""The last samples of some figures, in a ring of fixed size: eight bytes a figure and sample."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence


class Ring:
    """Keeps the last `room` samples, each of `width` whole numbers."""

    __slots__ = ("at", "count", "rates", "room", "times", "values", "width")

    def __init__(self, width: int, room: int) -> None:
        self.width = width
        self.room = max(2, room)
        self.times = array("q", bytes(8 * self.room))
        self.values = array("q", bytes(8 * self.room * width))
        self.at = 0
        """The slot for the next sample."""
        self.count = 0
        self.rates: Sequence[float] | None = None
        """The rates between the last two samples; None: not computed yet."""

    def add(self, time_ms: int, values: Sequence[int]) -> None:
        """Keep one more sample; a full ring drops its oldest."""
        start = self.at * self.width
        self.times[self.at] = time_ms
        self.values[start : start + self.width] = array("q", values)
        self.at = (self.at + 1) % self.room
        self.count = min(self.count + 1, self.room)
        self.rates = None

    def slot(self, age: int) -> int:
        """Return the index of the `age`th newest sample, from 0 on."""
        return (self.at - 1 - age) % self.room

    def rate(self, column: int) -> float:
        """Return the change of a figure per second between the last two samples, to four places."""
        if self.rates is None:
            self.rates = self.rates_now()
        return self.rates[column]

    def restart_rates(self) -> None:
        """Show no rates across the newest sample and earlier ones: its counters began anew."""
        self.rates = (0.0,) * self.width

    def rates_now(self) -> Sequence[float]:
        """Return the change of each figure per second between the last two samples."""
        new, old = self.slot(0), self.slot(1)
        passed_ms = self.times[new] - self.times[old]
        width = self.width
        after = self.values[new * width : (new + 1) * width]
        before = self.values[old * width : (old + 1) * width]
        if self.count < 2 or passed_ms <= 0 or after == before:
            return (0.0,) * width
        return [
            round((one - other) * 1000 / passed_ms, 4)
            for one, other in zip(after, before, strict=True)
        ]

    def newest(self) -> Iterator[tuple[int, int]]:
        """Yield the time of each sample and where its values begin, the newest first."""
        for age in range(self.count):
            slot = self.slot(age)
            yield self.times[slot], slot * self.width

    def last(self, column: int) -> int:
        """Return a figure of the newest sample; 0 when there is none."""
        return self.values[self.slot(0) * self.width + column] if self.count else 0

    def series(self, column: int, age_s: int, step_s: int) -> list[tuple[int, int]]:
        """Return (value, time) of the samples of the last `age_s` seconds, the newest first, about
        `step_s` seconds apart."""
        found: list[tuple[int, int]] = []
        newest_ms = due_ms = None
        for time_ms, start in self.newest():
            if newest_ms is None:
                newest_ms = due_ms = time_ms
            if newest_ms - time_ms > age_s * 1000:
                break
            if due_ms is not None and time_ms <= due_ms:
                found.append((self.values[start + column], time_ms))
                due_ms = time_ms - step_s * 1000
        return found
