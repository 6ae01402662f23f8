"""Goal: what a member of a group says arrives at the other node as it was said, with whatever other
groups say beside it; what was never said is refused.

Method: any messages there and back; payloads cut at every byte and changed at will; sections
counted.
"""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.raft import messages as m
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry import CONFIGURATION, DATA, NOOP, LogEntry
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.replication import raft_wire as w

U64 = st.integers(0, (1 << 64) - 1)
INDEX = st.integers(1, 1 << 40)
MEMBERS = st.sets(st.integers(1, 50), max_size=6)
ENDS = (U64, U64, U64)


@st.composite
def entries(draw: st.DrawFn, has_gaps: bool) -> list[LogEntry]:
    steps = draw(st.lists(st.integers(1, 3 if has_gaps else 1), max_size=6))
    first = draw(INDEX)
    return [
        LogEntry(index, draw(U64), draw(st.sampled_from((DATA, NOOP, CONFIGURATION))), data)
        for index in accumulate(steps, initial=first)
        for data in [draw(st.binary(max_size=20))]
    ][1:]


@st.composite
def snapshots(draw: st.DrawFn) -> LogSnapshot:
    members = draw(MEMBERS)
    learners = {each for each in members if draw(st.booleans())}
    configuration = Configuration(
        (*sorted(members - learners),),
        (*sorted(learners),),
    )
    return LogSnapshot(draw(U64), draw(U64), configuration, draw(U64), draw(U64), draw(U64))


@st.composite
def snapshot_pieces(draw: st.DrawFn) -> m.SnapshotPiece:
    content = draw(st.binary(max_size=40))
    ends = [draw(U64) for _ in range(3)]
    return m.SnapshotPiece(*ends, draw(snapshots()), draw(U64), len(content), content)


MESSAGES = st.one_of(
    st.builds(m.VoteRequest, *ENDS, U64, U64, st.booleans(), st.booleans()),
    st.builds(m.VoteAnswer, *ENDS, st.booleans(), st.booleans()),
    st.builds(m.AppendEntries, *ENDS, U64, U64, entries(has_gaps=False), U64),
    st.builds(m.AppendAnswer, *ENDS, U64, U64, U64, U64),
    st.builds(m.LeaderBeat, *ENDS, U64, U64, U64),
    st.builds(m.BeatAnswer, *ENDS, U64, st.booleans()),
    snapshot_pieces(),
    st.builds(m.LivePiece, *ENDS, snapshots(), U64, U64, entries(has_gaps=True)),
    st.builds(m.PieceAnswer, *ENDS, U64, U64, U64),
    st.builds(m.TakeOver, *ENDS),
)
SAID = st.lists(st.tuples(U64, MESSAGES), max_size=12)
BEAT = m.LeaderBeat(1, 2, 3, 4, 5, 0)
APPEND = m.AppendEntries(
    1, 2, 3, 4, 3, [LogEntry(5, 3, DATA, b"abc"), LogEntry(6, 3, NOOP, b"1")], 4
)


@given(SAID)
def test_what_is_said_arrives(said: list[w.GroupMessage]) -> None:
    assert w.decode_raft_messages(w.encode_raft_messages(said)) == said


def test_every_message_is_short_or_has_contents() -> None:
    kinds = {each for each in vars(m).values() if isinstance(each, type)}
    kinds = {each for each in kinds if issubclass(each, m.RaftMessage)} - {m.RaftMessage}
    data = {m.AppendEntries, m.SnapshotPiece, m.LivePiece}
    assert kinds == {*w.ROWS} | data


def test_the_beats_of_all_groups_are_one_section() -> None:
    beats = [(group, BEAT) for group in range(1000)]
    assert len(w.encode_raft_messages(beats)) == 8 + 1000 * 56
    answers = [(group, m.BeatAnswer(2, 1, 3, 5, True)) for group in range(1000)]
    assert len(w.encode_raft_messages(answers)) == 8 + 1000 * 41


def test_an_object_that_becomes_bytes_is_sent_as_those() -> None:
    class Late:
        def __len__(self) -> int:
            return 3

        def __bytes__(self) -> bytes:
            return b"abc"

    said = m.AppendEntries(1, 2, 3, 4, 3, [LogEntry(5, 3, DATA, Late())], 4)
    ((_, came),) = w.decode_raft_messages(w.encode_raft_messages([(9, said)]))
    assert isinstance(came, m.AppendEntries)
    assert came.entries == [LogEntry(5, 3, DATA, b"abc")]


SNAPSHOT = LogSnapshot(7, 3, Configuration((1, 2), (3,)), 1, 5, 4)
SOME = [
    (1, BEAT),
    (2, APPEND),
    (3, m.SnapshotPiece(1, 2, 3, SNAPSHOT, 0, 5, b"12345")),
    (
        4,
        m.LivePiece(
            1, 2, 3, SNAPSHOT, 1, 4, [LogEntry(2, 1, DATA, b"a"), LogEntry(4, 1, DATA, b"")]
        ),
    ),
]


@pytest.mark.parametrize("said", SOME, ids=lambda said: type(said[1]).__name__)
def test_what_is_cut_off_is_refused(said: w.GroupMessage) -> None:
    whole = w.encode_raft_messages([said])
    for size in range(1, len(whole)):
        with pytest.raises(w.BrokenRaftFrame):
            w.decode_raft_messages(whole[:size])


@given(st.data())
def test_what_is_changed_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    raw = bytearray(w.encode_raft_messages(SOME))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        said = w.decode_raft_messages(bytes(raw))
    except w.BrokenRaftFrame:
        return
    assert w.decode_raft_messages(w.encode_raft_messages(said)) == said


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b"\x63\0\0\0\0\0\0\0", "a message of kind 99 of a Raft group, which is not known"),
        (b"\x04\0\0\0\xff\xff\xff\xff", "messages of Raft groups that are cut off"),
        (b"\x04\0\0", "messages of Raft groups that cannot be read"),
    ],
)
def test_what_is_no_message(payload: bytes, words: str) -> None:
    with pytest.raises(w.BrokenRaftFrame, match=words):
        w.decode_raft_messages(payload)


def test_entries_with_a_gap_are_no_append() -> None:
    live = SOME[3][1]
    assert isinstance(live, m.LivePiece)
    said = m.AppendEntries(1, 2, 3, 1, 1, live.entries, 0)
    with pytest.raises(w.BrokenRaftFrame, match="a gap"):
        w.decode_raft_messages(w.encode_raft_messages([(1, said)]))
