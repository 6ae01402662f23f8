"""The index of the message store: the place of each message, and its references; pluggable.

A message's *entry* is one int; 0 means that the message is unknown:

    bit 88 on    references: how many queues still need it; 0: the record is garbage by now
    bit 56..87   number of the file
    bit 27..55   offset of its record, in units of 8 bytes
    bit  0..26   size of its record, in units of 8 bytes

So entries sort by place, and one more reference is `entry + ONE`. Only one thread uses an index. It
is never durable: it repeats what the files say, and is rebuilt from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

SIZE_MASK: Final = (1 << 27) - 1
OFFSET_MASK: Final = (1 << 29) - 1
NUMBER_MASK: Final = (1 << 32) - 1
OFFSET_SHIFT: Final = 27
NUMBER_SHIFT: Final = 56
REFERENCES_SHIFT: Final = 88
ONE: Final = 1 << REFERENCES_SHIFT
PLACE_MASK: Final = ONE - 1
UNIT: Final = 8
"""Bytes; records begin and end at multiples of it."""

SIZE_LIMIT: Final = (SIZE_MASK + 1) * UNIT
"""Bytes; every record is smaller (1 GiB)."""


def entry_of(references: int, number: int, offset: int, size: int) -> int:
    """Return the entry of a record of `size` bytes at `offset` of file `number`; both are bytes."""
    return (
        references << REFERENCES_SHIFT
        | number << NUMBER_SHIFT
        | offset // UNIT << OFFSET_SHIFT
        | size // UNIT
    )


def entries_of(number: int, offsets: Iterable[int], sizes: Iterable[int]) -> list[int]:
    """Return the entries of several records of file `number`, each with one reference. Offsets and
    sizes are in bytes, and there may be more offsets than sizes."""
    file = 1 << REFERENCES_SHIFT | number << NUMBER_SHIFT
    shift = OFFSET_SHIFT - 3  # from bytes to units of 8 and into place, at once
    return [
        file | offset << shift | size >> 3
        for size, offset in zip(sizes, offsets)  # noqa: B905
    ]


def number_of(entry: int) -> int:
    """Return the number of the file that has the record of an entry."""
    return entry >> NUMBER_SHIFT & NUMBER_MASK


def offset_of(entry: int) -> int:
    """Return the offset in its file, in bytes, of the record of an entry."""
    return (entry >> OFFSET_SHIFT & OFFSET_MASK) * UNIT


def size_of(entry: int) -> int:
    """Return the bytes of the whole record of an entry."""
    return (entry & SIZE_MASK) * UNIT


class MessageIndex:
    """Knows the entry of each message id, an int below 2**64. Methods for many messages exist
    because one such call costs little more than a call for one."""

    def get(self, message_id: int) -> int:
        """Return the entry of a message, 0 when it is unknown."""
        raise NotImplementedError

    def get_many(self, ids: Sequence[int]) -> list[int]:
        """Return the entry of each message, 0 where it is unknown, in the order of the ids."""
        raise NotImplementedError

    def put(self, message_id: int, entry: int) -> None:
        """Set the entry of a message, replacing the old one."""
        raise NotImplementedError

    def put_many(self, ids: Sequence[int], entries: Sequence[int]) -> None:
        """Set the entries of these messages; there is one for each id."""
        raise NotImplementedError

    def delete_many(self, ids: Iterable[int]) -> None:
        """Forget the entries of these messages; unknown ids are fine."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget the entries of all messages."""
        raise NotImplementedError

    def count(self) -> int:
        """Return how many messages have an entry."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the index's resources; it is not used any more."""


class DictIndex(MessageIndex):
    """An index in memory: the fastest, for some 140 bytes a message."""

    def __init__(self) -> None:
        self.entries: dict[int, int] = {}

    def get(self, message_id: int) -> int:
        return self.entries.get(message_id, 0)

    def get_many(self, ids: Sequence[int]) -> list[int]:
        get = self.entries.get
        return [get(message_id, 0) for message_id in ids]

    def put(self, message_id: int, entry: int) -> None:
        self.entries[message_id] = entry

    def put_many(self, ids: Sequence[int], entries: Sequence[int]) -> None:
        self.entries.update(zip(ids, entries, strict=True))

    def delete_many(self, ids: Iterable[int]) -> None:
        pop = self.entries.pop
        for message_id in ids:
            pop(message_id, None)

    def clear(self) -> None:
        self.entries = {}

    def count(self) -> int:
        return len(self.entries)
