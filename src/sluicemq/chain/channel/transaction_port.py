"""What the halves of a channel see of its transaction, and the publishes that it keeps for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.limits import RUN_MESSAGES_MAX, TRANSACTION_BATCH_BYTES
from sluicemq.model.batch import are_same_size

if TYPE_CHECKING:
    from sluicemq.chain.channel.routes import Route
    from sluicemq.chain.channel.unacked import Undoable
    from sluicemq.model.traits import PropertyTraits


class PendingPublishes:
    """Messages that wait for the commit, with everything `Publishing.send` has to know of them."""

    __slots__ = ("contents", "large", "names", "properties", "route", "same_size", "size")

    def __init__(
        self,
        route: Route,
        contents: list[bytes],
        names: list[str],
        size: int,
        same_size: bool,
        properties: PropertyTraits,
        large: bool,
    ) -> None:
        self.route = route
        self.contents = list(contents)
        self.names = names
        self.size = size
        self.same_size = same_size
        self.properties = properties
        self.large = large

    def absorb(self, more: PendingPublishes) -> bool:
        """Take in the following messages and return True if they fit into one batch with these,
        else return False. So a commit is few messages to each queue, and their writes are mostly in
        one group of the journal."""
        if (
            more.route is not self.route
            or more.names != self.names
            or not more.properties.is_like(self.properties)
            or more.large != self.large
            or len(self.contents) + len(more.contents) > RUN_MESSAGES_MAX
            or self.size + more.size > TRANSACTION_BATCH_BYTES
        ):
            return False
        self.same_size = (
            self.same_size
            and more.same_size
            and are_same_size([self.contents[0], more.contents[0]])
        )
        self.contents += more.contents
        self.size += more.size
        return True


class TransactionPort:
    """The transactional mode of a channel. `passing` is True while the commit lets publishes
    through. `pending_bytes` and `messages` count the publishes that wait."""

    passing: bool
    pending_bytes: int
    messages: int

    @property
    def acks(self) -> int:
        """Return how many messages' settlements wait for the commit."""
        raise NotImplementedError

    def keep(self, pending: PendingPublishes) -> None:
        """Keep a publish until the commit, counted as memory in use, so that it can raise the
        alarm. Raises ChannelViolation (406) when all would exceed TRANSACTION_BYTES_MAX; a first
        publish may be of any size."""
        raise NotImplementedError

    def keep_settlement(self, settlement: Undoable, outcome: int) -> None:
        """Keep acknowledgements until the commit; `outcome` is ACK, REQUEUE or REJECT."""
        raise NotImplementedError

    def commit(self) -> None:
        """Send the kept publishes, and the acknowledgements, none of which may be on disk before
        them; the client is answered when the publishes are safe."""
        raise NotImplementedError

    def rollback(self) -> None:
        """Drop the kept publishes; what was acknowledged is outstanding again."""
        raise NotImplementedError

    def answers(self) -> list[bytes]:
        """Return the frames that are due to the client after queues have answered; none before the
        last one has."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget everything kept, and count its memory as free."""
        raise NotImplementedError
