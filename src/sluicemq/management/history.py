"""The histories of everything that is sampled, within a budget: samples of few objects are kept for
ten minutes, those of very many for as long as there is room.

The first sample without an object ends its history. Totals are kept in four rings with growing
steps, for a day in all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from sluicemq.management.ring import Ring

OBJECT_SAMPLES: Final = 120
"""The most samples of an object: ten minutes with one each 5 s, RabbitMQ's `basic` retention."""

CELLS_MAX: Final = 6_000_000
"""The most figures in the histories of one kind of objects, eight bytes each."""

STEPS_S: Final = (0, 60, 600, 1800)
SAMPLES: Final = (120, 60, 48, 48)
"""For totals: the least seconds between two samples of each ring, and how many it keeps."""


class Histories:
    """The rings of all objects of one kind. `names` are the figures in each sample."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = {name: column for column, name in enumerate(names)}
        self.rings: dict[Hashable, Ring] = {}
        self.changed_ms: dict[Hashable, int] = {}
        """When figures of an object were last seen to change."""

    def add(self, time_ms: int, rows: Mapping[Hashable, Sequence[int]]) -> None:
        """Take a sample of all objects; those that it does not have are gone."""
        for key in [key for key in self.rings if key not in rows]:
            del self.rings[key]
            self.changed_ms.pop(key, None)
        width = len(self.names)
        room = min(OBJECT_SAMPLES, CELLS_MAX // max(1, width * len(rows)))
        for key, values in rows.items():
            ring = self.rings.get(key)
            if ring is None:
                ring = self.rings[key] = Ring(width, room)
                self.changed_ms[key] = time_ms
            elif ring.room > max(2, room):
                ring = self.rings[key] = shrunk(ring, room)
            elif [*values] != last_of(ring):
                self.changed_ms[key] = time_ms
            ring.add(time_ms, values)

    def ring(self, key: Hashable) -> Ring | None:
        """Return the ring of an object; None when no sample had it yet."""
        return self.rings.get(key)


def last_of(ring: Ring) -> list[int]:
    """Return the figures of the newest sample of a ring, which must have one."""
    start = ring.slot(0) * ring.width
    return [*ring.values[start : start + ring.width]]


def shrunk(ring: Ring, room: int) -> Ring:
    """Return a ring with less room, and the newest samples of `ring`."""
    smaller = Ring(ring.width, room)
    kept = [*ring.newest()][: smaller.room]
    for time_ms, start in reversed(kept):
        smaller.add(time_ms, ring.values[start : start + ring.width])
    return smaller


class TotalsHistory:
    """The figures of the whole broker, in rings with growing steps."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = {name: column for column, name in enumerate(names)}
        self.rings = [Ring(len(names), room) for room in SAMPLES]
        self.due_ms = [0] * len(STEPS_S)

    def add(self, time_ms: int, values: Sequence[int]) -> None:
        """Take a sample, into each ring whose step is over."""
        for index, ring in enumerate(self.rings):
            if time_ms >= self.due_ms[index]:
                ring.add(time_ms, values)
                self.due_ms[index] = time_ms + STEPS_S[index] * 1000

    def ring(self, age_s: int = 0) -> Ring:
        """Return the finest ring that reaches so many seconds back; the finest if none does."""
        for ring in self.rings:
            times = [time_ms for time_ms, _ in ring.newest()]
            if times and times[0] - times[-1] >= age_s * 1000:
                return ring
        return self.rings[0]


def details(
    ring: Ring | None, column: int, age_s: int | None = None, step_s: int | None = None
) -> dict[str, Any]:
    """Return the `NAME_details` of RabbitMQ: the rate; with an age and a step in seconds, the
    samples of that time and their averages, too."""
    if ring is None:
        return {"rate": 0.0}
    shown: dict[str, Any] = {"rate": ring.rate(column)}
    if age_s is not None and step_s is not None:
        samples = ring.series(column, age_s, step_s)
        shown["samples"] = [{"sample": value, "timestamp": time} for value, time in samples]
        if samples:
            shown["avg"] = sum(value for value, _ in samples) / len(samples)
            passed_ms = samples[0][1] - samples[-1][1]
            change = samples[0][0] - samples[-1][0]
            shown["avg_rate"] = change * 1000 / passed_ms if passed_ms > 0 else 0.0
    return shown


def whole(values: Iterable[object]) -> list[int]:
    """Return figures as whole numbers; other values count as 0."""
    return [value if isinstance(value, int) else 0 for value in values]
