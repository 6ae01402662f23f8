"""What the halves of a channel see of its transaction, and what it keeps for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.limits import RUN_MESSAGES_MAX, TRANSACTION_BATCH_BYTES

if TYPE_CHECKING:
    from sluicemq.chain.channel.routes import Route
    from sluicemq.chain.channel.unacked import Undoable
    from sluicemq.chain.message_kinds import Kind


class Held:
    """Messages that wait for the commit: what Publishing.send wants to know of them."""

    __slots__ = ("contents", "even", "kind", "large", "names", "route", "size")

    def __init__(
        self,
        route: Route,
        contents: list[bytes],
        names: list[str],
        size: int,
        even: bool,
        kind: Kind,
        large: bool,
    ) -> None:
        self.route = route
        self.contents = list(contents)
        self.names = names
        self.size = size
        self.even = even
        self.kind = kind
        self.large = large

    def absorb(self, more: Held) -> bool:
        """Take in what follows, if it may be one batch with this: then a commit is few messages
        to each queue, and what they write is mostly in one group of the journal."""
        if (
            more.route is not self.route
            or more.names != self.names
            or not more.kind.is_like(self.kind)
            or more.large != self.large
            or len(self.contents) + len(more.contents) > RUN_MESSAGES_MAX
            or self.size + more.size > TRANSACTION_BATCH_BYTES
        ):
            return False
        self.even = self.even and more.even and len(self.contents[0]) == len(more.contents[0])
        self.contents += more.contents
        self.size += more.size
        return True


class TransactionPort:
    """The transactional mode of a channel. `passing`: what is published now goes on at once, for
    the commit lets it. `held_bytes` and `messages` are those of publishes that wait."""

    passing: bool
    held_bytes: int
    messages: int

    @property
    def acks(self) -> int:
        """Messages whose settlement waits for the commit."""
        raise NotImplementedError

    def keep(self, held: Held) -> None:
        """Keep a publish until the commit. Refuses with 406 what would be too much."""
        raise NotImplementedError

    def keep_settlement(self, settlement: Undoable, outcome: int) -> None:
        """Keep acknowledgements until the commit; see Settle for `outcome`."""
        raise NotImplementedError

    def commit(self) -> None:
        """Let all that is kept go, and answer the client when it is safe."""
        raise NotImplementedError

    def rollback(self) -> None:
        """Drop the publishes; what was acknowledged is out again."""
        raise NotImplementedError

    def answers(self) -> list[bytes]:
        """The frames that the client is due when queues have answered; none before the last one
        has."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget all that is kept, and account for it."""
        raise NotImplementedError
