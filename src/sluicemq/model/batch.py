"""A batch: a run of messages of one publisher to one address; the unit of flow.

A *content* is one `bytes`: the raw header frame and body frames as they arrived. It stays that
until somebody needs a property, and is written to a consumer's socket as it is.

An *address* is the encoded exchange and routing key, the two short strings that end a
basic.deliver; the same bytes go out that came in. Where each message has a key of its own a batch
is ADDRESSED: its contents begin with their addresses, and few need know.
"""

from __future__ import annotations

from typing import Final

ADDRESSED: Final = b""
"""In place of an address: each content begins with its own. See `separate`."""

OVERHEAD_BYTES: Final = 96
"""What a message costs in RAM beside its content: object head, allocator slack, list slots."""


class Batch:
    """Contents in publish order, alike in persistence, expiration and priority.

    `size` is the sum of the contents' lengths in bytes; `even` says that all have one length;
    `copies` is the number of queues the batch was routed to, each of which accounts its share;
    `number` is the channel number the contents carry in their frames; `first_id` is the id of the
    first in the message store, the others follow; 0: they are small, and kept in queue indices.
    `ttl_ms` is what their `expiration` says, None: nothing; `priority` what that property says.
    """

    __slots__ = (
        "address",
        "contents",
        "copies",
        "even",
        "first_id",
        "number",
        "persistent",
        "priority",
        "size",
        "ttl_ms",
    )

    def __init__(
        self,
        address: bytes,
        contents: list[bytes],
        size: int,
        even: bool,
        persistent: bool,
        number: int,
        copies: int,
        first_id: int = 0,
        ttl_ms: int | None = None,
        priority: int = 0,
    ) -> None:
        self.address = address
        self.contents = contents
        self.size = size
        self.even = even
        self.persistent = persistent
        self.number = number
        self.copies = copies
        self.first_id = first_id
        self.ttl_ms = ttl_ms
        self.priority = priority


def names_of(address: bytes) -> tuple[bytes, bytes]:
    """Exchange and routing key."""
    key_at = 1 + address[0]
    return address[1:key_at], address[key_at + 1 :]


def part_of(batch: Batch, start: int, end: int) -> Batch:
    """Messages [start, end) of a batch."""
    contents = batch.contents[start:end]
    return Batch(
        batch.address,
        contents,
        size_of(contents, batch.even),
        batch.even,
        batch.persistent,
        batch.number,
        batch.copies,
        batch.first_id + start if batch.first_id else 0,
        batch.ttl_ms,
        batch.priority,
    )


def separate(content: bytes) -> tuple[bytes, bytes]:
    """Address and content of a message of an ADDRESSED batch."""
    key_at = 1 + content[0]
    end = key_at + 1 + content[key_at]
    return content[:end], content[end:]


def size_of(contents: list[bytes], even: bool) -> int:
    """Bytes of the contents together."""
    if even:
        return len(contents) * len(contents[0]) if contents else 0
    return sum(map(len, contents))


def footprint(contents: list[bytes], even: bool, copies: int) -> int:
    """Bytes of RAM this queue answers for: the contents' share and the overhead.

    Additive over any split of the contents, so what is admitted in one batch and released
    message by message sums to zero.
    """
    overhead = OVERHEAD_BYTES * len(contents)
    if copies == 1:
        return overhead + size_of(contents, even)
    if even:
        return overhead + len(contents) * (len(contents[0]) // copies if contents else 0)
    return overhead + sum(len(content) // copies for content in contents)
