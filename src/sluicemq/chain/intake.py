"""What a publishing client has sent is parsed here, when it is the turn of those who publish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from sluicemq.chain.reader import Reader


class Intake(Actor):
    """Parses for a reader whose client publishes: one turn for each such client in order, and only
    when what is in the broker already has moved on as far as it can (`Actor.is_patient`)."""

    is_patient = True

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader.scheduler)
        self.reader: Reader | None = reader
        """None: the connection has ended."""

    def turn_ended(self) -> None:
        if self.reader is not None:
            self.reader.take_in()

    def faulted(self, error: Exception) -> None:
        """The connection is closed."""
        if self.reader is not None:
            self.reader.broken()
