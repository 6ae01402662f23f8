"""Requests of this node's channels to a quorum queue with members on several nodes, until they are
known to be committed.

    commands --gather--> row --to the leader--> entry of the log --applied by this member--> gone

All rows are sent again, in order, to each new leader. The state skips rows that it has applied
before.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.queues.quorum.commands import Asked

if TYPE_CHECKING:
    from sluicemq.kernel.address import ActorAddress
    from sluicemq.queues.quorum.commands import FifoCommand
    from sluicemq.queues.quorum.effects import RowBegins
    from sluicemq.queues.quorum.entry_content import FifoCodec


WAIT_TICKS: Final = 2
"""Ticks for which settlements wait for other commands: so 100 to 200 ms."""


class AskedRow:
    """Commands that go in one entry, with their approximate size."""

    __slots__ = ("commands", "number", "size_bytes")

    def __init__(self, number: int, commands: list[FifoCommand], size_bytes: int) -> None:
        self.number = number
        self.commands = commands
        self.size_bytes = size_bytes


class Asking:
    """The rows of one requester, `address`."""

    def __init__(self, address: ActorAddress, codec: FifoCodec) -> None:
        self.address = address
        self.codec = codec
        self.rows: deque[AskedRow] = deque()
        """The rows that are not applied here, in order."""
        self.gathered: list[FifoCommand] = []
        """Commands in no row yet; `gathered_bytes` is their approximate size, and `size_bytes`
        includes that of all rows."""
        self.gathered_bytes = self.size_bytes = 0
        self.wait_ticks = 0
        """Ticks for which the gathered commands may wait for others; 0: they do not wait."""
        self.next_number = 1
        self.sent = 0
        """Rows up to this number were sent to the present leader."""
        self.done = 0
        """Rows up to this number are applied here."""

    @property
    def under_way_bytes(self) -> int:
        """Return the approximate bytes of the rows that are not applied."""
        return self.size_bytes - self.gathered_bytes

    @property
    def unsent(self) -> list[AskedRow]:
        """Return the rows that the current leader has not been sent."""
        return [row for row in self.rows if row.number > self.sent]

    def add(self, command: FifoCommand) -> None:
        self.gathered.append(command)
        self.grew(self.codec.weigh(command))

    def grew(self, weight: int) -> None:
        """Add to the sizes the bytes by which the last command has grown."""
        self.gathered_bytes += weight
        self.size_bytes += weight

    def last_gathered(self) -> FifoCommand | None:
        """Return the command added last, if it is in no row yet."""
        return self.gathered[-1] if self.gathered else None

    def wait(self) -> None:
        """Let the gathered commands wait for others for some ticks, from when they first did."""
        if not self.wait_ticks:
            self.wait_ticks = WAIT_TICKS

    def has_waited(self) -> bool:
        """Let a tick pass. Returns whether the gathered commands have waited long enough."""
        if not self.wait_ticks:
            return False
        self.wait_ticks -= 1
        return not self.wait_ticks

    def make_row(self) -> None:
        """Make a row of the gathered commands; an empty row serves a channel that asks when all
        earlier commands are done."""
        row = [Asked(self.address, self.next_number), *self.gathered]
        self.rows.append(AskedRow(self.next_number, row, self.gathered_bytes))
        self.next_number += 1
        self.gathered = []
        self.gathered_bytes = self.wait_ticks = 0

    def begin_anew(self) -> None:
        """Send all rows again, because the leader has changed or is lost."""
        self.sent = 0

    def let_go(self) -> None:
        """Drop everything, because the queue is deleted and nothing more is applied."""
        self.rows.clear()
        self.gathered.clear()
        self.gathered_bytes = self.size_bytes = self.wait_ticks = 0

    def began(self, effect: RowBegins) -> bool:
        """Note which row the next effects come from. Returns whether it is the first row of this
        requester."""
        return effect.asker == self.address and self.applied(effect.number)

    def applied(self, number: int) -> bool:
        """Drop the rows up to a number, which are applied here. Returns whether the first row of
        this requester is among them."""
        assert number >= self.done, "rows are applied in order"
        was, self.done = self.done, number
        while self.rows and self.rows[0].number <= number:
            self.size_bytes -= self.rows.popleft().size_bytes
        return not was and number > 0
