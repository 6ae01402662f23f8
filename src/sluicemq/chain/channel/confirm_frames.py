"""The frames of basic.ack and basic.nack by which a publisher hears of its messages."""

from __future__ import annotations

import struct
from typing import Final

CONFIRM: Final = struct.Struct(">BHIHHQBB").pack
"""A whole basic.ack or basic.nack frame; the bits octet is multiple alone."""

CONFIRM_HEAD: Final = struct.Struct(">BHIHH").pack
CONFIRM_END: Final = b"\x00\xce"
"""What is behind the tag in a basic.ack frame that is not multiple."""


class ConfirmFrames:
    """Encodes the confirms of the channel with this number."""

    __slots__ = ("head", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.head = CONFIRM_HEAD(1, number, 13, 60, 80)
        """What each basic.ack frame begins with."""

    def lone(self, tag: int) -> bytes:
        """Return the basic.ack frame for one message."""
        return self.head + tag.to_bytes(8, "big") + CONFIRM_END

    def frame(self, tag: int, multiple: bool, nack: bool) -> bytes:
        """Return the basic.ack or, for a `nack`, the basic.nack frame for `tag`."""
        return CONFIRM(1, self.number, 13, 60, 120 if nack else 80, tag, multiple, 0xCE)
