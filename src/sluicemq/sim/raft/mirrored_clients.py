"""Clients of a mirrored queue: each does one operation after the other, at any member
that serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.sim.raft.clients import PATIENCE_MS, SimClients

if TYPE_CHECKING:
    from sluicemq.sim.raft.events import Events
    from sluicemq.sim.raft.mirrored_member import MirroredMember

PAUSE_MS = 5.0
CALM_PAUSE_MS = 40.0
"""The average pause of a client once all is healed: longer, so that laggards catch up."""
READY_MAX = 30
"""Clients do not publish while more messages are ready."""


class MirroredClients(SimClients):
    """Several clients that publish and consume."""

    def __init__(self, events: Events, hosts: dict[int, MirroredMember], count: int) -> None:
        self.events = events
        self.hosts = hosts
        self.is_over = False
        self.pause_ms = PAUSE_MS
        self.confirmed = 0
        self.asked = 0
        for _ in range(count):
            self.next()

    def answers(self) -> list[int]:
        return [self.confirmed, self.asked]

    def figures(self) -> dict[str, int]:
        return {"published": self.confirmed, "asked": self.asked}

    def next(self) -> None:
        """Plan one client's next operation, after a while."""
        if not self.is_over:
            self.events.after(self.events.random.expovariate(1 / self.pause_ms), self.begin)

    def begin(self) -> None:
        """Begin an operation at a member that serves, perhaps not the true master."""
        serving = [each for each in self.hosts.values() if each.is_up and each.master is not None]
        if not serving or self.is_over:
            self.next()
            return
        host = self.events.random.choice(serving)
        assert host.master is not None
        if host.master.ready > READY_MAX or self.events.chance(0.5):
            host.do(lambda: self.consume(host))
            self.next()
        else:
            self.publish(host)

    def publish(self, host: MirroredMember) -> None:
        """Publish, and go on once that is confirmed, or after a while."""
        is_over = False

        def end() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                self.next()

        def done() -> None:
            self.confirmed += 1
            end()

        def begin() -> None:
            master = host.master
            if master is not None and not master.queue.mastership.holding_up:
                master.publish(self.events.random.choice([1, 1, 2, 5]), done)

        host.do(begin)
        self.events.after(PATIENCE_MS, end)

    def consume(self, host: MirroredMember) -> None:
        """Get some messages, or do a rarer operation."""
        master = host.master
        if master is None:
            return
        self.asked += 1
        dice = self.events.random.random()
        if dice < 0.01:
            master.purge()
        elif dice < 0.05:
            master.go_down()
        else:
            for _ in range(self.events.random.choice([1, 3, 8])):
                master.get(self.events.chance(0.2))
