"""Traits: what the messages of one batch have in common, made once and carried by reference.

*Property traits* are what the broker reads from the properties of a message when it is published.
*Message traits* are what it keeps of that and of the route; they hold as long as the message
exists. Traits never change, because many messages share them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from sluicemq.limits import SHARED_TRAITS_MAX, TRAITS_MAX


class PropertyTraits:
    """What the broker reads from the properties of a message. `ttl_ms` is the value of
    `expiration`, in milliseconds, None without one; `priority` is 0 without that property.
    `further_keys` are the routing keys from CC and BCC; `rewritten` are the properties that
    consumers get if the broker changes them (no BCC, another reply_to), else None; `is_plain` says
    that there is neither."""

    __slots__ = ("further_keys", "is_plain", "persistent", "priority", "rewritten", "ttl_ms")

    def __init__(
        self,
        persistent: bool,
        further_keys: tuple[str, ...] = (),
        rewritten: bytes | None = None,
        ttl_ms: int | None = None,
        priority: int = 0,
    ) -> None:
        self.persistent = persistent
        self.ttl_ms = ttl_ms
        self.priority = priority
        self.further_keys = further_keys
        self.rewritten = rewritten
        self.is_plain = not further_keys and rewritten is None

    def is_like(self, other: PropertyTraits) -> bool:
        """Tell whether messages of both may share a batch, once they are routed."""
        return (
            self.persistent == other.persistent
            and self.ttl_ms == other.ttl_ms
            and self.priority == other.priority
        )


PERSISTENT: Final = PropertyTraits(True)
TRANSIENT: Final = PropertyTraits(False)


@lru_cache(maxsize=TRAITS_MAX)
def property_traits(persistent: bool, ttl_ms: int | None, priority: int) -> PropertyTraits:
    """Return the one PropertyTraits with these values, because messages that share theirs go on as
    one batch."""
    if ttl_ms is None and not priority:
        return PERSISTENT if persistent else TRANSIENT
    return PropertyTraits(persistent, (), None, ttl_ms, priority)


class MessageTraits:
    """What messages of one route and persistence have in common. `envelope` is the encoded exchange
    and routing key (see model/batch.py); `channel_number` is the one in the frames of the contents;
    `copies` is the number of queues they were routed to, each of which accounts for its share, and
    1 when they were read back from the disk."""

    __slots__ = ("channel_number", "copies", "envelope", "persistent")

    def __init__(self, envelope: bytes, channel_number: int, persistent: bool, copies: int) -> None:
        self.envelope = envelope
        self.channel_number = channel_number
        self.persistent = persistent
        self.copies = copies

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessageTraits) and (
            self.envelope == other.envelope
            and self.channel_number == other.channel_number
            and self.persistent == other.persistent
            and self.copies == other.copies
        )

    def __hash__(self) -> int:
        return hash((self.envelope, self.channel_number, self.persistent, self.copies))

    def __repr__(self) -> str:
        values = self.envelope, self.channel_number, self.persistent, self.copies
        return f"MessageTraits{values}"


@lru_cache(maxsize=SHARED_TRAITS_MAX)
def message_traits(
    envelope: bytes, channel_number: int, persistent: bool, copies: int = 1
) -> MessageTraits:
    """Return MessageTraits with these values; equal ones are mostly the same object."""
    return MessageTraits(envelope, channel_number, persistent, copies)


NO_TRAITS: Final = MessageTraits(b"", 0, False, 0)
"""In place of traits where there is no message."""
