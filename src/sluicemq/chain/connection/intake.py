"""Parsing for clients that publish, in the turns of patient actors; what such a client has sent
beyond one read stays in the socket until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.amqp.connection import ROOM_BYTES
from sluicemq.amqp.events import Publishes
from sluicemq.amqp.runs import EXCHANGE_AT
from sluicemq.chain.writer import nobody
from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.amqp.events import AnyPublishes
    from sluicemq.kernel.actor import Scheduler

PULL_BYTES: Final = 1 << 20
"""The most bytes that are read at once. A read of a quarter of that finds more of them in a
processor's cache when they are parsed, but each read wakes the client, which has room again."""
LITTLE_BYTES: Final = 16 << 10
"""The most bytes that are read at once when contents are so large that there is room for each: the
beginning of one, which is copied."""


class Intake(Actor):
    """Parses for a reader whose client publishes: one turn for each such client in order, and only
    when the messages in the broker have moved on as far as they can (`Actor.is_patient`)."""

    is_patient = True
    is_vital = False

    def __init__(
        self, scheduler: Scheduler, take_in: Callable[[], None], broken: Callable[[], None]
    ) -> None:
        """`take_in` parses a turn's worth; `broken` closes the connection after a fault."""
        super().__init__(scheduler)
        self.take_in = take_in
        self.broken = broken
        self.expected = b""
        """The method frame of what the client has published last."""
        self.pull_bytes = PULL_BYTES
        """The most bytes that are to be read from the socket at once, when no content is being
        read."""

    def expect(self, event: AnyPublishes) -> None:
        """Note what the client has published, because it will go on: clients that publish to one
        address have their turns together, so that its queues deal out their messages together."""
        raw = event.raw_method if isinstance(event, Publishes) else b""
        if raw is not self.expected:
            self.expected = raw
            self.turn_group = raw[EXCHANGE_AT:-2] or None
        is_vast = event.size >= ROOM_BYTES * len(event.contents)
        self.pull_bytes = LITTLE_BYTES if is_vast else PULL_BYTES

    def turn_ended(self) -> None:
        self.take_in()

    def faulted(self, error: Exception) -> None:
        """Close the connection, because parsing its client's bytes has raised an unexpected
        exception."""
        self.broken()

    def release(self) -> None:
        """Drop the reference to the reader, whose connection has ended."""
        self.take_in = self.broken = nobody
