"""The queues of a run, as the swarm chooses them, and the targets of its publishers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sluicemq.amqp.types import Table

NOWHERE: Final = "nowhere"
"""An exchange that does not exist: dead letters go through the broker's own publisher, and are
dropped there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuePlan:
    """One queue that exists from the start."""

    name: str
    durable: bool
    promise: str
    max_priority: int = 0
    """0 without priorities."""
    single_active: bool = False
    lazy: bool = False
    delivery_limit: int | None = None
    message_ttl_ms: int | None = None
    max_length: int | None = None
    graves: tuple[str, ...] = ()
    """The queues that get all dead letters of this one; none when empty."""
    buries: bool = False
    """Its dead letters go through the broker's own publisher, even if nowhere."""
    dead_letters_by: tuple[str, str | None] = (NOWHERE, None)
    """The dead letter exchange, and the routing key; None keeps the message's own."""
    bound_to: tuple[str, str] | None = None
    """For a grave: the exchange and the binding key through which messages reach it."""

    segment_bytes: int = 0
    """The size of a stream's files; 0 when it is not a stream."""

    is_quorum: bool = False
    rejects: bool = False
    """While full it rejects publishes, instead of dropping its head."""
    at_least_once: bool = False
    """Its dead letters must arrive."""
    expires_ms: int | None = None
    in_memory_bytes: int | None = None

    @property
    def arguments(self) -> Table:
        """Return the arguments with which the queue is declared."""
        if self.segment_bytes:
            size = self.segment_bytes
            return {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": size}
        given: Table = {"x-max-priority": self.max_priority} if self.max_priority else {}
        if self.is_quorum:
            given |= self._quorum_arguments
        if self.single_active:
            given["x-single-active-consumer"] = True
        if self.lazy:
            given["x-queue-mode"] = "lazy"
        if self.delivery_limit is not None:
            given["x-delivery-limit"] = self.delivery_limit
        if self.message_ttl_ms is not None:
            given["x-message-ttl"] = self.message_ttl_ms
        if self.max_length is not None:
            given["x-max-length"] = self.max_length
        limits = self.message_ttl_ms, self.max_length
        if self.graves or self.buries or limits != (None, None):
            exchange, key = self.dead_letters_by
            given["x-dead-letter-exchange"] = exchange
            if key is not None:
                given["x-dead-letter-routing-key"] = key
        return given

    @property
    def is_got_from(self) -> bool:
        """Tell whether clients use basic.get on it."""
        return not (self.segment_bytes or (self.is_quorum and self.single_active))

    @property
    def _quorum_arguments(self) -> Table:
        given: Table = {"x-queue-type": "quorum"}
        if self.rejects:
            given["x-overflow"] = "reject-publish"
        if self.at_least_once:
            given["x-dead-letter-strategy"] = "at-least-once"
        if self.expires_ms is not None:
            given["x-expires"] = self.expires_ms
        if self.in_memory_bytes is not None:
            given["x-max-in-memory-bytes"] = self.in_memory_bytes
        return given


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a publish: the queues that are bound there."""

    exchange: str
    key: str
    queues: tuple[str, ...]
    spread: bool = False
    delays: bool = False
