"""Frames between nodes, as a link that is open would have them (cluster/frame.py)."""

from __future__ import annotations

from collections.abc import Iterator

from sluicemq.cluster.cluster_port import (
    DATA,
    GOODBYE,
    HEARTBEAT,
    OPEN,
    RAFT_DATA,
    PeerMessage,
)
from sluicemq.cluster.frame import MORE, BrokenFrame, FrameDecoder, encode_frames, head_of
from sluicemq.kernel.address import ActorAddress
from targets.target import Target

ONE = ActorAddress(1, 4, 0)
TWO = ActorAddress(2, 7, 5)


def frames_of(message: PeerMessage) -> bytes:
    """All frames of a message."""
    return b"".join([head + piece for head, piece in encode_frames(message)])


def made(number: int, flags: int, piece: bytes) -> bytes:
    """One frame, which need not be allowed."""
    return head_of(number, flags, ONE.encode(), TWO.encode(), piece) + piece


def decode(data: bytes) -> tuple[list[PeerMessage], str]:
    """All messages, and why there are no more; "": the data ended."""
    return decoded_in_parts(data, len(data))


def decoded_in_parts(data: bytes, size: int) -> tuple[list[PeerMessage], str]:
    """The same of data that comes in parts of that many bytes."""
    decoder = FrameDecoder(DATA, 1)
    found = []
    try:
        for start in range(0, len(data), max(1, size)):
            decoder.receive(data[start : start + max(1, size)])
            while (message := decoder.next()) is not None:
                found.append(message)
    except BrokenFrame as broken:
        return found, str(broken)
    return found, ""


def check(data: bytes) -> None:
    """Nothing but `BrokenFrame`, the same in whatever parts it comes, and what was read is written
    as it was."""
    found, why = decode(data)
    raw = b"".join(map(frames_of, found))
    assert data.startswith(raw)
    again, why_again = decoded_in_parts(data, 7)
    assert why_again == why
    assert b"".join(map(frames_of, again)) == raw


def seeds() -> Iterator[bytes]:
    """Some of each type, and some with one thing wrong."""
    for frame_type in (OPEN, GOODBYE, RAFT_DATA, HEARTBEAT):
        yield frames_of(PeerMessage(frame_type, ONE, TWO, b"hello", 3)) * 2
    yield made(17, MORE, b"short")
    yield made(17, 2, b"")
    yield made(9999, 0, b"")
    yield made(17, 0, b"abc")[:-1] + b"d"


TARGET = Target("frames", check, decode, seeds, base_bytes=20_000, factor=60)
