"""A member's process with its log in a real storage, and a state machine whose snapshots need
entries of that log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sluicemq.chain.store.raft_answers import RaftAppended, RaftRefused, RaftSnapshotKept
from sluicemq.chain.store.raft_storage import (
    RaftAppend,
    RaftCommitted,
    RaftSnapshotTaken,
    records_of,
)
from sluicemq.raft.messages import LivePiece, RaftMessage
from sluicemq.sim.raft.disk import RaftDisk, TakenSnapshot
from sluicemq.sim.raft.host import SETTINGS, SimMember
from sluicemq.sim.raft.live_register import LiveRegister, NeedyRegister
from sluicemq.sim.raft.promise import rule
from sluicemq.sim.raft.register import Register
from sluicemq.sim.raft.store_node import GROUP
from sluicemq.sim.raft.stored_disk import StoredDisk
from sluicemq.sim.units import MS
from sluicemq.storage.bits import ranges_of
from sluicemq.storage.raft.codec import RaftRecord, RaftSnapshot
from sluicemq.storage.raft.reading import RaftLiveRead

if TYPE_CHECKING:
    from sluicemq.raft.entry import LogEntry
    from sluicemq.raft.ready import RaftReady


class StoredMember(SimMember):
    """A member that differs in how its log is kept."""

    disk_type: Callable[[], RaftDisk] = StoredDisk
    register_type: type[Register] = LiveRegister
    settings = replace(SETTINGS, piece_bytes=160)
    disk: StoredDisk
    register: NeedyRegister

    # life

    def start(self) -> None:
        node = self.disk.start(self.events, self._heard, lambda: self.is_up and not self.is_paused)
        self.node = node
        self.is_amnesiac |= self.disk.is_damaged
        self.reading: dict[RaftLiveRead, LivePiece] = {}
        self.wanted: dict[int, LivePiece] = {}
        """By member, the last piece with entries to be sent to it."""
        self.written: dict[int, LogEntry] = {
            entry.index: entry for entry in self.disk.platter.entries
        } | self.disk.platter.live
        """Entries that the machine may need."""
        super().start()
        if node.group is None or not node.group.is_born:
            self._append(0, [RaftSnapshot(GROUP, self.disk.platter.snapshot)])

    def damage(self) -> None:
        """Lose something on the disk: all of it, or a byte of the journal."""
        files = self.disk.files
        journal = [path for path in sorted(files.durable) if path.startswith("journal/")]
        if len(journal) < 2 or self.events.chance(0.5):
            super().damage()
            return
        length = len(files.inodes[journal[-2]].durable)  # older ones may not be needed
        files.flip(journal[-2], self.events.random.randrange(length))

    def resume(self) -> None:
        super().resume()
        self.node.run()

    def pump(self) -> None:
        self.node.disk.delay_ns_max = int(self.sync_ms[1] * MS)
        super().pump()

    # to the storage

    def _append(
        self,
        number: int,
        records: list[RaftRecord],
        content: bytes = b"",
        pieces: tuple[LivePiece, ...] = (),
    ) -> None:
        store = self.node.store
        append = RaftAppend(
            store.raft, GROUP, number, records, self.node.ear, content, pieces=pieces
        )
        store.post(append)

    def _write(self, ready: RaftReady) -> None:
        self.disk.write(ready)
        pieces = (*(each for each in ready.pieces if isinstance(each, LivePiece)),)
        for piece in pieces:
            self.written |= {entry.index: entry for entry in piece.entries}
        self.written |= {entry.index: entry for entry in ready.entries}
        content = self.incoming if ready.install is not None else b""
        self._append(ready.number, records_of(GROUP, ready), content, pieces)

    def _apply(self, ready: RaftReady) -> None:
        if ready.committed or ready.install is not None:
            commit = self.raft.member.log.commit
            self.node.store.post(RaftCommitted(self.node.raft, GROUP, commit))
        super()._apply(ready)

    def _take_snapshot(self) -> None:
        index = self.applied
        live = sorted(self.register.live)
        rule(self.written.keys() >= {*live}, f"{self.name} needs again what it did not need before")
        content = self.register.content()
        snapshot = self.raft.snapshot_at(index, len(content), max(live, default=0))
        self.contents[snapshot] = content
        self.is_taking = True
        self.disk.taken = TakenSnapshot(snapshot, content, frozenset(live))
        ranges = ranges_of(sum(1 << each for each in live), 0)
        record = RaftSnapshot(GROUP, snapshot, live=(*ranges,))
        places = self.register.places({each: bytes(self.written[each].data) for each in live})
        self.written = {at: each for at, each in self.written.items() if at > index or at in live}
        with_places = (places, self.register.trim) if self.events.chance(0.6) else ()
        self.node.store.post(RaftSnapshotTaken(record, content, self.node.ear, *with_places))
        self.checkers.snapshot(self, snapshot)

    # from the storage

    def _heard(self, message: object) -> None:
        rule(not isinstance(message, RaftRefused), "the storage refuses an append")
        if isinstance(message, RaftAppended):
            self.do(lambda: self._appended(message.number))
        elif isinstance(message, RaftSnapshotKept):
            self.do(lambda: self._kept(message.index))
        elif isinstance(message, RaftLiveRead):
            self.do(lambda: self._live_read(message))

    def _appended(self, number: int) -> None:
        before = self.disk.platter.snapshot
        self.disk.appended(number)
        if self.disk.platter.snapshot != before:
            self.disk.check_live(self.node, self.disk.platter.live)
        if number:
            self.raft.synced(number)
        self._forget_contents()

    def _kept(self, index: int) -> None:
        self.is_taking = False
        snapshot = self.disk.kept(index)
        if snapshot is not None:
            self.raft.compact(snapshot)
            self.disk.check_live(self.node, self.disk.platter.live)
        self._forget_contents()

    def _forget_contents(self) -> None:
        pinned = {*self.raft.pinned()}
        if self.disk.taken is not None:
            pinned.add(self.disk.taken.snapshot)
        self.contents = {at: content for at, content in self.contents.items() if at in pinned}

    # entries that a snapshot needs

    def _send(self, message: RaftMessage) -> None:
        if not isinstance(message, LivePiece):
            super()._send(message)
            return
        self.wanted[message.to] = message
        job = self.node.raft.live_reading(
            GROUP, message.snapshot, message.after, self.settings.piece_bytes
        )
        if job is not None:
            self.reading[job] = message
            self.node.submit(job)

    def _live_read(self, job: RaftLiveRead) -> None:
        """Send entries that were read, unless the receiver wants others by now."""
        message = self.reading.pop(job)
        if self.wanted.get(message.to) is message and job.upto > message.after:
            del self.wanted[message.to]
            message.entries, message.upto = job.entries, job.upto
            super()._send(message)

    def check_log(self) -> None:
        self.disk.check_live(self.node, self.disk.platter.live)
