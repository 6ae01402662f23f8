"""What a node says of itself when a connection between nodes begins, and the messages that carry
it. docs/cluster-wire.md has each byte. Little-endian:

    MAGIC, once in each direction; then messages: length u16 | kind u8 | body of `length` bytes

Nothing here has been proven: see handshake.py.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Final, NamedTuple

from sluicemq.cluster.cluster_port import ASK, PeerConnection
from sluicemq.errors import SluiceError
from sluicemq.limits import LINK_HANDSHAKE_BYTES, LINK_NAME_BYTES
from sluicemq.text import cut

MAGIC: Final = b"SLUICEMQ"
VERSION_MIN: Final = 1
VERSION_MAX: Final = 1
"""The versions of the protocol that this node speaks, both included."""

NONCE_BYTES: Final = 32
TOKEN_BYTES: Final = 16

HELLO: Final = 1
CHALLENGE: Final = 2
INTRODUCTION: Final = 3
REFUSAL: Final = 4

MESSAGE_HEAD: Final = Struct("<HB")
HELLO_BODY: Final = Struct(f"<HH{NONCE_BYTES}s")
CHALLENGE_BODY: Final = Struct(f"<H{NONCE_BYTES}s")
NUMBERS: Final = Struct(f"<BQIII{TOKEN_BYTES}s{TOKEN_BYTES}s")


class BrokenHandshake(SluiceError):
    """The bytes that came are not the beginning of a connection between nodes."""


class NodeCard(NamedTuple):
    """A node in one of its lives. `cluster` is the id of the cluster that it belongs to, "" for
    none yet; `node` is 0 for one that has no number yet. `home` is TOKEN_BYTES random bytes made
    with its data directory; `start` is as many, made at each start."""

    cluster: str
    name: str
    node: int
    incarnation: int
    home: bytes
    start: bytes

    def __str__(self) -> str:
        return f"node {self.node} ({self.name}) in life {self.incarnation}"

    def is_same_life(self, other: NodeCard) -> bool:
        """Tell whether that is the same process, though it may have joined a cluster since."""
        return self._replace(cluster=other.cluster) == other


class Introduction(NamedTuple):
    """What each side says of itself and of the connection. `link` counts the links that the
    connecting side has begun in its life, from 1 on; `wanted` is the number that it expects the
    other node to have."""

    card: NodeCard
    connection: PeerConnection
    link: int
    wanted: int

    def encode(self) -> bytes:
        """Return the fields as bytes, as they are proven."""
        card = self.card
        numbers = NUMBERS.pack(
            self.connection.value,
            self.link,
            card.node,
            card.incarnation,
            self.wanted,
            card.home,
            card.start,
        )
        return numbers + short_text(card.cluster) + short_text(card.name)


def short_text(text: str) -> bytes:
    """Return a text of at most LINK_NAME_BYTES octets with its length before it."""
    raw = text.encode()
    assert len(raw) <= LINK_NAME_BYTES, "a name that is too long"
    return bytes([len(raw)]) + raw


def decode_introduction(raw: bytes) -> Introduction:
    """Return what `Introduction.encode` has made bytes of. Raises BrokenHandshake."""
    try:
        kind, link, node, incarnation, wanted, home, start = NUMBERS.unpack_from(raw)
        cluster, after = _text_at(raw, NUMBERS.size)
        name, after = _text_at(raw, after)
        connection = PeerConnection(kind)
    except (struct.error, IndexError, ValueError) as error:
        raise BrokenHandshake(f"its introduction cannot be read: {error}") from error
    has_number = node or connection is ASK
    if after != len(raw) or not (has_number and incarnation and link and name):
        raise BrokenHandshake("its introduction has too much in it, or too little")
    card = NodeCard(cluster, name, node, incarnation, home, start)
    return Introduction(card, connection, link, wanted)


def _text_at(raw: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + raw[at]
    if end > len(raw):
        raise ValueError("a name is cut off")
    return raw[at + 1 : end].decode(), end


def handshake_message(kind: int, body: bytes) -> bytes:
    """Return a message of the handshake as bytes."""
    assert len(body) <= LINK_HANDSHAKE_BYTES
    return MESSAGE_HEAD.pack(len(body), kind) + body


def refusal_message(sentence: str) -> bytes:
    """Return the message that says why a connection is refused, which is the last one."""
    return handshake_message(REFUSAL, cut(sentence, LINK_HANDSHAKE_BYTES).encode())


class HandshakeReader:
    """The messages in what comes before a handshake is over. It holds one message at most, and what
    came together with it."""

    def __init__(self) -> None:
        self.data = bytearray()
        """What came and was not taken yet."""
        self._has_magic = False

    def receive(self, data: bytes) -> None:
        """Take bytes that came, cut anywhere. Raises BrokenHandshake."""
        self.data += data
        if not self._has_magic:
            begun = bytes(self.data[: len(MAGIC)])
            if not MAGIC.startswith(begun):
                raise BrokenHandshake("what it sent is not how a node of a cluster begins")
            if len(begun) == len(MAGIC):
                self._has_magic = True
                del self.data[: len(MAGIC)]

    def next(self) -> tuple[int, bytes] | None:
        """Return kind and body of the next message; None: it is not whole yet. Raises
        BrokenHandshake."""
        if not self._has_magic or len(self.data) < MESSAGE_HEAD.size:
            return None
        length, kind = MESSAGE_HEAD.unpack_from(self.data)
        if length > LINK_HANDSHAKE_BYTES:
            raise BrokenHandshake(
                f"it began with a message of {length} bytes; at most {LINK_HANDSHAKE_BYTES} are "
                "allowed"
            )
        end = MESSAGE_HEAD.size + length
        if len(self.data) < end:
            return None
        body = bytes(self.data[MESSAGE_HEAD.size : end])
        del self.data[:end]
        return kind, body
