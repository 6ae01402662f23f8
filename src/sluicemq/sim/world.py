"""The simulated World: a clock that jumps from event to event, seeded dice, and memory.

The counterparts of `host/`. `net.py` has the sockets, `disk.py` the files; `run.py` puts them
together. The CPU is simulated too: the node gets a few turns at a time, which cost time, so that
inboxes really fill up.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Protocol

from sluicemq.kernel.world import Clock, Dice, Log, Memory
from sluicemq.sim.units import MS

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor, Scheduler
    from sluicemq.sim.timeline import Timeline

EPOCH_MS = 1_700_000_000_000


class CpuPace(Protocol):
    """The speed of a simulated processor."""

    @property
    def turns_max(self) -> int:
        """Return the most turns before sockets are looked at."""

    @property
    def turn_ns_max(self) -> int:
        """Return the longest duration of a turn."""


class Program(Protocol):
    """The program that a simulated processor runs."""

    scheduler: Scheduler

    def run(self, turns_max: int) -> bool:
        """Run at most `turns_max` turns. Returns whether there is more to do now."""


class SimClock(Clock):
    """The clock of the simulation, which shows virtual time."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline

    def now_ns(self) -> int:
        return self.timeline.now_ns

    def wall_ms(self) -> int:
        return EPOCH_MS + self.timeline.now_ns // MS

    def call_after(self, delay_ms: int, actor: Actor, message: object) -> None:
        what = type(message).__name__
        self.timeline.after(delay_ms * MS, "timer", what, actor.post, message)


class SimDice(Dice):
    """The node's random numbers, which follow from the seed."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def below(self, limit: int) -> int:
        return self.random.randrange(limit)

    def token(self, size: int) -> bytes:
        return self.random.randbytes(size)


class SimLog(Log):
    """A log that keeps the errors and warnings of the node."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def write(self, level: str, text: str) -> None:
        if level == "error":
            self.errors.append(text)


class SimMemory(Memory):
    """The memory of the simulation: the script sets RSS; the broker counts the accounted bytes."""

    def __init__(self, total_bytes: int) -> None:
        self.total = total_bytes
        self.resident = 0
        self.trims = 0

    def total_bytes(self) -> int:
        return self.total

    def resident_bytes(self) -> int:
        return self.resident

    def trim(self) -> None:
        self.trims += 1


class Cpu:
    """Runs the node's scheduler a few turns at a time; each turn costs virtual time."""

    def __init__(
        self, timeline: Timeline, random: Random, pace: CpuPace, name: str = "node"
    ) -> None:
        self.timeline = timeline
        self.random = random
        self.pace = pace
        self.name = name
        self.slow_until_ns = 0
        self.healed = False
        self.runs = 0
        self.node: Program | None = None

    def attach(self, node: Program) -> None:
        """Run this node from now on; it may have work already."""
        self.node = node
        node.scheduler.wake = self.wake
        self.wake()

    def detach(self) -> None:
        """Stop running the node, which has ended."""
        if self.node is not None:
            self.node.scheduler.wake = lambda: None
            self.node = None

    def wake(self) -> None:
        """Plan turns of the node, which has work."""
        self.timeline.after(self._cost_ns(1), self.name, "run", self._run, self.node)

    def _run(self, node: object) -> None:
        if self.node is None or node is not self.node:
            return
        self.runs += 1
        turns = 1 + self.random.randrange(self.pace.turns_max)
        if self.node.run(turns):
            self.timeline.after(self._cost_ns(turns), self.name, "run on", self._run, node)

    def _cost_ns(self, turns: int) -> int:
        if self.healed:
            return turns * 1000
        each_ns = 1 + self.random.randrange(self.pace.turn_ns_max)
        if self.timeline.now_ns < self.slow_until_ns:
            each_ns *= 50
        return turns * each_ns
