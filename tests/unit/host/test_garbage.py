"""When all objects are looked through for circles."""

from __future__ import annotations

from sluicemq.host.garbage import CHEAP_SECONDS, DUE, IDLE_ROUNDS, Collector

BUSY = IDLE_ROUNDS + 1
OLD, ALL = 1, 2


class Bench:
    """A collector with a clock of its own; looking through all takes `whole` seconds."""

    def __init__(self, whole: float = 0.5) -> None:
        self.time = 0.0
        self.short = False
        self.whole = whole
        self.collected = 0
        self.collector = Collector(lambda: self.short, lambda: self.time, self.collect)
        self.python(ALL, whole)

    def python(self, generation: int, seconds: float) -> None:
        """Python looks through a generation."""
        info = {"generation": generation, "collected": 0, "uncollectable": 0}
        self.collector.noticed("start", info)
        self.time += seconds
        self.collector.noticed("stop", info)

    def collect(self) -> None:
        self.collected += 1
        self.python(ALL, self.whole)

    def look(self, rounds: int = BUSY) -> int:
        """How often all were looked through at this look."""
        before = self.collected
        self.collector.rounds += rounds
        self.collector.look()
        return self.collected - before

    def grow(self, times: int = DUE, seconds: float = 0.0) -> None:
        for _ in range(times):
            self.python(0, 0.001)
            self.python(OLD, seconds)


def test_not_before_enough_has_become_old() -> None:
    bench = Bench(whole=0.0)
    bench.grow(DUE - 1)
    assert bench.look(0) == 0
    bench.grow(1)
    assert bench.look(0) == 1
    assert bench.look(0) == 0


def test_when_it_is_cheap_also_while_busy() -> None:
    bench = Bench(whole=CHEAP_SECONDS / 2)
    bench.grow()
    assert bench.look() == 1


def test_not_while_busy_when_it_takes_long() -> None:
    bench = Bench()
    bench.grow(10 * DUE)
    assert bench.look() == 0
    assert bench.look(IDLE_ROUNDS) == 1


def test_what_has_come_since_counts() -> None:
    bench = Bench(whole=0.0)
    bench.grow(DUE, 2 * CHEAP_SECONDS / DUE)
    assert bench.look() == 0


def test_when_memory_is_short_and_enough_is_new() -> None:
    bench = Bench(whole=0.5)
    bench.short = True
    bench.grow(DUE, 0.1 / DUE)
    assert bench.look() == 0
    bench.grow(DUE, 0.1 / DUE)
    assert bench.look() == 1
    assert bench.look() == 0
