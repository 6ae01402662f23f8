"""Goal: members of many groups share the journal and its sync with everything else, and cost
nothing while they are idle. Method: real members over a whole node with files in memory; writes,
syncs and looks are counted.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.connection import Acks
from sluicemq.chain.store import raft_storage
from sluicemq.chain.store.raft_storage import (
    RaftAppend,
    RaftAppended,
    RaftCommitted,
    RaftRefused,
    RaftSnapshotKept,
    RaftSnapshotTaken,
    records_of,
)
from sluicemq.config import Config
from sluicemq.kernel.actor import Actor
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry import DATA, LogEntry, LogSnapshot
from sluicemq.raft.member import Durable
from sluicemq.raft.raft import Raft
from sluicemq.raft.settings import RaftSettings
from sluicemq.storage.raft import group as group_module
from sluicemq.storage.raft.codec import RaftEntries, RaftGroupGone, RaftRecord, RaftSnapshot
from sluicemq.storage.raft.segment_file import read_raft_segment
from support.files import DictFiles

from .client import PERSISTENT, Broker

MANY = 2000
BIRTH = LogSnapshot(0, 0, Configuration((1,)))
TINY = replace(Config(), storage=Config.tiny().storage)


class Ear(Actor):
    """Hears what became of appends."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker.node.scheduler)
        self.heard: list[RaftAppended | RaftRefused | RaftSnapshotKept] = []

    def receive(self, message: object) -> None:
        assert isinstance(message, RaftAppended | RaftRefused | RaftSnapshotKept)
        self.heard.append(message)


class Bench:
    """A node, and somebody who appends for groups."""

    def __init__(self, files: DictFiles | None = None, config: Config | None = None) -> None:
        self.files = files or DictFiles()
        self.broker = Broker(config, self.files)
        self.broker.run()
        self.store = self.broker.node.broker.store
        self.raft = self.store.raft
        self.ear = Ear(self.broker)
        self.number = 0

    def append(self, group: int, *records: RaftRecord) -> None:
        self.number += 1
        self.store.post(RaftAppend(self.raft, group, self.number, [*records], self.ear))

    def born(self, groups: range) -> None:
        for group in groups:
            self.append(group, RaftSnapshot(group, BIRTH))
        self.broker.run()

    def entry(self, group: int, size: int = 10) -> None:
        last = self.raft.table.groups[group].last_index
        self.append(group, RaftEntries(group, [LogEntry(last + 1, 0, DATA, bytes(size))]))

    def committed(self, group: int) -> None:
        last = self.raft.table.groups[group].last_index
        self.store.post(RaftCommitted(self.raft, group, last))

    def syncs(self) -> int:
        return sum(action.startswith("sync journal/") for action in self.files.actions)


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


def rotate(bench: Bench, group: int) -> None:
    """Write until the journal has gone on by three files and its checkpoints are done."""
    number = bench.store.journal.number
    while bench.store.journal.number < number + 3:
        bench.entry(group, 1000)
        bench.broker.run()
        bench.committed(group)
        bench.broker.run()
    bench.broker.wait()


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


def test_a_group_that_is_gone_leaves_nothing() -> None:
    bench = Bench(config=TINY)
    bench.born(range(1, 2))
    rotate(bench, 1)
    assert bench.files.names("raft") == ["1"]
    bench.append(1, RaftGroupGone(1))
    bench.broker.run()
    assert bench.files.names("raft") == []
    assert bench.raft.states == {}
    assert Bench(bench.files.crash(), TINY).raft.table.groups == {}


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
        self.applied = [*bench.raft.table.contents.pop(group, b"").split()]
        self.taken: LogSnapshot | None = None

    def receive(self, message: object) -> None:
        if isinstance(message, RaftSnapshotKept):
            assert self.taken is not None
            self.raft.compact(self.taken)
            return
        assert isinstance(message, RaftAppended)
        self.raft.synced(message.number)

    def take_snapshot(self) -> None:
        content = b" ".join(self.applied)
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

    def propose(self, data: bytes) -> None:
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


def test_the_log_begins_behind_a_snapshot_that_is_durable() -> None:
    bench = Bench(config=TINY)
    member = Alone(bench, 1)
    bench.broker.run()
    member.elect()
    for n in range(60):
        member.propose(b"%d" % n)
        bench.broker.run()
        if n % 20 == 15:
            member.take_snapshot()
    log = member.raft.member.log
    assert log.snapshot == member.taken
    assert len(log.entries) < 10
    names = [name for name in bench.files.names("raft/1") if name.endswith(".snapshot")]
    assert names == [f"{log.snapshot.index:020d}.snapshot"]
    again = Bench(bench.files.crash(), TINY)
    heir = Alone(again, 1)
    assert heir.raft.member.log.snapshot == log.snapshot
    heir.elect()
    assert heir.applied == member.applied


def test_a_snapshot_that_a_leaders_has_overtaken_does_not_count() -> None:
    bench = Bench()
    bench.born(range(1, 2))
    bench.entry(1)
    bench.broker.run()
    bench.committed(1)
    snapshot = LogSnapshot(9, 3, BIRTH.configuration, size_bytes=3)
    installed = RaftSnapshot(1, snapshot, is_installed=True)
    bench.number += 1
    own = RaftSnapshot(1, LogSnapshot(1, 0, BIRTH.configuration, size_bytes=3))
    bench.store.post(RaftSnapshotTaken(own, b"old", bench.ear))
    bench.store.post(RaftAppend(bench.raft, 1, bench.number, [installed], bench.ear, b"new"))
    bench.broker.run()
    bench.broker.wait()
    assert isinstance(bench.ear.heard[-1], RaftSnapshotKept)
    assert bench.files.names("raft/1") == [f"{9:020d}.snapshot"]
    again = Bench(bench.files.crash())
    assert again.raft.table.contents == {1: b"new"}
    assert again.raft.table.found[1].snapshot == snapshot


def test_a_snapshot_of_a_group_that_is_gone_leaves_nothing() -> None:
    bench = Bench()
    bench.born(range(1, 2))
    bench.append(1, RaftGroupGone(1))
    late = RaftSnapshot(1, LogSnapshot(1, 0, BIRTH.configuration, size_bytes=3))
    bench.store.post(RaftSnapshotTaken(late, b"old", bench.ear))
    bench.broker.run()
    bench.broker.wait()
    assert bench.files.names("raft") == []


def test_segments_shrink_to_what_a_snapshot_still_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry of each segment stays, of thousands of bytes."""
    for module in (group_module, raft_storage):
        monkeypatch.setattr(module, "RAFT_SEGMENT_ENTRIES", 8)
    bench = Bench(config=TINY)
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
