"""Goal: what a node writes to another one is read as it was meant, and nothing else is read.

Method: messages of all types through the codec, cut anywhere; frames with one thing wrong each; any
bytes at all; and the example in docs/cluster-wire.md.
"""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.cluster import cluster_port as c
from sluicemq.cluster.frame import (
    CRC,
    HEAD,
    HEAD_BYTES,
    MORE,
    BrokenFrame,
    FrameDecoder,
    encode_frames,
    head_of,
)
from sluicemq.kernel.address import ActorAddress
from sluicemq.limits import LINK_MESSAGE_MAX_BYTES, LINK_PIECE_BYTES

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "cluster-wire.md"

ONE = ActorAddress(1, 4, 0)
TWO = ActorAddress(2, 7, 5)
LARGE = bytes(range(256)) * (LINK_PIECE_BYTES // 256)

addresses = st.builds(
    ActorAddress,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
)
payloads = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([LARGE[:-1], LARGE, LARGE + b"x", LARGE * 2, LARGE * 2 + b"yz"]),
)
data_types = [each for each in c.FRAME_TYPES.values() if each.connection in (None, c.DATA)]
messages = st.builds(
    c.PeerMessage,
    st.sampled_from(data_types),
    addresses,
    addresses,
    payloads,
    st.integers(0, 255),
)


def frames(message: c.PeerMessage) -> list[bytes]:
    return [head + piece for head, piece in encode_frames(message)]


def fields(message: c.PeerMessage) -> tuple[object, ...]:
    return (*(getattr(message, name) for name in c.PeerMessage.__slots__),)


def decoded(*parts: bytes, connection: c.PeerConnection = c.DATA) -> list[c.PeerMessage]:
    """All messages in what comes in these parts."""
    decoder = FrameDecoder(connection, 1)
    found = []
    for part in parts:
        decoder.receive(part)
        while (message := decoder.next()) is not None:
            found.append(message)
    assert decoder.held_bytes == sum(map(len, parts)) - sum(
        sum(map(len, frames(message))) for message in found
    )
    return found


@given(st.lists(messages, max_size=4), st.data())
def test_messages_come_out_as_they_went_in(sent: list[c.PeerMessage], data: st.DataObject) -> None:
    raw = b"".join(part for message in sent for part in frames(message))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    parts = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert list(map(fields, decoded(*parts))) == list(map(fields, sent))


def test_what_came_behind_a_whole_frame_stays_before_what_comes_next() -> None:
    [raw] = frames(c.PeerMessage(c.RAFT_DATA, ONE, TWO, b"abc"))
    decoder = FrameDecoder(c.DATA, 1)
    decoder.receive(raw)
    decoder.receive(raw[:5])
    assert decoder.next() is not None
    assert decoder.next() is None
    decoder.receive(raw[5:])
    assert decoder.next() is not None


def test_byte_by_byte() -> None:
    sent = [c.PeerMessage(c.RAFT_DATA, ONE, TWO, b"abc"), c.PeerMessage(c.OPEN, ONE, TWO, b"")]
    raw = b"".join(part for message in sent for part in frames(message))
    found = decoded(*(raw[at : at + 1] for at in range(len(raw))))
    assert list(map(fields, found)) == list(map(fields, sent))


@given(st.binary(max_size=200), st.sampled_from([c.CONTROL, c.DATA]))
def test_any_bytes_are_refused_or_wait(raw: bytes, connection: c.PeerConnection) -> None:
    decoder = FrameDecoder(connection, 1)
    decoder.receive(raw)
    try:
        while decoder.next() is not None:
            assert len(raw) >= HEAD_BYTES
    except BrokenFrame as broken:
        assert str(broken)


@given(messages, st.integers(0), st.integers(1, 255))
def test_a_changed_byte_is_never_read(message: c.PeerMessage, where: int, change: int) -> None:
    raw = bytearray(b"".join(frames(message)))
    raw[where % len(raw)] ^= change
    decoder = FrameDecoder(c.DATA, 1)
    decoder.receive(bytes(raw))
    try:
        found = decoder.next()
    except BrokenFrame:
        return
    assert found is None, "what was changed came out"


def frame(number: int, flags: int, piece: bytes, source: ActorAddress = ONE) -> bytes:
    return head_of(number, flags, source.encode(), TWO.encode(), piece) + piece


def oversize() -> bytes:
    return HEAD.pack(LINK_PIECE_BYTES + 1, 17, 0, ONE.encode(), TWO.encode()) + CRC.pack(0)


BROKEN = {
    "unknown type": (
        frame(9999, 0, b""),
        "a frame of type 9999, which version 1 of the protocol does not have: that node writes "
        "what the others cannot read",
    ),
    "wrong checksum": (
        frame(17, 0, b"abc")[:-1] + b"d",
        "a frame 'raft data' whose checksum is wrong: its bytes were changed on the way",
    ),
    "too large": (oversize(), "a frame 'raft data' of 262145 bytes; at most 262144 are allowed"),
    "other connection": (frame(3, 0, b""), "a frame 'heartbeat' on the data connection"),
    "unknown flag": (
        frame(17, 2, b""),
        "a frame 'raft data' with flags 2, which version 1 of the protocol does not have",
    ),
    "another type between": (
        frame(17, MORE, LARGE) + frame(1, 0, b""),
        "a frame 'open' between the pieces of another message",
    ),
    "another sender between": (
        frame(17, MORE, LARGE) + frame(17, 0, b"", ActorAddress(1, 4, 1)),
        "a frame 'raft data' between the pieces of another message",
    ),
    "short piece": (
        frame(17, MORE, b"abc"),
        "a piece of 3 bytes that is not the last of its message; all but that have 262144",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_is_said(what: str) -> None:
    raw, sentence = BROKEN[what]
    decoder = FrameDecoder(c.DATA, 1)
    decoder.receive(frame(17, 0, b"before") + raw)
    first = decoder.next()
    assert first is not None
    assert first.payload == b"before"
    with pytest.raises(BrokenFrame) as raised:
        decoder.next()
    assert str(raised.value) == sentence


def test_a_message_has_a_bound_however_many_its_pieces() -> None:
    decoder = FrameDecoder(c.DATA, 1)
    piece = frame(17, MORE, LARGE)
    for _ in range(LINK_MESSAGE_MAX_BYTES // LINK_PIECE_BYTES):
        decoder.receive(piece)
        assert decoder.next() is None
    assert decoder.held_bytes == LINK_MESSAGE_MAX_BYTES
    decoder.receive(piece)
    with pytest.raises(BrokenFrame, match=r"^a message of more than 167772160 bytes in pieces$"):
        decoder.next()


def test_no_frame_is_larger_than_a_piece() -> None:
    parts = [*encode_frames(c.PeerMessage(c.RAFT_DATA, ONE, TWO, LARGE * 3 + b"x"))]
    assert [len(head) for head, _ in parts] == [HEAD_BYTES] * 4
    assert [len(piece) for _, piece in parts] == [LINK_PIECE_BYTES] * 3 + [1]


def test_heartbeats_and_grants_come_between_the_pieces_of_a_message() -> None:
    definitions = c.PeerMessage(c.DEFINITIONS, ONE, TWO, LARGE * 2 + b"x", 3)
    first, *rest = frames(definitions)
    between = [c.PeerMessage(each, ONE, TWO, b"now") for each in (c.HEARTBEAT, c.GRANTS)]
    raw = [first, *(part for each in between for part in frames(each)), *rest]
    decoder = FrameDecoder(c.CONTROL, 1)
    decoder.receive(b"".join(raw))
    found = [decoder.next() for _ in range(4)]
    assert found[3] is None
    assert [fields(each) for each in found[:3] if each] == list(
        map(fields, [*between, definitions])
    )


def test_a_heartbeat_is_never_cut() -> None:
    decoder = FrameDecoder(c.CONTROL, 1)
    decoder.receive(frame(3, MORE, LARGE))
    with pytest.raises(
        BrokenFrame, match=r"^a piece of a message 'heartbeat', which is never cut$"
    ):
        decoder.next()


def test_frames_of_a_large_message_are_made_one_by_one() -> None:
    made = encode_frames(c.PeerMessage(c.RAFT_DATA, ONE, TWO, LARGE * 40))
    tracemalloc.start()
    try:
        size = sum(len(part) for frame in made for part in frame)
        assert size == 40 * (LINK_PIECE_BYTES + HEAD_BYTES)
        assert tracemalloc.get_traced_memory()[1] < 4 * LINK_PIECE_BYTES
    finally:
        tracemalloc.stop()


def test_the_example_of_the_document() -> None:
    _, _, example = DOCUMENT.read_text(encoding="utf-8").partition("## Example of a frame")
    (block,) = re.findall(r"```text\n(.*?)```", example.partition("\n## ")[0], re.DOTALL)
    raw = bytes.fromhex("".join(line.partition("  ")[0] for line in block.splitlines()))
    (message,) = decoded(raw)
    assert fields(message) == (0, c.RAFT_DATA, b"hello", ONE, TWO)


def test_every_type_is_in_the_document() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    names = {None: "each", c.CONTROL: "control", c.DATA: "data", c.ASK: "ask"}
    for each in c.FRAME_TYPES.values():
        assert f"| {each.number} | {each.name} | {names[each.connection]} |" in text
