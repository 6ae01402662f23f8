"""Consumers that take too long: a channel with a delivery nobody has acknowledged in time ends.

Deliveries carry no time. Now and then each channel that has something out writes down the delivery
tag it has come to, and when; if its oldest tag is below one that was written down longer ago than
the timeout, that delivery is overdue. So it costs a look a minute and nothing a message, and what
is overdue is noticed at most two looks late.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.errors import ChannelViolation
from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from sluicemq.chain.channel.port import ChannelDirectory
    from sluicemq.chain.services import Services

LOOKS: Final = 4
"""At least so many in one timeout."""
LOOK_MS_MIN: Final = 10
LOOK_MS_MAX: Final = 60_000


class Look:
    """Time to look at the channels."""

    __slots__ = ()


class LookAtOldest:
    """To a channel: see whether something has been out for too long."""

    __slots__ = ("now_ns", "timeout_ms")

    def __init__(self, now_ns: int, timeout_ms: int) -> None:
        self.now_ns = now_ns
        self.timeout_ms = timeout_ms


class Marks:
    """How far a channel had come with its delivery tags, and when."""

    __slots__ = ("marks",)

    def __init__(self) -> None:
        self.marks: deque[tuple[int, int]] = deque()

    def look(self, oldest: int, next_tag: int, look: LookAtOldest) -> bool:
        """Is the delivery with the tag `oldest` overdue? Tags from `next_tag` on are to come."""
        marks = self.marks
        marks.append((look.now_ns, next_tag))
        due_ns = look.now_ns - look.timeout_ms * 1_000_000
        while len(marks) > 1 and marks[1][0] <= due_ns:
            marks.popleft()  # the next one says more
        written_ns, came_to = marks[0]
        return written_ns <= due_ns and oldest < came_to


class ConsumerTimeouts(Actor):
    """One per node; idle when there is no timeout."""

    def __init__(self, services: Services, directory: ChannelDirectory, timeout_ms: int) -> None:
        super().__init__(services.scheduler)
        self.clock = services.world.clock
        self.directory = directory
        self.timeout_ms = timeout_ms
        self.interval_ms = min(LOOK_MS_MAX, max(LOOK_MS_MIN, timeout_ms // LOOKS))
        if timeout_ms:
            self.wait()

    def wait(self) -> None:
        """Until the next look."""
        self.clock.call_after(self.interval_ms, self, Look())

    def receive(self, message: object) -> None:
        assert isinstance(message, Look)
        look = LookAtOldest(self.clock.now_ns(), self.timeout_ms)
        for channel in self.directory.all_channels():
            if channel.has_unacked:
                channel.post(look)
        self.wait()


def overdue(number: int, timeout_ms: int) -> ChannelViolation:
    """RabbitMQ's words."""
    return ChannelViolation(
        406,
        f"delivery acknowledgement on channel {number} timed out. Timeout value used:"
        f" {timeout_ms} ms. This timeout value can be configured, see consumers doc guide to"
        " learn more",
    )
