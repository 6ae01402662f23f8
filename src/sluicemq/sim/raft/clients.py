"""Clients of the registers: each does one operation after the other, at any member that leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sluicemq.sim.raft.linearizable import RegisterHistory
from sluicemq.sim.raft.register import KEYS

if TYPE_CHECKING:
    from sluicemq.sim.raft.events import Events
    from sluicemq.sim.raft.host import SimMember

PATIENCE_MS = 40
"""A client without an answer for so long begins another operation."""


class SimClients:
    """Clients that use a group until the run ends."""

    is_over: bool

    def answers(self) -> list[int]:
        """Return how many answers of each kind they have received."""
        raise NotImplementedError

    def figures(self) -> dict[str, int]:
        """Return the numbers of their operations, by name."""
        raise NotImplementedError


class Clients(SimClients):
    """Several clients. Each write has a unique value."""

    def __init__(self, events: Events, hosts: dict[int, SimMember], count: int) -> None:
        self.events = events
        self.hosts = hosts
        self.histories = {key: RegisterHistory(0) for key in KEYS}
        self.value = 0
        self.writes = 0
        self.reads = 0
        self.pause_ms = 6.0
        self.is_over = False
        for _ in range(count):
            self.next()

    def answers(self) -> list[int]:
        return [history.answers for history in self.histories.values()]

    def figures(self) -> dict[str, int]:
        return {"writes": self.writes, "reads": self.reads}

    def next(self) -> None:
        """Plan one client's next operation, after a while."""
        if not self.is_over:
            self.events.after(self.events.random.expovariate(1 / self.pause_ms), self.begin)

    def begin(self) -> None:
        """Begin an operation at a member that believes it leads: writes prefer the newest, reads
        the oldest."""
        leading = [each for each in self.hosts.values() if each.raft.leading and each.is_up]
        if not leading or self.is_over:
            self.next()
            return
        is_write = self.events.chance(0.5)
        leading.sort(key=lambda each: each.raft.member.term, reverse=is_write)
        host = self.events.random.choice(leading) if self.events.chance(0.4) else leading[0]
        key = self.events.random.choice(KEYS)
        is_done = False

        def once(done: Callable[[], None]) -> Callable[[], None]:
            def end() -> None:
                nonlocal is_done
                done()
                if not is_done:
                    is_done = True
                    self.next()

            return end

        give_up = once(lambda: None)
        if is_write:
            self.write(host, key, once)
        else:
            self.read(host, key, once)
        self.events.after(PATIENCE_MS, lambda: None if is_done else give_up())

    def write(
        self, host: SimMember, key: str, once: Callable[[Callable[[], None]], Callable[[], None]]
    ) -> None:
        """Write; an answer after the client has given up counts, too."""
        self.value += 1
        value = self.value
        history = self.histories[key]
        history.write_begins(value, self.events.now_ms)

        def done() -> None:
            self.writes += 1
            history.write_ends(value, self.events.now_ms)

        padding = " ".join([""] * self.events.random.choice([1, 1, 10, 120]))
        host.do(lambda: host.write(f"{key}={value}{padding}".encode(), once(done)))

    def read(
        self, host: SimMember, key: str, once: Callable[[Callable[[], None]], Callable[[], None]]
    ) -> None:
        """Read the register once that may be answered."""
        start = self.events.now_ms

        def done() -> None:
            self.reads += 1
            value = host.register.values[key]
            self.histories[key].read_ends(value, start, self.events.now_ms)

        host.do(lambda: host.read(once(done)))
