"""The republisher as its source sees it (`republish/republisher.py`), and the messages to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from sluicemq.chain.flow_actor import FlowActor

if TYPE_CHECKING:
    from sluicemq.chain.queue.poison_messages import Place


class RepublishMessage:
    """One message to be republished: its routing keys, of which it is delivered with the first; the
    queues it must not enter; and its priority."""

    __slots__ = ("banned", "content", "keys", "priority")

    def __init__(
        self,
        content: bytes,
        keys: tuple[str, ...],
        banned: frozenset[str] = frozenset(),
        priority: int = 0,
    ) -> None:
        self.content = content
        self.keys = keys
        self.banned = banned
        self.priority = priority


class Done(Protocol):
    """Tells the source that all letters of a Republish are safe."""

    @property
    def parts(self) -> Sequence[tuple[int, int, int]]:
        """Return the messages that the letters were made from, in order, as in Settle: run, start,
        end."""


class Republish:
    """Asks to publish letters to an exchange; `done` is posted to the source when all are safe;
    None: it need not know. `channel_number` and `persistent` are as in MessageTraits, `ttl_ms` is
    as in PropertyTraits. With `at_most_once` nothing that may have arrived is sent again."""

    __slots__ = (
        "at_most_once",
        "channel_number",
        "done",
        "exchange",
        "letters",
        "open",
        "persistent",
        "ttl_ms",
    )

    def __init__(
        self,
        exchange: str,
        letters: Sequence[RepublishMessage],
        channel_number: int,
        persistent: bool,
        done: Done | None,
        ttl_ms: int | None = None,
        at_most_once: bool = False,
    ) -> None:
        self.exchange = exchange
        self.letters = letters
        self.channel_number = channel_number
        self.persistent = persistent
        self.done = done
        self.ttl_ms = ttl_ms
        self.at_most_once = at_most_once
        self.open = 0
        """Its batches that are not yet safe in one of their queues."""


class SourceGone:
    """Tells the republisher that its source will send no more."""

    __slots__ = ()


class RepublisherPort(FlowActor):
    """A republisher, as its source sees it. `waiting` holds the requests that it has not begun."""

    waiting: deque[Republish]

    @property
    def backlog(self) -> int:
        """Return the number of messages that it has not begun to publish."""
        return len(self.inbox) + len(self.waiting)

    def suspected(self) -> list[Place]:
        """Return, after a fault, the messages of the source that cannot be routed."""
        raise NotImplementedError
