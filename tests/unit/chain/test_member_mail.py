"""Goal: members are sent what was agreed on, however long it waits to be read from the disk.
Method: the mail of one member over the storage of a whole node with files in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sluicemq.chain.queue.group.member_mail import MailRead, MemberMail
from sluicemq.chain.store.raft_storage import RaftSnapshotTaken
from sluicemq.kernel.address import ActorAddress
from sluicemq.queues.quorum.command_codec import enqueue_of
from sluicemq.queues.quorum.entry_content import FifoCodec, content_of, trimmed_entry
from sluicemq.raft.entry import DATA, LogEntry
from sluicemq.raft.messages import AppendEntries, LivePiece
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.storage.raft.codec import RaftEntries, RaftSnapshot
from sluicemq.storage.raft.live_places import LivePlaces
from support.batches import batch_of

from .raft_bench import BIRTH, TINY, Bench, rotate

if TYPE_CHECKING:
    from sluicemq.raft.messages import RaftMessage

GROUP = 1
ENTRIES = 20
BODIES = 50
BODY_BYTES = 100
SENDER = ActorAddress(1, 1, 1)


class Sent:
    """Stands for the post of the node, and for the member: it counts what is sent."""

    def __init__(self) -> None:
        self.messages: list[RaftMessage] = []

    def send(self, _: int, messages: list[RaftMessage]) -> None:
        self.messages += messages

    def pinned(self) -> list[LogSnapshot]:
        return []


class HeldMail(MemberMail):
    """Its reads are done at once, and it hears of them when the test says so."""

    def __init__(self, bench: Bench, sent: Sent) -> None:
        super().__init__(bench.store, cast("Any", sent), GROUP, bench.ear, cast("Any", sent), 0)
        self.files = bench.files
        self.jobs: list[MailRead] = []

    def owner_submit(self, job: MailRead) -> None:
        job.run(self.files)
        self.jobs.append(job)

    def hear(self) -> None:
        assert self.was_read(self.jobs.pop(0))


def entry_with_bodies(index: int) -> LogEntry:
    head = bytes(11) + BODY_BYTES.to_bytes(8)
    bodies = [head + b"%d/%d" % (index, place) for place in range(BODIES)]
    batch = batch_of([each.ljust(len(head) + BODY_BYTES) for each in bodies])
    enqueue = enqueue_of(batch, SENDER, index * BODIES, 1)
    return LogEntry(index, 0, DATA, FifoCodec().encode([enqueue], 7))


def written(bench: Bench) -> list[LogEntry]:
    """Entries that are committed."""
    bench.born(range(GROUP, GROUP + 1))
    entries = [entry_with_bodies(index) for index in range(1, ENTRIES + 1)]
    for entry in entries:
        bench.append(GROUP, RaftEntries(GROUP, [entry]))
        bench.broker.run()
        bench.committed(GROUP)
        bench.broker.run()
    return entries


def written_and_let_go(bench: Bench) -> list[LogEntry]:
    """Entries that are in segments, and no longer in memory."""
    entries = written(bench)
    let_go(bench, entries)
    return entries


def let_go(bench: Bench, entries: list[LogEntry]) -> None:
    rotate(bench, GROUP)
    assert bench.ear.settled[GROUP] >= ENTRIES
    for entry in entries:
        content_of(entry.data).let_go()


def snapshot_of_one_of_each(bench: Bench) -> None:
    """A snapshot that needs one message of each entry."""
    places = LivePlaces()
    for index in range(1, ENTRIES + 1):
        places.add(index, [range(3, 4)], BODY_BYTES)
    last = bench.raft.table.groups[GROUP].last_index
    snapshot = LogSnapshot(last, 0, BIRTH.configuration)
    record = RaftSnapshot(GROUP, snapshot, live=(range(1, ENTRIES + 1),))
    bench.store.post(RaftSnapshotTaken(record, b"", bench.ear, places, trimmed_entry))
    bench.broker.run()
    bench.broker.wait()


def append_of(entry: LogEntry) -> AppendEntries:
    return AppendEntries(1, 2, 1, entry.index - 1, 0, [entry], entry.index)


def sequences(sent: Sent) -> list[int]:
    """The first numbers of what the entries in the messages enqueue, which followers apply."""
    found = []
    for message in sent.messages:
        assert isinstance(message, AppendEntries)
        for entry in message.entries:
            _, [command] = content_of(bytes(entry.data)).decoded()
            found.append(command.first_seq)  # type: ignore[union-attr]
    return found


def test_entries_that_are_in_segments_only_are_read_and_sent_in_order() -> None:
    bench, sent = Bench(config=TINY), Sent()
    mail = HeldMail(bench, sent)
    one, other, *_ = written_and_let_go(bench)
    mail.send([append_of(one), append_of(other)])
    mail.hear()
    assert sequences(sent) == [BODIES]
    mail.hear()
    assert sequences(sent) == [BODIES, 2 * BODIES]
    assert not mail.waiting


def test_what_a_snapshot_has_left_of_an_entry_is_sent_to_nobody() -> None:
    """It can deliver the messages that are left, but is no entry that a member could apply."""
    bench, sent = Bench(config=TINY), Sent()
    mail = HeldMail(bench, sent)
    one, other, *_ = written_and_let_go(bench)
    mail.send([append_of(one), append_of(other)])
    snapshot_of_one_of_each(bench)
    for _ in range(3):
        rotate(bench, GROUP)
    trimmed = bench.raft.reading(GROUP, [other.index])
    assert trimmed is not None
    trimmed.run(bench.files)
    assert 0 < len(trimmed.found[other.index]) < 2 * BODY_BYTES, "there is little left of it"
    mail.hear()
    assert not mail.jobs
    assert sequences(sent) == [BODIES], "the first one was read in time"
    assert not mail.waiting, "Raft sends a snapshot when it is asked for the rest"


def test_what_goes_from_memory_to_a_segment_while_it_is_read_is_read_there() -> None:
    """A piece of what a snapshot needs may be in neither when the read comes back."""
    bench, sent = Bench(config=TINY), Sent()
    mail = HeldMail(bench, sent)
    entries = [entry for entry in written(bench) if entry.index in bench.raft.table.groups[1].held]
    assert entries, "the last ones are in the journal alone"
    snapshot_of_one_of_each(bench)
    snapshot = bench.raft.table.groups[GROUP].snapshot
    mail.send([LivePiece(1, 2, 1, snapshot, entries[0].index - 1)])
    let_go(bench, entries)
    mail.hear()
    assert not sent.messages
    mail.hear()
    [piece] = sent.messages
    assert isinstance(piece, LivePiece)
    assert [entry.index for entry in piece.entries] == [entry.index for entry in entries]
    assert all(len(bytes(entry.data)) for entry in piece.entries)
