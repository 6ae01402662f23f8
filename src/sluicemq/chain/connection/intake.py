"""What a publishing client has sent is parsed here, when it is the turn of those who publish; with
a client that sends more than that, it is also read from the socket no sooner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.amqp.connection import Publishes
from sluicemq.amqp.runs import EXCHANGE_AT
from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from sluicemq.amqp.connection import AnyPublishes
    from sluicemq.chain.connection.reader import Reader


class Intake(Actor):
    """Parses for a reader whose client publishes: one turn for each such client in order, and only
    when what is in the broker already has moved on as far as it can (`Actor.is_patient`)."""

    is_patient = True

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader.scheduler)
        self.reader: Reader | None = reader
        """None: the connection has ended."""

    def expect(self, event: AnyPublishes) -> None:
        """The client has published this, and will go on: those who publish to one address have
        their turns together, so that its queues deal out together what they bring."""
        self.company = event.raw_method[EXCHANGE_AT:-2] if isinstance(event, Publishes) else None

    def turn_ended(self) -> None:
        if self.reader is not None:
            self.reader.take_more_in()

    def faulted(self, error: Exception) -> None:
        """The connection is closed."""
        if self.reader is not None:
            self.reader.broken()
