"""Room for a large content: the `bytes` that it becomes, into which a socket may be read."""

from __future__ import annotations

from io import BytesIO
from sys import getrefcount
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sluicemq.amqp.pieces import Pieces

STOCK_BYTES_MAX: Final = 32 << 20
"""The most memory that a stock keeps from the allocator."""
STOCK_ROOMS_MAX: Final = 64
"""The most rooms of it, each of which may have to be looked at."""


class RoomStock:
    """The last large contents of a node, whose memory becomes room for others when nobody else has
    them any more. An allocator would cut small pieces from what is freed, and take other memory for
    the next content, which the system has to clear page by page; and clear it once more if not.

    That changes octets of `bytes`, which have no other owner then. Only a hash would outlive that,
    so whole contents must not be keys."""

    __slots__ = ("alone", "bytes_max", "is_used", "lent", "size")

    def __init__(self, bytes_max: int = STOCK_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.lent: list[bytes] = []
        """Contents, those kept last at the end."""
        self.size = 0
        """The number of their octets."""
        self.is_used = False
        """Has one been kept since the last `settle`?"""
        self.alone = references([bytes(STOCK_ROOMS_MAX)], 0)

    def take(self, size: int) -> bytes:
        """Return `size` octets, of any value, that nobody else has: of the content that was kept
        last of those that nobody has any more, for it is the likeliest to be in a processor's
        cache."""
        lent = self.lent
        for at in range(len(lent) - 1, -1, -1):
            if len(lent[at]) == size and references(lent, at) == self.alone:
                self.size -= size
                return lent.pop(at)
        return bytes(size)

    def keep(self, content: bytes) -> None:
        """Keep a content in mind, and forget the oldest ones if it is too much."""
        lent = self.lent
        lent.append(content)
        self.size += len(content)
        self.is_used = True
        while self.size > self.bytes_max or len(lent) > STOCK_ROOMS_MAX:
            self.size -= len(lent.pop(0))

    def settle(self) -> None:
        """Give everything back to the allocator if nothing was kept since the last call."""
        if not self.is_used:
            self.clear()
        self.is_used = False

    def clear(self) -> None:
        """Give everything back to the allocator that nobody else has."""
        self.lent.clear()
        self.size = 0


def references(objects: list[bytes], at: int) -> int:
    """Return how many references there are to an object in a list. Meant for comparisons with what
    this returns for one that only its list has."""
    return getrefcount(objects[at])


class Room:
    """A sequence of octets in one object of its own, which is handed out in the end and never
    copied. Further octets are copied into it by `add`, or read into its `free` part by the system
    and noted by `filled`. What comes beyond its size makes it grow."""

    __slots__ = ("before", "end", "given", "stock", "store", "view")

    def __init__(self, before: bytes, pieces: Pieces, size: int, stock: RoomStock) -> None:
        """Begin with `before`, which is not counted as part of the sequence, and with all octets of
        `pieces`; there is room for `size` octets in all, from `stock`."""
        self.before = len(before)
        self.stock = stock
        self.store = BytesIO(stock.take(size))  # which takes it over: nobody else has it
        self.view = self.store.getbuffer()
        self.given = self.view[:0]
        """The part that was handed out last. Only while there are no views can the store be handed
        out."""
        self.end = 0
        """How many octets there are by now, `before` among them."""
        self.add(before, 0, len(before))
        for part in pieces.parts:
            self.add(part, 0, len(part))

    @property
    def size(self) -> int:
        """Return the number of octets in the sequence."""
        return self.end - self.before

    @property
    def held_bytes(self) -> int:
        """Return how many bytes of memory it takes, free ones included, without `before`."""
        return len(self.view) - self.before

    def add(self, read: bytes | bytearray | memoryview, start: int, end: int) -> None:
        """Append the octets of `read` from `start` to before `end`."""
        after = self.end + end - start
        if after > len(self.view):
            self.release()
            self.store.seek(self.end)
            self.store.write(bytes(end - start))
            self.view = self.store.getbuffer()
        self.view[self.end : after] = memoryview(read)[start:end]
        self.end = after

    def free(self) -> memoryview:
        """Return the part that is not taken yet; it is valid until `filled` or another call."""
        self.given.release()
        self.given = self.view[self.end :]
        return self.given

    def filled(self, count: int) -> None:
        """Note that the first `count` octets of what was free are taken."""
        self.end += count

    def cut(self, end: int) -> bytes:
        """Take the octets from `end` on, `before` counted, away again, and return them."""
        rest = bytes(self.view[end : self.end])
        self.end = end
        return rest

    def joined(self, before: bytes = b"") -> bytes:
        """Return all octets in one, with what the room began with if that is given as `before`.
        Nothing may be added then."""
        self.release()
        self.store.truncate(self.end)
        whole = self.store.getvalue()
        if not before:
            return whole[self.before :]
        self.stock.keep(whole)
        return whole

    def release(self) -> None:
        """End the views of the store."""
        self.given.release()
        self.view.release()
