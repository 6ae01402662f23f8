"""Goal: what the simulation of Raft holds of a member's log in a storage is what the storage says.

Method: hand a storage snapshots, and look at its log whenever it says something.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluicemq.chain.store.raft_answers import RaftAppended, RaftSnapshotKept
from sluicemq.chain.store.raft_storage import (
    RaftAppend,
    RaftCommitted,
    RaftSnapshotTaken,
    records_of,
)
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry import DATA, LogEntry
from sluicemq.raft.ready import RaftReady
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.sim.raft.disk import TakenSnapshot
from sluicemq.sim.raft.events import Events
from sluicemq.sim.raft.promise import RuleBroken
from sluicemq.sim.raft.store_node import GROUP
from sluicemq.sim.raft.stored_disk import StoredDisk
from sluicemq.storage.raft.codec import RaftRecord, RaftSnapshot
from sluicemq.storage.raft.live_indexes import NOTHING_LIVE

BIRTH = LogSnapshot(0, 0, Configuration((1,)))
ENTRIES = [LogEntry(index, 1, DATA, b"%d" % index) for index in range(1, 5)]


class Member:
    """A member that takes a snapshot at 2, which needs entry 1, and is sent one at 4, which needs
    nothing."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.disk = StoredDisk()
        self.events = Events(1)
        self.node = self.disk.start(self.events, self.hear, lambda: True)
        self.append([RaftSnapshot(GROUP, BIRTH)], 1)
        self.hand_in(RaftReady(2, None, [], None, 0, ENTRIES, [], [], []))

    def append(self, records: list[RaftRecord], number: int) -> None:
        store = self.node.store
        store.post(RaftAppend(store.raft, GROUP, number, records, self.node.ear))

    def hand_in(self, ready: RaftReady) -> None:
        self.disk.write(ready)
        self.append(records_of(GROUP, ready), ready.number)

    def take(self) -> None:
        snapshot = replace(BIRTH, index=2, term=1, live_upto=1)
        self.disk.taken = TakenSnapshot(snapshot, b"", frozenset({1}))
        store = self.node.store
        store.post(RaftCommitted(store.raft, GROUP, 2))
        record = RaftSnapshot(GROUP, snapshot, live=(range(1, 2),))
        store.post(RaftSnapshotTaken(record, b"", self.node.ear))

    def is_sent(self) -> None:
        self.hand_in(RaftReady(3, None, [], replace(BIRTH, index=4, term=1), 0, [], [], [], []))

    def hear(self, message: object) -> None:
        self.heard.append(message)
        if isinstance(message, RaftAppended):
            self.disk.appended(message.number)
        elif isinstance(message, RaftSnapshotKept):
            self.disk.kept(message.index)
            self.disk.check_live(self.node, self.disk.platter.live)

    def go_on(self) -> None:
        while self.events.queue:
            self.events.step()


def test_what_only_an_overtaken_snapshot_needs_may_be_gone_when_its_owner_hears_of_it() -> None:
    member = Member()
    member.go_on()
    member.take()
    member.node.run()
    while member.node.raft.writing:
        member.events.step()
    member.is_sent()
    member.go_on()
    kinds = [type(each) for each in member.heard]
    assert kinds == [RaftAppended, RaftAppended, RaftSnapshotKept, RaftAppended]
    assert member.disk.platter.snapshot.index == 4


def test_what_a_snapshot_needs_must_be_there_while_the_storage_counts_on_it() -> None:
    member = Member()
    member.go_on()
    member.take()
    member.go_on()
    group = member.node.group
    assert group is not None
    member.disk.check_live(member.node, member.disk.platter.live)
    del group.held[1]
    group.live = NOTHING_LIVE
    with pytest.raises(RuleBroken, match="entry 1 is missing"):
        member.disk.check_live(member.node, member.disk.platter.live)
