"""How much queues may keep in RAM, computed and told at regular intervals, and soon in a flood.

Queues are told a duration (`queues/classic/memory_target.py`); how many messages that is depends on
how fast each one moves. There may be very many queues, so they are examined and told a few at a
time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from sluicemq.chain.queue.queue import SetTarget
from sluicemq.flow.alarm import DISK, STORAGE
from sluicemq.kernel.actor import Actor
from sluicemq.limits import RETARGET_NS, RETARGET_QUEUE_NS
from sluicemq.queues.classic.memory_target import QueueLoad, desired_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.broker.broker import Broker
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.config import MemoryConfig
    from sluicemq.flow.alarm import MemoryAlarm

LOOKED_AT_MAX: Final = 50
"""Queues that are looked at in a piece."""
LOOK_WORK: Final = 8
"""Units of work that it costs to look at one."""
TOLD_MAX: Final = 20
"""Queues that are told in a piece."""
TOLD_WORK: Final = 40
"""Units of work that it costs to tell one, with the turn that it then needs."""


class Retarget:
    """Tells that it is time to compute again how much queues may keep in RAM."""

    __slots__ = ()


class Retargeting(Actor):
    """Computes how much the queues of one node may keep in RAM, and tells them."""

    def __init__(self, broker: Broker, config: MemoryConfig, alarm: MemoryAlarm) -> None:
        super().__init__(broker.scheduler)
        self.broker = broker
        self.clock = broker.world.clock
        self.config = config
        self.alarm = alarm
        """The memory alarm, whose limit holds for paging too."""
        self.duration_s = math.inf
        """The seconds' worth of messages that queues may keep in RAM, as found out last; infinity:
        no bound."""
        self.bounded: dict[Queue, None] = {}
        """The queues that were told a bound."""
        self.is_wanted = False
        """True when it is to be found out anew: soon, or when the round under way is through."""
        self.began_ns = self.clock.now_ns()
        """The time at which the last round began."""
        self.post(Retarget())

    def receive(self, message: object) -> None:
        assert isinstance(message, Retarget)
        self.begin_soon()
        self.clock.call_after(self.config.memory_monitor_interval, self, Retarget())

    def begin_soon(self) -> None:
        """Compute, in a later turn, how much queues may keep in RAM."""
        self.is_wanted = True
        self.schedule()

    def flooded(self) -> None:
        """Compute how much queues may keep in RAM, because they hold more than that already; unless
        that has just been done."""
        pause_ns = RETARGET_NS + RETARGET_QUEUE_NS * self.broker.queue_count
        if self.clock.now_ns() - self.began_ns >= pause_ns:
            self.begin_soon()

    def turn_ended(self) -> None:
        if self.is_wanted and self.underway is None:
            self.is_wanted = False
            self.began_ns = self.clock.now_ns()
            self.begin(self.retarget())

    def retarget(self) -> Iterator[int]:
        """Tell all queues that hold messages in RAM, or have a bound already, for how long they may
        keep messages. Yields the units of work of each step."""
        broker = self.broker
        queues = broker.all_with_messages()
        holding: dict[Queue, None] = {}
        loads: list[QueueLoad] = []
        leaving_bytes = broker.store.paged_bytes + broker.store.paging_bytes
        for at in range(0, len(queues), LOOKED_AT_MAX):
            for queue in queues[at : at + LOOKED_AT_MAX]:
                found = queue.ram_load(self.began_ns)
                if found is None:
                    continue
                load, leaving = found
                leaving_bytes += leaving
                if load.messages:
                    holding[queue] = None
                    loads.append(load)
            yield LOOKED_AT_MAX * LOOK_WORK
        self.duration_s = desired_duration(
            loads,
            broker.accounted_bytes - leaving_bytes,
            self.alarm.limit_bytes,
            self.config.vm_memory_high_watermark_paging_ratio,
            DISK in broker.alarms.reasons or STORAGE in broker.alarms.reasons,
        )
        told, self.bounded = self.bounded, {}
        if math.isfinite(self.duration_s):
            told = self.bounded = told | holding
        yield len(loads)
        yield from self.tell([*told])

    def tell(self, queues: list[Queue]) -> Iterator[int]:
        """Send the duration to those of the queues that still exist. Yields the units of work of
        each step."""
        for at in range(0, len(queues), TOLD_MAX):
            for queue in queues[at : at + TOLD_MAX]:
                if queue.is_deleted:
                    self.bounded.pop(queue, None)
                else:
                    queue.post(SetTarget(self.duration_s))
            yield TOLD_MAX * TOLD_WORK
