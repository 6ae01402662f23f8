"""Frames: messages between nodes as bytes. docs/cluster-wire.md has each byte. Little-endian:

    length u32 | type u16 | flags u16 | source 16 | target 16 | crc32c u32 of the 40 before it and
    of the payload | payload

The addresses are actors' (kernel/address.py), with serial 0 for a node as such. A message whose
body is larger than LINK_PIECE_BYTES is several frames, one after the other, all but the last with
the flag MORE; nothing but heartbeats and grants comes between them. They are made one by one, as
they are written. The decoder takes bytes in any cuts and joins the pieces."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from google_crc32c import extend

from sluicemq.amqp.pieces import Pieces
from sluicemq.cluster.cluster_port import FRAME_TYPES, GRANTS, HEARTBEAT, PeerMessage
from sluicemq.errors import SluiceError
from sluicemq.kernel.address import ADDRESS_BYTES, NOBODY, decode_address
from sluicemq.limits import LINK_MESSAGE_MAX_BYTES, LINK_PIECE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.cluster.cluster_port import FrameType, PeerConnection

HEAD: Final = Struct("<IHH16s16s")
CRC: Final = Struct("<I")
HEAD_BYTES: Final = HEAD.size + CRC.size

MORE: Final = 1
"""The flag of every piece of a message but the last."""
NEVER_LATE: Final = (HEARTBEAT, GRANTS)
"""The types whose messages are one frame each, and may come between the pieces of another one."""
OWN_FLAGS: Final = 0xFF
"""The flags of which frames themselves are made; the upper ones are the types'."""
FLAGS_MAX: Final = 0xFF
"""The flags of a type's own, as handlers know them, go up to here."""


class BrokenFrame(SluiceError):
    """The bytes that came are not a frame, or not one allowed here: the link has to end."""


def encode_frames(message: PeerMessage) -> Iterator[tuple[bytes, bytes]]:
    """Yield the frames of a message, each made on demand: its head with the checksum, and the piece
    of the payload behind it. A payload that is one piece is not copied."""
    payload = message.payload
    assert len(payload) <= LINK_MESSAGE_MAX_BYTES, "a message that nobody would take"
    assert 0 <= message.flags <= FLAGS_MAX
    assert len(payload) <= LINK_PIECE_BYTES or message.frame_type not in NEVER_LATE
    number = message.frame_type.number
    flags = message.flags << 8
    ends = message.source.encode(), message.target.encode()
    last = max(0, len(payload) - 1) // LINK_PIECE_BYTES * LINK_PIECE_BYTES
    for start in range(0, last + 1, LINK_PIECE_BYTES):
        piece = payload[start : start + LINK_PIECE_BYTES] if last else payload
        yield head_of(number, flags | (MORE if start < last else 0), *ends, piece), piece


def head_of(number: int, flags: int, source: bytes, target: bytes, piece: bytes) -> bytes:
    """Return what goes before that piece: the head of a frame of the type with that number, and the
    checksum."""
    head = HEAD.pack(len(piece), number, flags, source, target)
    return head + CRC.pack(extend(extend(0, head), piece))


class FrameDecoder:
    """Decodes the messages of one connection. `version` is the agreed version of the protocol, for
    error texts. After BrokenFrame nothing more is decoded."""

    def __init__(self, connection: PeerConnection, version: int) -> None:
        self.connection = connection
        self.version = version
        self._data = b""
        self._at = 0
        """What is before it in `_data` is decoded."""
        self._more = Pieces()
        """What came behind `_data`; it is joined to it when a whole frame is there."""
        self._pieces: list[bytes] = []
        """The pieces of a message whose last one has not come yet."""
        self._pieces_bytes = 0
        self._ends = b""
        """The addresses of the last message, encoded; `_source` and `_target` are the same."""
        self._source = self._target = NOBODY
        self._pieces_head = b""
        """What of the head is the same in all pieces of a message: type, flags and addresses."""

    @property
    def held_bytes(self) -> int:
        """Return how many received bytes are not decoded yet."""
        return len(self._data) - self._at + self._more.size + self._pieces_bytes

    def receive(self, data: bytes) -> None:
        """Take received bytes, cut anywhere."""
        if self._at == len(self._data) and not self._more.size:
            self._data = data
            self._at = 0
        else:
            self._more.add(data, 0, len(data))

    def next(self) -> PeerMessage | None:
        """Return the next message; None when it is incomplete. Raises BrokenFrame."""
        while self._has(HEAD_BYTES):
            at = self._at
            length, number, flags, source, target = HEAD.unpack_from(self._data, at)
            frame_type = self._demanded_type(number)
            if length > LINK_PIECE_BYTES:
                text = f"a frame {frame_type.name!r} of {length} bytes; at most {LINK_PIECE_BYTES}"
                raise BrokenFrame(f"{text} are allowed")
            if not self._has(HEAD_BYTES + length):
                return None
            payload = self._checked(frame_type, self._at, length)
            self._at += HEAD_BYTES + length
            message = self._joined(frame_type, flags, source + target, payload)
            if message is not None:
                return message
        return None

    def _has(self, size: int) -> bool:
        """Have at least `size` bytes at `_at` in `_data`. Returns False when they have not come
        yet."""
        missing = size - (len(self._data) - self._at)
        if missing > 0:
            if missing > self._more.size:
                return False
            self._data = self._more.joined(self._data[self._at :])
            self._at = 0
            self._more.clear()
        return True

    def _demanded_type(self, number: int) -> FrameType:
        frame_type = FRAME_TYPES.get(number)
        if frame_type is None:
            raise BrokenFrame(
                f"a frame of type {number}, which version {self.version} of the protocol does not "
                "have: that node writes what the others cannot read"
            )
        if frame_type.connection not in (None, self.connection):
            name = self.connection.name.lower()
            raise BrokenFrame(f"a frame {frame_type.name!r} on the {name} connection")
        return frame_type

    def _checked(self, frame_type: FrameType, at: int, length: int) -> bytes:
        """Return the payload, of `length` bytes, of the frame at `at`."""
        middle = at + HEAD.size
        (crc,) = CRC.unpack_from(self._data, middle)
        head = self._data[at:middle]
        payload = self._data[at + HEAD_BYTES : at + HEAD_BYTES + length]
        if extend(extend(0, head), payload) != crc:
            raise BrokenFrame(
                f"a frame {frame_type.name!r} whose checksum is wrong: its bytes were changed on "
                "the way"
            )
        return payload

    def _joined(
        self, frame_type: FrameType, flags: int, ends: bytes, payload: bytes
    ) -> PeerMessage | None:
        """Return the message that this piece completes; None when more pieces follow."""
        if flags & OWN_FLAGS & ~MORE:
            raise BrokenFrame(
                f"a frame {frame_type.name!r} with flags {flags & OWN_FLAGS}, which version "
                f"{self.version} of the protocol does not have"
            )
        if frame_type in NEVER_LATE:
            if flags & MORE:
                raise BrokenFrame(f"a piece of a message {frame_type.name!r}, which is never cut")
        elif self._pieces or flags & MORE:
            head = b"%d %d " % (frame_type.number, flags >> 8) + ends
            if self._pieces and head != self._pieces_head:
                raise BrokenFrame(
                    f"a frame {frame_type.name!r} between the pieces of another message"
                )
            if flags & MORE and len(payload) != LINK_PIECE_BYTES:
                raise BrokenFrame(
                    f"a piece of {len(payload)} bytes that is not the last of its message; all "
                    f"but that have {LINK_PIECE_BYTES}"
                )
            self._pieces_bytes += len(payload)
            if self._pieces_bytes > LINK_MESSAGE_MAX_BYTES:
                raise BrokenFrame(
                    f"a message of more than {LINK_MESSAGE_MAX_BYTES} bytes in pieces"
                )
            self._pieces_head = head
            self._pieces.append(payload)
            if flags & MORE:
                return None
            payload = b"".join(self._pieces)
            self._pieces = []
            self._pieces_bytes = 0
        if ends != self._ends:
            self._ends = ends
            self._source = decode_address(ends, 0)
            self._target = decode_address(ends, ADDRESS_BYTES)
        return PeerMessage(frame_type, self._source, self._target, payload, flags >> 8)
