"""Traits: what the messages of one batch have in common, made once and carried by reference.

*Property traits* are what the properties of a message say that the broker acts upon while it is
published. Nobody changes traits that others may refer to.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from sluicemq.limits import TRAITS_MAX


class PropertyTraits:
    """What the properties of a message say to the broker. `ttl_ms` is what `expiration` says, in
    milliseconds, None without one; `priority` is what that property says, 0 without one.
    `further_keys` are the routing keys from CC and BCC; `rewritten` is the properties as they go on
    if they are changed (no BCC, another reply_to), else None; `is_plain` says that there is
    neither."""

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
        """Tell whether messages of both may be in one batch, once they are routed."""
        return (
            self.persistent == other.persistent
            and self.ttl_ms == other.ttl_ms
            and self.priority == other.priority
        )


PERSISTENT: Final = PropertyTraits(True)
TRANSIENT: Final = PropertyTraits(False)


@lru_cache(maxsize=TRAITS_MAX)
def property_traits(persistent: bool, ttl_ms: int | None, priority: int) -> PropertyTraits:
    """Return the one PropertyTraits with these values, for messages that share theirs go on as one
    batch."""
    if ttl_ms is None and not priority:
        return PERSISTENT if persistent else TRANSIENT
    return PropertyTraits(persistent, (), None, ttl_ms, priority)
