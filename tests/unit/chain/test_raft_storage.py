"""Goal: members of many groups share the journal and its sync with everything else, and cost
nothing while they are idle. Method: real members over a whole node with files in memory; writes,
syncs and looks are counted.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks
from sluicemq.chain.store import raft_storage
from sluicemq.chain.store.raft_answers import (
    RaftAppended,
    RaftRefused,
    RaftSettled,
    RaftSnapshotKept,
    RaftSnapshotWanted,
)
from sluicemq.chain.store.raft_storage import (
    SMALL_CONTENT_BYTES,
    RaftAppend,
    RaftCommitted,
    RaftSnapshotTaken,
    records_of,
)
from sluicemq.config import Config, RaftConfig, StorageConfig
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.address import ActorAddress
from sluicemq.limits import RAFT_GROUP_BYTES
from sluicemq.model.batch import Batch
from sluicemq.queues.quorum.command_codec import encode_entry, enqueue_of
from sluicemq.queues.quorum.trimming import bodies_of, trimmed
from sluicemq.raft.durable import Durable
from sluicemq.raft.entry import DATA, LogEntry
from sluicemq.raft.entry_data import EntryData
from sluicemq.raft.messages import LivePiece
from sluicemq.raft.raft import Raft
from sluicemq.raft.settings import RaftSettings
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.storage.fsck import Check
from sluicemq.storage.journal import GroupWrite
from sluicemq.storage.raft.codec import RaftEntries, RaftGroupGone, RaftSnapshot
from sluicemq.storage.raft.live_places import LivePlaces
from sluicemq.storage.raft.segment_file import (
    read_raft_segment,
)
from support.batches import batch_of

from .client import PERSISTENT
from .raft_bench import BIRTH, TINY, Bench, rotate

MANY = 2000


def test_a_sync_and_the_one_that_gathers_meanwhile_serve_thousands_of_groups() -> None:
    bench = Bench()
    bench.born(range(1, MANY + 1))
    before = bench.syncs()
    for group in range(1, MANY + 1):
        bench.entry(group)
    bench.broker.run()
    assert len(bench.ear.heard) == 2 * MANY
    assert bench.syncs() - before <= 2


def test_messages_of_classic_queues_share_the_groups_of_the_journal() -> None:
    bench = Bench()
    bench.born(range(1, 4))
    client = bench.broker.connect()
    client.open(1)
    client.call(1, m.ConfirmSelect())
    client.call(1, m.QueueDeclare(queue="q", durable=True))
    before = bench.store.journal.sequence
    for group in range(1, 4):
        bench.entry(group)
    client.publish(1, "q", b"body", raw=PERSISTENT)
    bench.broker.run()
    assert [type(event) for event in client.events()] == [Acks]
    assert len(bench.ear.heard) == 6
    assert bench.store.journal.sequence <= before + 2


def test_idle_groups_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(config=TINY)
    bench.born(range(1, MANY + 1))
    rotate(bench, 1)
    seen: list[int] = []
    original = bench.raft.see
    monkeypatch.setattr(
        bench.raft, "see", lambda cut: (seen.append(1) or each for each in original(cut))
    )
    count = bench.store.checkpoints.count
    rotate(bench, 1)
    rotate(bench, 1)
    assert bench.store.checkpoints.count > count
    assert 0 < len(seen) < 10
    timers = [timer for timer in bench.broker.world.clock.timers if timer[1] is bench.store]
    assert len(timers) <= 2, "none of them is a group's"


def test_members_are_asked_for_snapshots_one_after_the_other_before_a_checkpoint() -> None:
    """Those with entries of earlier files, while the first half of a file fills up."""
    bench = Bench(config=TINY)
    bench.born(range(1, 21))
    journal = bench.store.journal
    for group in range(1, 21):
        bench.entry(group)
    bench.broker.run()
    number = journal.number
    while journal.number == number:
        bench.entry(1, 1000)
        bench.broker.run()
    asked: list[int] = []
    while journal.number == number + 1:
        bench.entry(1, 500)
        bench.broker.run()
        asked.append(bench.ear.wanted)
    assert 0 < asked[0] < 12, "not all at once"
    assert asked[len(asked) * 2 // 3] == 20, "and long before the next file"


def test_committed_entries_leave_memory_and_the_journal_goes() -> None:
    bench = Bench(config=TINY)
    bench.born(range(1, 2))
    for _ in range(5):
        rotate(bench, 1)
    group = bench.raft.table.groups[1]
    assert len(group.held) < group.last_index / 2
    assert bench.store.journal.first > 8
    again = Bench(bench.files.crash(), TINY)
    found = again.raft.table.found[1]
    assert [entry.index for entry in found.entries] == [*range(1, group.last_index + 1)]


def test_a_clean_stop_leaves_no_journal() -> None:
    bench = Bench(config=TINY)
    bench.born(range(1, 3))
    bench.entry(1)
    bench.entry(2)
    bench.broker.run()
    bench.committed(1)
    bench.broker.stop()
    again = Bench(bench.files.crash(), TINY)
    assert {key: len(found.entries) for key, found in again.raft.table.found.items()} == {
        1: 1,
        2: 1,
    }
    assert [len(again.raft.table.groups[key].held) for key in (1, 2)] == [0, 1]


def test_a_storage_that_has_failed_refuses() -> None:
    bench = Bench()
    bench.born(range(1, 2))
    bench.files.fail = lambda action, path: "EIO" if action == "sync" else None  # noqa: ARG005
    bench.entry(1)
    bench.broker.run()
    last = bench.ear.heard[-1]
    assert isinstance(last, RaftRefused)
    assert (last.group, last.number) == (1, 2)


def test_a_record_that_would_lose_something_ends_the_node() -> None:
    bench = Bench()
    ended: list[bool] = []
    bench.broker.node.broken = lambda: ended.append(True)
    bench.born(range(1, 2))
    bench.append(1, RaftEntries(1, [LogEntry(7, 1, DATA, b"")]))
    bench.broker.run()
    assert ended


class Alone(Actor):
    """The member of a group of one: a real Raft whose log is in the node's storage."""

    def __init__(self, bench: Bench, group: int) -> None:
        super().__init__(bench.broker.node.scheduler)
        self.bench = bench
        self.group = group
        durable = bench.raft.table.found.pop(group, None)
        if durable is None:
            bench.store.post(RaftAppend(bench.raft, group, 0, [RaftSnapshot(group, BIRTH)], self))
        self.raft = Raft(1, durable or Durable(snapshot=BIRTH), RaftSettings(), 0, lambda n: n - 1)
        self.applied: list[EntryData] = [*bench.raft.table.contents.pop(group, b"").split()]
        self.taken: LogSnapshot | None = None

    def receive(self, message: object) -> None:
        if isinstance(message, RaftSnapshotKept):
            assert self.taken is not None
            self.raft.compact(self.taken)
            return
        if isinstance(message, RaftSettled | RaftSnapshotWanted):
            return
        assert isinstance(message, RaftAppended)
        self.raft.synced(message.number)

    def take_snapshot(self) -> None:
        content = b" ".join(map(bytes, self.applied))
        self.taken = self.raft.snapshot_at(self.raft.snapshot_index_max, len(content))
        record = RaftSnapshot(self.group, self.taken)
        self.bench.store.post(RaftSnapshotTaken(record, content, self))
        self.bench.broker.run()
        self.bench.broker.wait()

    def turn_ended(self) -> None:
        ready = self.raft.ready()
        store, storage = self.bench.store, self.bench.raft
        if ready.committed:
            store.post(RaftCommitted(storage, self.group, ready.committed[-1].index))
            self.applied += [entry.data for entry in ready.committed if entry.kind == DATA]
        if ready.number:
            records = records_of(self.group, ready)
            store.post(RaftAppend(storage, self.group, ready.number, records, self))

    def elect(self) -> None:
        for _ in range(30):
            self.raft.tick()
        self.schedule()
        self.bench.broker.run()

    def propose(self, data: EntryData) -> None:
        assert self.raft.propose(data)
        self.schedule()


def test_a_group_of_one_commits_with_the_sync_and_goes_on_after_a_crash() -> None:
    bench = Bench(config=TINY)
    members = [Alone(bench, group) for group in range(1, 6)]
    bench.broker.run()
    for member in members:
        member.elect()
        assert member.raft.is_leader
    before = bench.syncs()
    for member in members:
        member.propose(b"a")
        member.propose(b"b")
    assert members[0].applied == []
    bench.broker.run()
    assert [member.applied for member in members] == [[b"a", b"b"]] * 5
    assert bench.syncs() - before == 1
    for n in range(40):
        members[0].propose(b"%d" % n + bytes(200))
        bench.broker.run()
    again = Bench(bench.files.crash(), TINY)
    heirs = [Alone(again, group) for group in range(1, 6)]
    for heir in heirs:
        heir.elect()
    assert [heir.applied for heir in heirs] == [member.applied for member in members]


@pytest.mark.parametrize("size", [1, SMALL_CONTENT_BYTES], ids=["small", "large"])
def test_the_log_begins_behind_a_snapshot_that_is_durable(size: int) -> None:
    bench = Bench(config=TINY)
    member = Alone(bench, 1)
    bench.broker.run()
    member.elect()
    for n in range(60):
        member.propose(b"%d" % n * (size if n == 14 else 1))
        bench.broker.run()
        if n % 20 == 15:
            member.take_snapshot()
    log = member.raft.member.log
    assert log.snapshot == member.taken
    assert len(log.entries) < 10
    names = [name for name in bench.files.names("raft/1") if name.endswith(".snapshot")]
    assert names == ([f"{log.snapshot.index:020d}.snapshot"] if size > 1 else [])
    again = Bench(bench.files.crash(), TINY)
    heir = Alone(again, 1)
    assert heir.raft.member.log.snapshot == log.snapshot
    heir.elect()
    assert heir.applied == member.applied


def test_contents_of_a_node_without_files_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raft_storage, "SMALL_CONTENTS_BYTES", 100)
    bench = Bench()
    members = [Alone(bench, group) for group in range(1, 4)]
    bench.broker.run()

    def taken(group: int, size: int) -> list[bool]:
        member = members[group - 1]
        member.applied = [bytes([64 + group]) * size]
        member.elect()
        member.propose(b"")
        bench.broker.run()
        member.take_snapshot()
        return [any(".snap" in n for n in bench.files.names(f"raft/{each}")) for each in (1, 2, 3)]

    assert taken(1, 60) == [False, False, False]
    assert taken(2, 60) == [False, True, False], "both are more than 100 bytes"
    assert taken(3, 30) == [False, True, False]
    again = Bench(bench.files.crash())
    assert again.raft.small_bytes == bench.raft.small_bytes == len(members[0].applied[0]) + 30 + 2


@pytest.mark.parametrize("size", [3, SMALL_CONTENT_BYTES + 1], ids=["small", "large"])
def test_a_snapshot_that_a_leaders_has_overtaken_does_not_count(size: int) -> None:
    bench = Bench()
    bench.born(range(1, 2))
    bench.entry(1)
    bench.broker.run()
    bench.committed(1)
    snapshot = LogSnapshot(9, 3, BIRTH.configuration, size_bytes=size)
    installed = RaftSnapshot(1, snapshot, is_installed=True)
    bench.number += 1
    own = RaftSnapshot(1, LogSnapshot(1, 0, BIRTH.configuration, size_bytes=size))
    content = b"n" * size
    bench.store.post(RaftAppend(bench.raft, 1, bench.number, [installed], bench.ear, content))
    bench.store.post(RaftSnapshotTaken(own, b"o" * size, bench.ear))
    bench.broker.run()
    bench.broker.wait()
    assert isinstance(bench.ear.heard[-1], RaftSnapshotKept)
    assert bench.files.names("raft/1") == ([f"{9:020d}.snapshot"] if size > 3 else [])
    again = Bench(bench.files.crash())
    assert again.raft.table.contents == {1: content}
    assert again.raft.table.found[1].snapshot == snapshot


def sent(after: int, upto: int, entries: list[LogEntry]) -> LivePiece:
    """A piece with entries that the snapshot at 9 needs."""
    snapshot = LogSnapshot(9, 3, BIRTH.configuration, size_bytes=3, live_upto=7)
    return LivePiece(2, 1, 3, snapshot, after, upto, entries)


def test_what_a_leaders_snapshot_needs_counts_with_it_and_no_sooner() -> None:
    bench = Bench()
    bench.born(range(1, 2))
    entries = [LogEntry(index, 1, DATA, b"%d" % index) for index in (2, 3, 5, 7)]
    lost = sent(0, 3, entries[:1])
    pieces = [sent(0, 3, entries[:2]), sent(3, 7, entries[2:])]
    for piece in (lost, *pieces):
        bench.number += 1
        append = RaftAppend(bench.raft, 1, bench.number, [], bench.ear, pieces=[piece])
        bench.store.post(append)
        bench.broker.run()
        bench.broker.wait()
    assert bench.raft.table.groups[1].segments == ()
    halfway = Bench(bench.files.crash())
    assert halfway.raft.reading(1, [2, 3, 5, 7]) is None
    assert halfway.files.names("raft/1") == [], "a start has deleted what was staged"
    bench.number += 1
    installed = RaftSnapshot(1, pieces[0].snapshot, is_installed=True)
    bench.store.post(RaftAppend(bench.raft, 1, bench.number, [installed], bench.ear, b"new"))
    bench.broker.run()
    for each in (bench, Bench(bench.files.crash())):
        job = each.raft.reading(1, [2, 3, 5, 7])
        assert job is not None
        job.run(each.files)
        assert job.found == {entry.index: bytes(entry.data) for entry in entries}
        assert [*each.raft.table.groups[1].live.behind(0)] == [2, 3, 5, 7]
    assert len(bench.files.names("raft/1")) == 1, "the segment"


def test_who_lacks_what_a_snapshot_needs_is_sent_it_in_pieces() -> None:
    bench = Bench()
    bench.born(range(1, 2))
    entries = [LogEntry(index, 1, DATA, bytes(100)) for index in range(1, 8)]
    snapshot = LogSnapshot(9, 3, BIRTH.configuration, live_upto=7)
    installed = RaftSnapshot(1, snapshot, is_installed=True)
    pieces = [LivePiece(2, 1, 3, snapshot, 0, 7, entries)]
    bench.number += 1
    bench.store.post(RaftAppend(bench.raft, 1, bench.number, [installed], bench.ear, pieces=pieces))
    bench.broker.run()
    found: list[LogEntry] = []
    after = 0
    while after < 7:
        job = bench.raft.live_reading(1, snapshot, after, 400)
        assert job is not None
        job.run(bench.files)
        assert sum(entry.size_bytes for entry in job.entries) <= 400
        assert after < job.upto == job.entries[-1].index
        found += job.entries
        after = job.upto
    assert found == entries
    assert bench.raft.live_reading(1, BIRTH, 0, 400) is None, "an earlier snapshot"


@pytest.mark.parametrize("size", [3, SMALL_CONTENT_BYTES + 1], ids=["small", "large"])
def test_a_snapshot_of_a_group_that_is_gone_leaves_nothing(size: int) -> None:
    bench = Bench()
    bench.born(range(1, 2))
    bench.append(1, RaftGroupGone(1))
    late = RaftSnapshot(1, LogSnapshot(1, 0, BIRTH.configuration, size_bytes=size))
    bench.store.post(RaftSnapshotTaken(late, bytes(size), bench.ear))
    bench.broker.run()
    bench.broker.wait()
    assert bench.files.names("raft") == []


def test_segments_shrink_to_what_a_snapshot_still_needs() -> None:
    """One entry of each segment stays, of thousands of bytes."""
    bench = Bench(config=replace(TINY, raft=RaftConfig(segment_max_entries=8)))
    bench.born(range(1, 2))
    live: list[range] = []
    group = bench.raft.table.groups[1]
    for _ in range(12):
        rotate(bench, 1)
        needed = group.last_index - 2
        live.append(range(needed, needed + 1))
        snapshot = LogSnapshot(needed + 1, 0, BIRTH.configuration)
        record = RaftSnapshot(1, snapshot, live=(*live,))
        bench.store.post(RaftSnapshotTaken(record, b"", bench.ear))
        bench.broker.run()
        bench.broker.wait()
    rotate(bench, 1)
    files = bench.files
    size = sum(files.size(f"raft/1/{name}") for name in files.names("raft/1"))
    assert size < 0.6 * 1000 * group.last_index
    found = Bench(files.crash(), TINY)
    again = found.raft.table.groups[1]
    kept = {
        entry.index
        for segment in again.segments
        for entry in read_raft_segment(found.files, 1, segment).entries
    }
    kept |= {*again.held}
    assert {each.start for each in live} <= kept


class Kept:
    """Commands as a queue keeps them: objects that become bytes when they are written."""

    def __init__(self, *bodies: bytes) -> None:
        self.bodies = bodies
        self.asked = 0

    def __len__(self) -> int:
        return sum(map(len, self.bodies))

    def __bytes__(self) -> bytes:
        self.asked += 1
        return b"".join(self.bodies)


def test_an_entry_may_be_an_object_until_it_is_written() -> None:
    bench = Bench(config=TINY)
    member = Alone(bench, 1)
    bench.broker.run()
    member.elect()
    kept = Kept(b"one", b"and", b"another")
    member.propose(kept)
    assert kept.asked == 0, "Raft does not look into it"
    bench.broker.run()
    assert member.applied[0] is kept
    assert kept.asked == 1, "the journal has it once"
    for n in range(40):
        member.propose(b"%d" % n + bytes(200))
        bench.broker.run()
    assert kept.asked == 2, "and a segment"
    heir = Alone(Bench(bench.files.crash(), TINY), 1)
    heir.elect()
    assert heir.applied[0] == b"oneandanother"


BATCH = 100
BATCHES = 200
BODY_BYTES = 400
KEPT_PLACE = 57
"""Of each batch one message is never acknowledged."""


def one_of_each(first: int, last: int) -> LivePlaces:
    """What is needed of entries with a batch each."""
    places = LivePlaces()
    for index in range(first, last + 1):
        places.add(index, [range(KEPT_PLACE, KEPT_PLACE + 1)], BODY_BYTES)
    return places


def batch_at(index: int) -> Batch:
    head = bytes(11) + BODY_BYTES.to_bytes(8)
    bodies = (b"%4d/%4d" % (index, place) for place in range(BATCH))
    return batch_of([head + body.ljust(BODY_BYTES) for body in bodies])


def snapshot_of_one_of_each(bench: Bench, index: int) -> None:
    last = min(index, BATCHES)
    record = RaftSnapshot(1, LogSnapshot(index, 0, BIRTH.configuration), live=(range(1, last + 1),))
    bench.store.post(RaftSnapshotTaken(record, b"", bench.ear, one_of_each(1, last), trimmed))
    bench.broker.run()
    bench.broker.wait()


def test_one_message_of_each_batch_keeps_itself_and_not_the_batch() -> None:
    """All entries are live, and hardly anything of them is needed."""
    bench = Bench(config=TINY)
    bench.born(range(1, 2))
    for index in range(1, BATCHES + 1):
        data = encode_entry([enqueue_of(batch_at(index), ActorAddress(1, 1, 1), index, 1)])
        bench.append(1, RaftEntries(1, [LogEntry(index, 0, DATA, data)]))
        bench.broker.run()
        bench.committed(1)
        bench.broker.run()
        if index % 50 == 0:
            snapshot_of_one_of_each(bench, index)
    rotate(bench, 1)
    group = bench.raft.table.groups[1]
    snapshot_of_one_of_each(bench, group.commit)
    for _ in range(3):
        rotate(bench, 1)
    size = sum(segment.length for segment in group.segments)
    assert size - 1100 * (group.last_index - BATCHES) < 2 * BATCHES * BODY_BYTES
    there = {name for name in bench.files.names("raft/1") if name.endswith(".log")}
    assert there == {f"{segment.number:08d}.log" for segment in group.segments}, "others are gone"
    for again in (bench, Bench(bench.files.crash(), TINY)):
        job = again.raft.reading(1, [*range(1, BATCHES + 1)])
        assert job is not None
        job.run(again.files)
        assert (job.problem, job.is_stale, len(job.found)) == ("", False, BATCHES)
        for index, data in job.found.items():
            [placed] = bodies_of(data)
            content = placed.batch.contents[KEPT_PLACE - placed.first]
            assert content == batch_at(index).contents[KEPT_PLACE]
        assert sum(len(data) < 2 * BODY_BYTES for data in job.found.values()) > 0.9 * BATCHES
    assert Check(bench.files).run().findings == []


def test_what_is_guessed_wrong_is_not_rewritten_for_ever() -> None:
    """Bodies are said to be far smaller than they are: there is nothing to be gained."""
    bench = Bench(config=TINY)
    bench.born(range(1, 2))
    rotate(bench, 1)
    group = bench.raft.table.groups[1]
    for _ in range(5):
        snapshot_of_nothing_less(bench, group.commit)
        rotate(bench, 1)
    assert group.next_segment <= 4


def snapshot_of_nothing_less(bench: Bench, last: int) -> None:
    places = LivePlaces()
    for index in range(1, last + 1):
        places.add(index, [range(1)], 1)
    record = RaftSnapshot(1, LogSnapshot(last, 0, BIRTH.configuration), live=(range(1, last + 1),))
    taken = RaftSnapshotTaken(record, b"", bench.ear, places, lambda data, _: data)
    bench.store.post(taken)
    bench.broker.run()
    bench.broker.wait()


def test_damage_below_a_snapshot_silences_the_member_when_it_is_read() -> None:
    bench = Bench(config=replace(TINY, raft=RaftConfig(segment_max_entries=4)))
    bench.born(range(1, 2))
    rotate(bench, 1)
    group = bench.raft.table.groups[1]
    index = group.commit
    snapshot = LogSnapshot(index, 0, BIRTH.configuration)
    bench.store.post(
        RaftSnapshotTaken(RaftSnapshot(1, snapshot, live=(range(1, index + 1),)), b"", bench.ear)
    )
    bench.broker.run()
    bench.broker.wait()
    rotate(bench, 1)
    files = bench.files.crash()
    path = f"raft/1/{group.segments[0].number:08d}.log"
    changed = bytearray(files.content(path))
    changed[-20] ^= 1
    files.put(path, bytes(changed))
    assert [finding.path for finding in Check(files).run().findings] == [path]
    again = Bench(files, TINY)
    found = again.raft.table.groups[1]
    assert not found.is_amnesiac, "nobody has looked"
    job = again.raft.reading(1, [*range(1, index + 1)])
    assert job is not None
    job.run(files)
    assert job.problem.startswith(path)
    assert again.raft.reading(1, [1]) is not None
    assert found.is_amnesiac
    last = Bench(again.files.crash(), TINY)
    assert not last.raft.table.groups[1].is_amnesiac, "the checkpoint before does not know it"
    rotate(again, 1)
    assert Bench(again.files.crash(), TINY).raft.table.groups[1].is_amnesiac


def test_a_group_of_the_journal_has_so_many_appends() -> None:
    bench = Bench(config=replace(Config(), raft=RaftConfig(wal_max_batch_size=3)))
    bench.born(range(1, 9))
    before = bench.syncs()
    for group in range(1, 9):
        bench.entry(group)
    bench.broker.run()
    assert bench.syncs() - before >= 3
    assert [each.number for each in bench.ear.heard] == [*range(1, 17)]


def test_a_group_of_the_journal_has_so_many_bytes_of_appends() -> None:
    bench = Bench(config=replace(Config(), storage=StorageConfig(reserve_bytes=0)))
    bench.born(range(1, 8))
    sizes: list[int] = []
    original = bench.store.journal.group

    def group(parts: list[bytes]) -> GroupWrite:
        sizes.append(sum(map(len, parts)))
        return original(parts)

    bench.store.journal.group = group  # type: ignore[method-assign]
    for each in range(1, 7):
        bench.entry(each, 400_000)
    bench.entry(7, 3_000_000)
    bench.broker.run()
    assert len(bench.ear.heard) == 14
    assert max(sizes[:-1]) <= RAFT_GROUP_BYTES < sum(sizes) / 4
    assert sizes[-1] > 3_000_000, "one that is larger is alone"
