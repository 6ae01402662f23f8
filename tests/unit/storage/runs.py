"""Strategies for runs and other entries."""

from __future__ import annotations

from hypothesis import strategies as st

from sluicemq.model.traits import message_traits
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry import LogEntry
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.storage.entries import (
    Ack,
    Definition,
    Delivered,
    Entry,
    QueueDeleted,
    Run,
    encode_ack,
    encode_definition,
    encode_deliver,
    encode_queue_deleted,
    encode_run,
)
from sluicemq.storage.raft.codec import (
    KINDS,
    NO_FILE,
    RaftEntries,
    RaftGroupGone,
    RaftRecord,
    RaftSnapshot,
    RaftTruncation,
    TermAndVote,
    encode_raft_record,
)
from sluicemq.storage.raft.segment import RaftSegment

IDS = st.integers(0, 2**64 - 1)
SMALL = st.integers(0, 10**6)


@st.composite
def runs(draw: st.DrawFn, queues: st.SearchStrategy[int] = IDS, position_max: int = 2**60) -> Run:
    """Any run that an encoder takes."""
    same_size = draw(st.booleans())
    if same_size:
        size = draw(st.integers(0, 50))
        contents = draw(st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=9))
    else:
        contents = draw(st.lists(st.binary(max_size=60), min_size=1, max_size=9))
    embedded = draw(st.booleans())
    return Run(
        draw(queues),
        draw(st.integers(0, position_max)),
        draw(st.integers(1, 1000)),
        len(contents),
        message_traits(
            draw(st.binary(max_size=40)), draw(st.integers(0, 65535)), draw(st.booleans())
        ),
        same_size,
        contents if embedded else None,
        [len(content) for content in contents],
        0 if embedded else draw(st.integers(1, 2**60)),
        draw(st.integers(1, 1000)),
        draw(st.one_of(st.just(0), IDS)),
    )


RANGES = st.builds(
    lambda first, step, count: range(first, first + step * count, step),
    st.integers(0, 2**60),
    st.integers(1, 2**32 - 1),
    st.integers(1, 2**32 - 1),
)

MEMBERS = st.lists(st.integers(1, 99), unique=True, max_size=5).map(
    lambda ids: Configuration((*sorted(ids[:3]),), (*sorted(ids[3:]),))
)


@st.composite
def raft_entries(draw: st.DrawFn) -> RaftEntries:
    """Some entries of one group, one after the other."""
    first = draw(st.integers(1, 2**62))
    contents = draw(
        st.lists(
            st.tuples(IDS, st.sampled_from(KINDS), st.binary(max_size=30)), min_size=1, max_size=6
        )
    )
    return RaftEntries(draw(IDS), [LogEntry(first + n, *each) for n, each in enumerate(contents)])


@st.composite
def raft_snapshots(draw: st.DrawFn) -> RaftSnapshot:
    """Any snapshot, with live entries before it."""
    index = draw(st.integers(0, 10**6))
    ends = sorted(draw(st.sets(st.integers(1, index), max_size=6))) if index > 6 else []
    live = (*(range(a, b) for a, b in zip(ends[::2], ends[1::2], strict=False)),)
    live_upto = live[-1][-1] if live else 0
    content = draw(st.none() | st.binary(max_size=30))
    size = draw(IDS) if content is None else len(content)
    snapshot = LogSnapshot(index, draw(IDS), draw(MEMBERS), draw(IDS), size, live_upto)
    file_id = NO_FILE if content is not None else draw(st.binary(min_size=16, max_size=16))
    segments = (*draw(st.lists(raft_segments(), max_size=3)),)
    is_installed = bool(segments) or draw(st.booleans())
    return RaftSnapshot(draw(IDS), snapshot, file_id, live, is_installed, segments, content)


@st.composite
def raft_segments(draw: st.DrawFn) -> RaftSegment:
    """Any segment."""
    first = draw(st.integers(1, 2**62))
    file_id = draw(st.binary(min_size=16, max_size=16))
    last = first + draw(st.integers(0, 1000))
    return RaftSegment(draw(IDS), file_id, draw(IDS), first, last, draw(st.integers(1, 1000)))


RAFT = st.one_of(
    raft_entries(),
    st.builds(RaftTruncation, IDS, st.integers(1, 2**64 - 1)),
    st.builds(TermAndVote, IDS, IDS, IDS),
    raft_snapshots(),
    st.builds(RaftGroupGone, IDS),
)

ENTRIES = st.one_of(
    RAFT,
    runs(),
    st.builds(Ack, IDS, st.lists(RANGES, max_size=6)),
    st.builds(Delivered, IDS, IDS),
    st.builds(Definition, st.binary(max_size=60)),
    st.builds(QueueDeleted, IDS),
)


def encode(parts: list[bytes], entry: Entry) -> int:
    """Any entry."""
    if isinstance(entry, Run):
        return encode_run(parts, entry)
    if isinstance(entry, Ack):
        return encode_ack(parts, entry.queue, entry.ranges)
    if isinstance(entry, Delivered):
        return encode_deliver(parts, entry.queue, entry.position)
    if isinstance(entry, Definition):
        return encode_definition(parts, entry.change)
    if isinstance(entry, RaftRecord):
        before = sum(map(len, parts))
        encode_raft_record(parts, entry)
        return sum(map(len, parts)) - before
    return encode_queue_deleted(parts, entry.queue)


def encoded(entries: list[Entry]) -> bytes:
    """A payload."""
    parts: list[bytes] = []
    for entry in entries:
        encode(parts, entry)
    return b"".join(parts)


def same(entry: Entry) -> object:
    """What can be compared: a run by its fields."""
    if isinstance(entry, Run):
        return {name: getattr(entry, name) for name in Run.__slots__}
    return entry
