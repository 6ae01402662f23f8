"""A member's process: a Raft, its disk, its register, and the clients' open operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sluicemq.raft.entry import DATA, LogEntry
from sluicemq.raft.messages import RaftMessage, SnapshotPiece
from sluicemq.raft.raft import Raft
from sluicemq.raft.ready import NOTHING, RaftReady, Read
from sluicemq.raft.settings import RaftSettings
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.sim.raft.disk import RaftDisk, TakenSnapshot
from sluicemq.sim.raft.port import CheckedMember
from sluicemq.sim.raft.register import Register

if TYPE_CHECKING:
    from sluicemq.sim.raft.checkers import RaftCheckers
    from sluicemq.sim.raft.events import Events
    from sluicemq.sim.raft.net import RaftNet

SETTINGS = RaftSettings(
    election_ticks=8,
    stagger_ticks=2,
    heartbeat_ticks=2,
    quiet_ticks=6,
    append_entries=3,
    append_bytes=300,
    in_flight_entries=8,
    in_flight_bytes=700,
    uncommitted_entries=24,
    piece_bytes=24,
    promote_lag_entries=6,
)
"""So small that every bound is reached."""

TICK_MS = 5


class SimMember(CheckedMember):
    """A member that starts, runs, freezes, crashes and restarts. Messages to a frozen member wait;
    messages to one that is down are lost."""

    disk_type: Callable[[], RaftDisk] = RaftDisk
    register_type: type[Register] = Register
    settings = SETTINGS

    def __init__(
        self, name: int, disk: RaftDisk, events: Events, net: RaftNet, checkers: RaftCheckers
    ) -> None:
        self.name = name
        self.disk = disk
        self.events = events
        self.net = net
        self.checkers = checkers
        self.version = 1
        self.life = 0
        """Grows with every start, so that events of an earlier life can be told apart."""
        self.is_up = False
        self.is_paused = False
        self.is_amnesiac = False
        self.postponed: list[Callable[[], object]] = []
        self.snapshot_every = 20
        self.sync_ms = (0.5, 3.0)
        self.start()

    # life

    def start(self) -> None:
        """Start with the content of the disk."""
        self.life += 1
        self.is_up = True
        durable = self.disk.platter.durable()
        self.raft = Raft(
            self.name,
            durable,
            self.settings,
            self.version,
            self.events.random.randrange,
            is_amnesiac=self.is_amnesiac,
        )
        self.register = self.register_type()
        self.register.restore(self.disk.platter.content)
        self.applied = durable.snapshot.index
        self.contents = {durable.snapshot: self.disk.platter.content}
        """The contents of pinned snapshots."""
        self.incoming = b""
        self.is_taking = False
        """A snapshot is being written to the disk."""
        self.proposed: dict[int, tuple[int, Callable[[], None]]] = {}
        """By index, the term and the function to call when the entry is applied."""
        self.reads: list[Read] = []
        self.raft.member.lost = {
            *(other for pair in self.net.links for other in pair if self._is_cut_off(other))
        }
        self.checkers.started(self)
        self._tick_later(self.life)

    def _is_cut_off(self, other: int) -> bool:
        return other != self.name and not self.net.is_linked(self.name, other)

    def crash(self) -> None:
        """Lose everything that is in memory."""
        lost = self.disk.crash(self.events.random)
        self.is_up = False
        self.is_paused = False
        self.postponed = []
        self.events.note(f"{self.name} crashes and loses {lost} records")

    def damage(self) -> None:
        """Lose the content of the disk, which the next start detects."""
        self.is_amnesiac = True
        self.disk = self.disk_type()
        self.checkers.started(self)

    def check_log(self) -> None:
        """Check that the log has everything that the newest snapshot needs."""

    def do(self, action: Callable[[], object]) -> None:
        """Do it now, or when this member moves again."""
        if not self.is_up:
            return
        if self.is_paused:
            self.postponed.append(action)
        else:
            action()
            self.pump()

    def resume(self) -> None:
        """Let the member move again. The messages that came meanwhile arrive in no order."""
        self.is_paused = False
        postponed, self.postponed = self.postponed, []
        self.events.random.shuffle(postponed)
        for action in postponed:
            self.do(action)

    def hear(self, message: RaftMessage) -> None:
        """Handle a message, now or when this member moves again."""
        if self.is_up and not self.is_paused:
            self.raft.step(message)
            self.pump()
        else:
            self.do(lambda: self.raft.step(message))

    def _tick_later(self, life: int) -> None:
        events, raft = self.events, self.raft

        def tick() -> None:
            if self.life == life and self.is_up:
                if not self.is_paused:
                    raft.tick()
                    self.pump()
                events.after(TICK_MS * events.between(0.9, 1.1), tick)

        events.after(TICK_MS * events.between(0.9, 1.1), tick)

    # operations of clients

    def write(self, data: bytes, done: Callable[[], None]) -> bool:
        """Propose a write; `done` is called when it is applied here, if it ever is."""
        index = self.raft.propose(data)
        if index:
            self.proposed[index] = (self.raft.member.term, done)
            self.pump()
        return index != 0

    def read(self, done: Callable[[], None]) -> bool:
        """Call `done` when the register may be read."""
        taken = self.raft.read(done)
        if taken:
            self.pump()
        return taken

    # what Raft wants done

    def pump(self) -> None:
        """Do everything that Raft wants done."""
        ready = self.raft.ready()
        self.checkers.look(self, ready)
        if ready is not NOTHING:
            self._carry_out(ready)
        is_due = self.applied - self.raft.member.log.snapshot.index >= self.snapshot_every
        if is_due and not self.is_taking and self.applied <= self.raft.snapshot_index_max:
            self._take_snapshot()
        if self.disk.waiting:
            self._sync()

    def _carry_out(self, ready: RaftReady) -> None:
        for piece in ready.pieces:
            if isinstance(piece, SnapshotPiece):
                self.incoming = self.incoming[: piece.offset] + piece.content
        if ready.number:
            self._write(ready)
        if ready.install is not None:
            self._install(ready.install)
        for message in ready.messages:
            self._send(message)
        if ready.committed or ready.install is not None or ready.reads or self.reads:
            self._apply(ready)

    def _write(self, ready: RaftReady) -> None:
        self.disk.write(ready)

    def _send(self, message: RaftMessage) -> None:
        if isinstance(message, SnapshotPiece):
            content = self.contents.get(message.snapshot)
            assert content is not None, "a snapshot that is being sent must stay"
            message.content = content[message.offset : message.offset + message.size]
        self.checkers.says(self, message)
        self.net.send(message)

    def _install(self, snapshot: LogSnapshot) -> None:
        self.register.restore(self.incoming)
        self.contents[snapshot] = self.incoming
        self.applied = snapshot.index
        self.proposed = {at: each for at, each in self.proposed.items() if at > snapshot.index}
        self.events.note(f"{self.name} has the snapshot at {snapshot.index} put in")
        self.checkers.installed(self, snapshot)

    def _apply(self, ready: RaftReady) -> None:
        for entry in ready.committed:
            assert entry.index == self.applied + 1, "entries are applied one after the other"
            self.applied = entry.index
            if entry.kind == DATA:
                self.register.apply(bytes(entry.data), entry.index)
            self.checkers.applied(self, entry)
            self._tell(entry)
        self.reads += ready.reads
        due = [read for read in self.reads if read.index <= self.applied]
        self.reads = [read for read in self.reads if read.index > self.applied]
        for read in due:
            assert callable(read.context)
            read.context()

    def _tell(self, entry: LogEntry) -> None:
        if entry.index in self.proposed:
            term, done = self.proposed.pop(entry.index)
            if term == entry.term:
                done()

    def _take_snapshot(self) -> None:
        content = self.register.content()
        snapshot = self.raft.snapshot_at(self.applied, len(content))
        self.contents[snapshot] = content
        self.is_taking = True
        self.disk.waiting.append((self.raft.member.number, TakenSnapshot(snapshot, content)))
        self.checkers.snapshot(self, snapshot)

    def _sync(self) -> None:
        if self.disk.begin_sync():
            life = self.life

            def end() -> None:
                if self.life == life and self.is_up:
                    self.do(self._synced)

            self.events.after(self.events.between(*self.sync_ms), end)

    def _synced(self) -> None:
        number, taken = self.disk.end_sync()
        self.raft.synced(number)
        for snapshot in taken:
            self.is_taking = False
            self.raft.compact(snapshot)
        pinned = {*self.raft.pinned()}
        waiting = {
            record.snapshot for _, record in self.disk.waiting if isinstance(record, TakenSnapshot)
        }
        self.contents = {
            snapshot: content
            for snapshot, content in self.contents.items()
            if snapshot in pinned or snapshot in waiting
        }
