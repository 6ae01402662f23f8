"""Messages between members of Raft groups as the payload of a frame (docs/cluster-wire.md). All
numbers are little-endian. A payload is sections, one after the other:

    kind u8 | 0 u8 x 3 | count u32 | ...

A section of short messages has `count` rows of one size, so that the heartbeats of all groups to a
node are one section; a message with bodies is a section of its own, of `count` bytes.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from sluicemq.errors import SluiceError
from sluicemq.raft.configuration import decoded
from sluicemq.raft.entry import LogEntry
from sluicemq.raft.messages import (
    AppendAnswer,
    AppendEntries,
    BeatAnswer,
    CommitNotice,
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
from sluicemq.storage.raft.codec import decode_raft_entries, encode_raft_entries

if TYPE_CHECKING:
    from collections.abc import Iterable


GroupMessage = tuple[int, RaftMessage]
"""The number of a group, and a message between its members."""

SECTION: Final = Struct("<B3xI")

ROWS: Final[dict[type[RaftMessage], tuple[int, Struct]]] = {
    VoteRequest: (1, Struct("<QQQQQQ??")),
    VoteAnswer: (2, Struct("<QQQQ??")),
    AppendAnswer: (3, Struct("<QQQQQQQQ")),
    LeaderBeat: (4, Struct("<QQQQQQQ")),
    BeatAnswer: (5, Struct("<QQQQQ?")),
    PieceAnswer: (6, Struct("<QQQQQQQ")),
    TakeOver: (7, Struct("<QQQQ")),
    CommitNotice: (8, Struct("<QQQQQ")),
}
"""The kind and the row of short messages: the group, then the fields of the message in order."""

KINDS: Final = {kind: (each, row) for each, (kind, row) in ROWS.items()}

APPEND: Final = 16
SNAPSHOT_PIECE: Final = 17
LIVE_PIECE: Final = 18

APPEND_HEAD: Final = Struct("<QQQQQQQ")
PIECE_HEAD: Final = Struct("<QQQQQQQQQI")
"""Group, sender, to, term; of the snapshot index, term, machine version, size, the last entry that
is needed, and the length of its configuration, which follows."""
OFFSET: Final = Struct("<Q")
LIVE_RANGE: Final = Struct("<QQ")


class BrokenRaftFrame(SluiceError):
    """A frame's payload has no messages between members."""


def encode_raft_messages(messages: Iterable[GroupMessage]) -> bytes:
    """Return messages as a payload, in order. Successive messages of one short kind share a
    section."""
    parts: list[bytes] = []
    rows: list[bytes] = []
    shared: type[RaftMessage] | None = None
    for group, message in messages:
        kind = type(message)
        if kind is not shared:
            _end_section(parts, shared, rows)
            shared = kind if kind in ROWS else None
        if shared is not None:
            rows.append(ROWS[kind][1].pack(group, *message.values()))
        else:
            parts += encode_body(group, message)
    _end_section(parts, shared, rows)
    return b"".join(parts)


def _end_section(parts: list[bytes], kind: type[RaftMessage] | None, rows: list[bytes]) -> None:
    if kind is not None and rows:
        parts.append(SECTION.pack(ROWS[kind][0], len(rows)))
        parts += rows
        rows.clear()


def encode_body(group: int, message: RaftMessage, runs: list[bytes] | None = None) -> list[bytes]:
    """Return the parts of a section with a message that is not short. `runs` are its entries as
    `encode_runs` gives them; None: they are encoded here."""
    body: list[bytes] = []
    head = group, message.sender, message.to, message.term
    if isinstance(message, AppendEntries):
        kind = APPEND
        body.append(
            APPEND_HEAD.pack(*head, message.previous_index, message.previous_term, message.commit)
        )
        body += encode_runs(group, message.entries) if runs is None else runs
    elif isinstance(message, SnapshotPiece):
        assert len(message.content) == message.size, "a piece without its content"
        kind = SNAPSHOT_PIECE
        _encode_snapshot(body, head, message.snapshot)
        body += [OFFSET.pack(message.offset), message.content]
    else:
        assert isinstance(message, LivePiece)
        kind = LIVE_PIECE
        _encode_snapshot(body, head, message.snapshot)
        body.append(LIVE_RANGE.pack(message.after, message.upto))
        body += encode_runs(group, message.entries)
    return [SECTION.pack(kind, sum(map(len, body))), *body]


def _encode_snapshot(
    body: list[bytes], head: tuple[int, int, int, int], snapshot: LogSnapshot
) -> None:
    members = snapshot.configuration.encoded()
    numbers = snapshot.index, snapshot.term, snapshot.version, snapshot.size_bytes
    body += [PIECE_HEAD.pack(*head, *numbers, snapshot.live_upto, len(members)), members]


def encode_runs(group: int, entries: list[LogEntry]) -> list[bytes]:
    """Return the parts of the entries in the form of the journal: a record for each run without a
    gap."""
    parts: list[bytes] = []
    start = 0
    for at in range(1, len(entries) + 1):
        if at == len(entries) or entries[at].index != entries[at - 1].index + 1:
            encode_raft_entries(parts, group, entries[start:at])
            start = at
    return parts


def decode_raft_messages(payload: bytes) -> list[GroupMessage]:
    """Return the messages of a payload, in order. Raises BrokenRaftFrame."""
    messages: list[GroupMessage] = []
    view = memoryview(payload)
    at = 0
    try:
        while at < len(view):
            kind, count = SECTION.unpack_from(view, at)
            at += SECTION.size
            known = KINDS.get(kind)
            end = at + (count if known is None else count * known[1].size)
            if end > len(view):
                raise BrokenRaftFrame("messages of Raft groups that are cut off")
            if known is None:
                messages.append(_decode_body(kind, view[at:end]))
            else:
                make: Any = known[0]
                messages += [
                    (group, make(*values)) for group, *values in known[1].iter_unpack(view[at:end])
                ]
            at = end
    except (ValueError, AssertionError, struct.error) as error:
        raise BrokenRaftFrame(f"messages of Raft groups that cannot be read: {error}") from error
    return messages


def _decode_body(kind: int, view: memoryview) -> GroupMessage:
    if kind == APPEND:
        group, sender, to, term, index, index_term, commit = APPEND_HEAD.unpack_from(view)
        entries = _decode_runs(group, view, APPEND_HEAD.size)
        assert not entries or entries[-1].index == entries[0].index + len(entries) - 1, "a gap"
        return group, AppendEntries(sender, to, term, index, index_term, entries, commit)
    if kind not in (SNAPSHOT_PIECE, LIVE_PIECE):
        raise BrokenRaftFrame(f"a message of kind {kind} of a Raft group, which is not known")
    group, sender, to, term, *numbers, length = PIECE_HEAD.unpack_from(view)
    index, index_term, version, size, live_upto = numbers
    at = PIECE_HEAD.size + length
    configuration = decoded(bytes(view[PIECE_HEAD.size : at]))
    snapshot = LogSnapshot(index, index_term, configuration, version, size, live_upto)
    if kind == SNAPSHOT_PIECE:
        (offset,) = OFFSET.unpack_from(view, at)
        content = bytes(view[at + OFFSET.size :])
        return group, SnapshotPiece(sender, to, term, snapshot, offset, len(content), content)
    after, upto = LIVE_RANGE.unpack_from(view, at)
    entries = _decode_runs(group, view, at + LIVE_RANGE.size)
    return group, LivePiece(sender, to, term, snapshot, after, upto, entries)


def _decode_runs(group: int, view: memoryview, at: int) -> list[LogEntry]:
    entries: list[LogEntry] = []
    while at < len(view):
        record, at = decode_raft_entries(view, at)
        assert record.group == group, "entries of another group"
        assert not entries or record.entries[0].index > entries[-1].index, "entries out of order"
        entries += record.entries
    return entries
