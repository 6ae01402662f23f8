"""The composition root: one broker in one World.

The World's owner calls `accept` for each new socket and `run` whenever the scheduler woke it.
Everything else goes through inboxes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.broker import Broker
from sluicemq.chain.reader import Peer, Reader
from sluicemq.flow.alarm import MEMORY, MemoryAlarm
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.limits import TRIM_ABOVE_BYTES, TRIM_LOOKS

if TYPE_CHECKING:
    from sluicemq.config import Config
    from sluicemq.kernel.world import World


class Look:
    """Time to look at memory and at who is active."""

    __slots__ = ()


class Monitor(Actor):
    """Looks at memory and at the flow budget at regular times, and raises the alarm."""

    def __init__(self, broker: Broker, config: Config) -> None:
        super().__init__(broker.scheduler)
        self.broker = broker
        self.interval_ms = config.memory.check_interval_ms
        self.memory = broker.world.memory
        self.config = config.memory
        limit = self.config.limit_bytes(self.memory.total_bytes())
        self.alarm = MemoryAlarm(limit, config.memory.clear_ratio)
        self.resident_bytes = self.memory.resident_bytes()
        self.looks = 0
        self.post(Look())

    def receive(self, message: object) -> None:
        assert isinstance(message, Look)
        self.resident_bytes = self.memory.resident_bytes()
        self.looks += 1
        idle = self.resident_bytes - self.broker.accounted_bytes
        if self.alarm.raised or (idle > TRIM_ABOVE_BYTES and self.looks % TRIM_LOOKS == 0):
            self.memory.trim()
            self.resident_bytes = self.memory.resident_bytes()
        self.look()
        if self.broker.budget is not None:
            self.broker.budget.tick(self.broker.world.clock.now_ns())
        self.broker.world.clock.call_after(self.interval_ms, self, Look())

    def look(self) -> None:
        """Compare with the limit; tell the board of a change."""
        change = self.alarm.update(self.broker.accounted_bytes, self.resident_bytes)
        log = self.broker.world.log
        if change == "raised":
            log.write(
                "warning", f"memory alarm raised, publishers are blocked: {self.alarm.reason}"
            )
            self.broker.alarms.raise_alarm(MEMORY, self.alarm.reason)
        elif change == "cleared":
            log.write("info", "memory alarm cleared")
            self.broker.alarms.clear_alarm(MEMORY)


class Node:
    """One broker."""

    def __init__(self, world: World, config: Config) -> None:
        self.world = world
        self.config = config
        self.scheduler = Scheduler()
        self.broker = Broker(world, config, self.scheduler)
        self.monitor = Monitor(self.broker, config)
        self.broker.monitor = self.monitor.look
        self.started_ms = world.clock.wall_ms()

    def accept(self, connection: int, peer: Peer) -> Reader:
        """A client has connected. Its bytes go to the reader, `Writable` to the reader's writer."""
        return Reader(self.broker, connection, peer)

    def run(self, turns_max: int) -> bool:
        """Run actors; True when work is left."""
        return self.scheduler.run(turns_max)

    def shut_down(self) -> None:
        """Tell every client that the broker goes (320), and hang up."""
        for reader in list(self.broker.connections.values()):
            reader.force_close("broker forced connection closure with reason 'shutdown'")
            reader.schedule()
