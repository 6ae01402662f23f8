"""What all methods have in common; the classes themselves are in methods.py."""

from __future__ import annotations

import struct
from typing import ClassVar, Final, Self

from sluicemq.amqp.types import Malformed

FRAME_HEAD: Final = struct.Struct(">BHIHH")


class Method:
    """A method and its arguments. Two of one class with equal arguments are equal."""

    __slots__ = ()
    class_id: ClassVar[int] = 0
    method_id: ClassVar[int] = 0
    NAME: ClassVar[str] = ""
    """The method's name, such as "basic.publish"."""
    FIELDS: ClassVar[tuple[str, ...]] = ()
    """The names of the arguments, in wire order."""
    synchronous: ClassVar[bool] = False
    """Does the sender wait for an answer?"""
    has_content: ClassVar[bool] = False

    def encode_args(self) -> bytes:
        """Encode the arguments, as they stand after the class and method ids."""
        return b""

    @classmethod
    def decode_args(cls, buf: bytes, pos: int, end: int) -> Self:  # noqa: ARG003 - none to read
        """Decode the method whose arguments fill `buf` from `pos` to `end` exactly. Raises
        Malformed when they do not."""
        check_end(pos, end)
        return cls()

    def frame(self, channel: int) -> bytes:
        """Encode the method as a whole frame of `channel`, frame end octet included."""
        args = self.encode_args()
        head = FRAME_HEAD.pack(1, channel, 4 + len(args), self.class_id, self.method_id)
        return b"".join((head, args, b"\xce"))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in self.FIELDS
        )

    def __hash__(self) -> int:
        return hash((self.class_id, self.method_id, self.encode_args()))

    def __repr__(self) -> str:
        fields = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.FIELDS])
        return f"{type(self).__name__}({fields})"


def check_end(pos: int, end: int) -> None:
    """Raise Malformed when there are bytes after the last argument."""
    if pos != end:
        raise Malformed(f"{end - pos} bytes after the last argument")
