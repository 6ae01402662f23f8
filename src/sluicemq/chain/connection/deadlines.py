"""One timer for each connection, cheap for thousands: those due together share one.

A timer of the World cannot be cancelled, and would keep a closed connection in memory until it
fires; here a connection removes its timer when it goes. Times are rounded up to GRAIN_MS.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.world import Clock

GRAIN_MS: Final = 50
"""Milliseconds to which deadlines are rounded: little beside the shortest heartbeat's half
second."""
NANOSECONDS: Final = 1_000_000


class Tick:
    """Sent to a reader when half a heartbeat interval has passed."""

    __slots__ = ()


TICK: Final = Tick()


class Deadline:
    """Sent to a reader when it may not be in the phase `phase` any longer."""

    __slots__ = ("phase",)

    def __init__(self, phase: int) -> None:
        self.phase = phase


class DeadlinesDue:
    """A timer's message that some timers may be due; only the last one that was set counts."""

    __slots__ = ()


class Deadlines(Actor):
    """The timers of all connections of one node: at most one for each."""

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        super().__init__(scheduler)
        self.clock = clock
        self.slots: dict[int, dict[Actor, object]] = {}
        """The deadlines, by the multiple of GRAIN_MS at which they are due."""
        self.order: list[int] = []
        """A heap of the slots' numbers."""
        self.of: dict[Actor, int] = {}
        self.due = DeadlinesDue()
        self.due_slot = 0
        """The slot for which the timer was set last; 0: no timer runs."""

    def set(self, reader: Actor, delay_ms: int, message: object) -> None:
        """Post `message` to `reader` in `delay_ms`, rounded up to the next multiple of GRAIN_MS, in
        place of its earlier timer."""
        self.cancel(reader)
        slot = -(-(self.now_ms() + delay_ms) // GRAIN_MS)
        found = self.slots.get(slot)
        if found is None:
            found = self.slots[slot] = {}
            heappush(self.order, slot)
        found[reader] = message
        self.of[reader] = slot
        if not self.due_slot or slot < self.due_slot:
            self.look_at(slot)

    def cancel(self, reader: Actor) -> None:
        """Cancel the timer of this reader, if there is one."""
        slot = self.of.pop(reader, None)
        if slot is not None:
            del self.slots[slot][reader]

    def receive(self, message: object) -> None:
        if message is self.due:
            self.due_slot = 0
            self.tell()
        else:
            assert isinstance(message, DeadlinesDue)  # a later one has replaced it

    def tell(self) -> None:
        """Post the messages of all timers that are due, and set the clock for the next ones."""
        now_ms = self.now_ms()
        order = self.order
        while order and order[0] * GRAIN_MS <= now_ms:
            for reader, message in self.slots.pop(heappop(order)).items():
                del self.of[reader]
                reader.post(message)
        while order and not self.slots[order[0]]:
            del self.slots[heappop(order)]
        if order:
            self.look_at(order[0])

    def look_at(self, slot: int) -> None:
        """Have the clock call when the timers in this slot are due."""
        self.due = DeadlinesDue()
        self.due_slot = slot
        self.clock.call_after(max(1, slot * GRAIN_MS - self.now_ms()), self, self.due)

    def now_ms(self) -> int:
        return self.clock.now_ns() // NANOSECONDS
