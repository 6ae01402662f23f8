"""Requeued messages: chunks in the order of their positions, whatever the order in which they came.

A million may come one by one before the first is fetched, so each is put in its place when it
comes. They are in rows of at most ROW_MAX: an insertion moves no more than a row.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import chain
from typing import TYPE_CHECKING, Final

from sluicemq.queues.classic.chunk import end_of, position_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.queues.classic.chunk import Chunk

ROW_MAX: Final = 512


class Requeued:
    """Requeued chunks in the order of their positions. Similar neighbours are joined as far as a
    chunk may grow."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: list[list[Chunk]] = []
        """The rows, none of which is empty."""

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __iter__(self) -> Iterator[Chunk]:
        return chain.from_iterable(self.rows)

    def __contains__(self, chunk: Chunk) -> bool:
        number, place = self.place_of(chunk)
        return number < len(self.rows) and self.rows[number][place] is chunk

    def place_of(self, chunk: Chunk) -> tuple[int, int]:
        """Return the row and the place in it of the first chunk that is not before this one; a row
        that is not there, when all are before it."""
        position = position_of(chunk)
        number = bisect_left(self.rows, position, key=last_of)
        if number == len(self.rows):
            return number, 0
        return number, bisect_left(self.rows[number], position, key=position_of)

    def first(self) -> Chunk:
        """Return the oldest chunk, and leave it here; there must be one."""
        return self.rows[0][0]

    def popleft(self) -> Chunk:
        """Remove and return the oldest chunk; there must be one."""
        row = self.rows[0]
        chunk = row.pop(0)
        if not row:
            del self.rows[0]
        return chunk

    def pop(self) -> Chunk:
        """Remove and return the newest chunk; there must be one."""
        row = self.rows[-1]
        chunk = row.pop()
        if not row:
            del self.rows[-1]
        return chunk

    def add(self, chunk: Chunk) -> None:
        """Put a chunk in its place; it may become a part of one that is there."""
        rows = self.rows
        position = position_of(chunk)
        if not rows:
            rows.append([chunk])
            return
        number = len(rows) - 1
        if position_of(rows[number][-1]) < position:
            place = len(rows[number])
        else:
            number, place = self.place_of(chunk)
            behind = rows[number][place]
            assert end_of(chunk) <= position_of(behind), "a message comes back twice"
        before: Chunk | None = None
        if place:
            before = rows[number][place - 1]
        elif number:
            before = rows[number - 1][-1]
        assert before is None or end_of(before) <= position, "a message comes back twice"
        if before is not None and follows(chunk, before):
            before.append(chunk.rest())
            self.join(before, number, place)
        else:
            rows[number].insert(place, chunk)
            self.join(chunk, number, place + 1)
            if len(rows[number]) > ROW_MAX:
                half = ROW_MAX // 2
                rows.insert(number + 1, rows[number][half:])
                del rows[number][half:]

    def join(self, chunk: Chunk, number: int, place: int) -> None:
        """Join the chunk at this place of this row to `chunk`, which is before it, if it may be
        appended."""
        row = self.rows[number]
        if place < len(row) and follows(row[place], chunk):
            chunk.append(row.pop(place).rest())
            if not row:
                del self.rows[number]

    def replace(self, chunk: Chunk, pieces: list[Chunk]) -> None:
        """Put these pieces in the place of a chunk that is here and was split into them."""
        number, place = self.place_of(chunk)
        row = self.rows[number]
        assert row.pop(place) is chunk
        if not row:
            del self.rows[number]
        for piece in pieces:
            self.add(piece)


def last_of(row: list[Chunk]) -> int:
    """Return the sort key of a row: the position of its last chunk."""
    return position_of(row[-1])


def follows(chunk: Chunk, before: Chunk) -> bool:
    """Tell whether `chunk` may be appended to the one before it: it is similar, and no position is
    between them."""
    return end_of(before) == position_of(chunk) and before.continues(chunk)
