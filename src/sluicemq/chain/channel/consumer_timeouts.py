"""The consumer timeout: a channel with a delivery that is not acknowledged in time is closed.

Deliveries carry no time. Now and then each channel with unacknowledged deliveries notes its next
delivery tag and the time; if its oldest tag is below one that was noted longer ago than the
timeout, that delivery is overdue. So the timeout costs a check a minute and nothing a message, and
is noticed at most two checks late.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.errors import ChannelViolation
from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from sluicemq.chain.channel.channel_directory import ChannelDirectory
    from sluicemq.chain.channel.channel_port import ChannelPort
    from sluicemq.chain.services import Services

LOOKS: Final = 4
"""How often all channels are looked at within one timeout, at least."""
LOOK_MS_MIN: Final = 10
LOOK_MS_MAX: Final = 60_000


class ConsumerTimeoutsDue:
    """A timer's message that it is time to check all channels."""

    __slots__ = ()


class LookAtOldest:
    """Has a channel check whether, at the time `now_ns`, its oldest delivery has been
    unacknowledged for longer than `timeout_ms`."""

    __slots__ = ("now_ns", "timeout_ms")

    def __init__(self, now_ns: int, timeout_ms: int) -> None:
        self.now_ns = now_ns
        self.timeout_ms = timeout_ms


class Marks:
    """The earlier checks of one channel: when each was, and the delivery tag that was next then."""

    __slots__ = ("marks",)

    def __init__(self) -> None:
        self.marks: deque[tuple[int, int]] = deque()

    def look(self, oldest: int, next_tag: int, look: LookAtOldest) -> bool:
        """Note this check and tell whether the delivery with the tag `oldest` is overdue: whether
        it was sent before a check that is at least the timeout back. `next_tag` is the lowest that
        was not given yet."""
        marks = self.marks
        marks.append((look.now_ns, next_tag))
        due_ns = look.now_ns - look.timeout_ms * 1_000_000
        while len(marks) > 1 and marks[1][0] <= due_ns:
            marks.popleft()  # the next one tells more
        written_ns, came_to = marks[0]
        return written_ns <= due_ns and oldest < came_to


class ConsumerTimeouts(Actor):
    """Has the channels of one node checked for overdue deliveries now and then; does nothing when
    `timeout_ms` is 0."""

    def __init__(
        self, services: Services, directory: ChannelDirectory[ChannelPort], timeout_ms: int
    ) -> None:
        super().__init__(services.scheduler)
        self.clock = services.world.clock
        self.directory = directory
        self.timeout_ms = timeout_ms
        self.interval_ms = min(LOOK_MS_MAX, max(LOOK_MS_MIN, timeout_ms // LOOKS))
        if timeout_ms:
            self.wait()

    def wait(self) -> None:
        """Set the timer for the next check, `interval_ms` from now."""
        self.clock.call_after(self.interval_ms, self, ConsumerTimeoutsDue())

    def receive(self, message: object) -> None:
        assert isinstance(message, ConsumerTimeoutsDue)
        look = LookAtOldest(self.clock.now_ns(), self.timeout_ms)
        for channel in self.directory.all_channels():
            if channel.has_unacked:
                channel.post(look)
        self.wait()


def overdue(number: int, timeout_ms: int) -> ChannelViolation:
    """Return the error 406, in RabbitMQ's words, for a delivery on channel `number` that was not
    acknowledged within `timeout_ms`."""
    return ChannelViolation(
        406,
        f"delivery acknowledgement on channel {number} timed out. Timeout value used:"
        f" {timeout_ms} ms. This timeout value can be configured, see consumers doc guide to"
        " learn more",
    )
