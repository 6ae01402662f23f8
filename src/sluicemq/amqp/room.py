"""Room for a large content: the `bytes` that it becomes, into which a socket may be read."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluicemq.amqp.pieces import Pieces


class Room:
    """A sequence of octets in one object of its own, which is handed out in the end and never
    copied. Further octets are copied into it by `add`, or read into its `free` part by the system
    and noted by `filled`. What comes beyond its size makes it grow."""

    __slots__ = ("before", "end", "given", "store", "view")

    def __init__(self, before: bytes, pieces: Pieces, size: int) -> None:
        """Begin with `before`, which is not counted as part of the sequence, and with all octets of
        `pieces`; there is room for `size` octets in all."""
        self.before = len(before)
        self.store = BytesIO(bytes(size))  # which takes these zeros over: nobody else has them
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
        return whole if before else whole[self.before :]

    def release(self) -> None:
        """End the views of the store."""
        self.given.release()
        self.view.release()
