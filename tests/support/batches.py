"""Batches made of their contents, with traits that most tests do not care for."""

from __future__ import annotations

from sluicemq.model.batch import Batch
from sluicemq.model.traits import message_traits, property_traits


def batch_of(
    contents: list[bytes],
    envelope: bytes = b"a",
    *,
    same_size: bool = True,
    persistent: bool = False,
    channel_number: int = 1,
    copies: int = 1,
    first_id: int = 0,
    ttl_ms: int | None = None,
    priority: int = 0,
) -> Batch:
    """Return a batch; its traits are as MessageTraits and PropertyTraits have them."""
    return Batch(
        message_traits(envelope, channel_number, persistent, copies),
        property_traits(persistent, ttl_ms, priority),
        contents,
        sum(map(len, contents)),
        same_size,
        first_id,
    )
