"""A batch: a run of messages of one publisher with one envelope; the unit of flow.

A *content* is one `bytes`: the raw header frame and body frames as they arrived. Nothing decodes it
until a property is needed, and it is written to a consumer's socket as it is.

An *envelope* is the encoded exchange and routing key, the two short strings that end a
basic.deliver; the bytes that came in go out unchanged. Where each message has a key of its own a
batch is ENVELOPED: each content begins with its envelope, which matters in few places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sluicemq.model.traits import MessageTraits, PropertyTraits

ENVELOPED: Final = b""
"""In place of an envelope: each content begins with its own. See `separate`."""

BODY_SIZE_AT: Final = 11
BODY_SIZE_END: Final = 19
"""Where in a content the size of its body is, behind the head of its header frame."""

OVERHEAD_BYTES: Final = 96
"""What a message costs in RAM beside its content: object head, allocator slack, list slots."""


class Batch:
    """Messages in publish order that share their traits, and whose `properties` have the same
    expiration and priority.

    `size` is the sum of the contents' lengths in bytes; `same_size` says that all have one length,
    and, for a batch on its way to a queue, that all bodies have one, too. `first_id` is the id of
    the first message in the message store, and the others have the following ones; 0 means that
    they are small, and kept in queue indices.
    """

    __slots__ = ("contents", "first_id", "properties", "same_size", "size", "traits")

    def __init__(
        self,
        traits: MessageTraits,
        properties: PropertyTraits,
        contents: list[bytes],
        size: int,
        same_size: bool,
        first_id: int = 0,
    ) -> None:
        self.traits = traits
        self.properties = properties
        self.contents = contents
        self.size = size
        self.same_size = same_size
        self.first_id = first_id


def exchange_and_key(envelope: bytes) -> tuple[bytes, bytes]:
    """Return the exchange and the routing key of an envelope."""
    key_at = 1 + envelope[0]
    return envelope[1:key_at], envelope[key_at + 1 :]


def part_of(batch: Batch, start: int, end: int) -> Batch:
    """Return a batch of the messages from number `start`, counted from 0, to before `end`."""
    contents = batch.contents[start:end]
    return Batch(
        batch.traits,
        batch.properties,
        contents,
        size_of(contents, batch.same_size),
        batch.same_size,
        batch.first_id + start if batch.first_id else 0,
    )


def separate(content: bytes) -> tuple[bytes, bytes]:
    """Return the envelope and the content of a message of an ENVELOPED batch."""
    key_at = 1 + content[0]
    end = key_at + 1 + content[key_at]
    return content[:end], content[end:]


def body_size(content: bytes) -> int:
    """Return the size of the body in bytes, as the content's header frame says. Of its eight octets
    the last four have all of it, because no body has 4 GiB."""
    at: int = BODY_SIZE_END - 4
    return content[at] << 24 | content[at + 1] << 16 | content[at + 2] << 8 | content[at + 3]


def are_same_size(contents: list[bytes]) -> bool:
    """Tell whether these contents, at least one, all have the same length, and their
    bodies, too."""
    sizes = {content[BODY_SIZE_AT:BODY_SIZE_END] for content in contents}
    return len({*map(len, contents)}) == 1 == len(sizes)


def size_of(contents: list[bytes], same_size: bool) -> int:
    """Return the bytes of all contents together; with `same_size` all are as long as the first."""
    if same_size:
        return len(contents) * len(contents[0]) if contents else 0
    return sum(map(len, contents))


def footprint(contents: list[bytes], same_size: bool, copies: int) -> int:
    """Return the bytes of RAM that one of `copies` queues accounts for: its share of the contents,
    and the overhead of each message.

    It is additive over any split of the contents, so a batch that is admitted whole and released
    message by message sums to zero.
    """
    overhead = OVERHEAD_BYTES * len(contents)
    if copies == 1:
        return overhead + size_of(contents, same_size)
    if same_size:
        return overhead + len(contents) * (len(contents[0]) // copies if contents else 0)
    return overhead + sum(len(content) // copies for content in contents)
