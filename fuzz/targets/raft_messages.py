"""What members of Raft groups say to one another, as frames have it (replication/raft_wire.py)."""

from __future__ import annotations

from collections.abc import Iterator

from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry import DATA, NOOP, LogEntry
from sluicemq.raft.messages import (
    AppendAnswer,
    AppendEntries,
    BeatAnswer,
    LeaderBeat,
    LivePiece,
    PieceAnswer,
    RaftMessage,
    SnapshotPiece,
    TakeOver,
    VoteAnswer,
    VoteRequest,
)
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.replication.raft_wire import (
    BrokenRaftFrame,
    GroupMessage,
    decode_raft_messages,
    encode_raft_messages,
)
from targets.target import Target

ENTRIES = [LogEntry(5, 2, DATA, b"abc"), LogEntry(6, 3, NOOP, b"1")]
SNAPSHOT = LogSnapshot(7, 3, Configuration((1, 2), (3,)), 1, 5, 4)


def decode(data: bytes) -> list[GroupMessage]:
    """All messages; none when they cannot be read."""
    try:
        return decode_raft_messages(data)
    except BrokenRaftFrame:
        return []


def check(data: bytes) -> None:
    """Nothing but `BrokenRaftFrame`, and what was read is the same when it was written again."""
    found = decode(data)
    assert decode_raft_messages(encode_raft_messages(found)) == found


def seeds() -> Iterator[bytes]:
    """One of each kind, and all of them."""
    messages: list[RaftMessage] = [
        VoteRequest(1, 2, 3, 4, 5, False, True),
        VoteAnswer(1, 2, 3, True, False),
        AppendAnswer(1, 2, 3, 4, 5, 6, 7),
        LeaderBeat(1, 2, 3, 4, 5, 6),
        BeatAnswer(1, 2, 3, 4, True),
        PieceAnswer(1, 2, 3, 4, 5, 6),
        TakeOver(1, 2, 3),
        AppendEntries(1, 2, 3, 4, 2, ENTRIES, 4),
        SnapshotPiece(1, 2, 3, SNAPSHOT, 0, 5, b"12345"),
        LivePiece(1, 2, 3, SNAPSHOT, 0, 6, [ENTRIES[0], LogEntry(9, 3, DATA, b"")]),
    ]
    for message in messages:
        yield encode_raft_messages([(7, message), (8, message)])
    yield encode_raft_messages(list(enumerate(messages)))


TARGET = Target("raft_messages", check, decode, seeds, base_bytes=200_000, factor=64)
