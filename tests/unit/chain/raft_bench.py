"""A whole node with files in memory, and somebody who appends for Raft groups."""

from __future__ import annotations

from dataclasses import replace

from sluicemq.chain.store.raft_answers import (
    RaftAppended,
    RaftRefused,
    RaftSettled,
    RaftSnapshotKept,
    RaftSnapshotWanted,
)
from sluicemq.chain.store.raft_storage import (
    RaftAppend,
    RaftCommitted,
)
from sluicemq.config import Config
from sluicemq.kernel.actor import Actor
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry import DATA, LogEntry
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.storage.raft.codec import RaftEntries, RaftRecord, RaftSnapshot
from support.files import DictFiles

from .client import Broker

BIRTH = LogSnapshot(0, 0, Configuration((1,)))
TINY = replace(Config(), storage=Config.tiny().storage)


class Ear(Actor):
    """Hears what became of appends."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker.node.scheduler)
        self.heard: list[RaftAppended | RaftRefused | RaftSnapshotKept] = []
        self.settled: dict[int, int] = {}
        """Of each group, up to where its log can be read."""
        self.wanted = 0
        """How often it was asked for a snapshot."""

    def receive(self, message: object) -> None:
        if isinstance(message, RaftSettled):
            self.settled[message.group] = message.top
            return
        if isinstance(message, RaftSnapshotWanted):
            self.wanted += 1
            return
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


def rotate(bench: Bench, group: int) -> None:
    """Write until the journal has gone on by three files and its checkpoints are done."""
    number = bench.store.journal.number
    while bench.store.journal.number < number + 3:
        bench.entry(group, 1000)
        bench.broker.run()
        bench.committed(group)
        bench.broker.run()
    bench.broker.wait()
