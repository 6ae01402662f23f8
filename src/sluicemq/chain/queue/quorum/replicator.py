"""The replicator of a quorum queue: Raft over the message store's journal."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.chain.queue.group.entry_kind import EntryKind
from sluicemq.chain.store.raft_answers import RaftAppended, RaftSettled
from sluicemq.queues.quorum.commands import FifoCommand
from sluicemq.queues.quorum.effects import FifoDeleted, FifoEffect
from sluicemq.queues.quorum.entry_content import (
    EntryContent,
    FifoCodec,
    content_of,
    trimmed_entry,
)
from sluicemq.queues.quorum.snapshot import MACHINE_VERSION
from sluicemq.replication.majority import Majority

if TYPE_CHECKING:
    from sluicemq.chain.queue.group.member_log import GroupLog
    from sluicemq.chain.queue.quorum.entry_bodies import EntryBodies
    from sluicemq.kernel.world import Clock
    from sluicemq.queues.quorum.fifo import Fifo
    from sluicemq.raft.entry import LogEntry
    from sluicemq.raft.raft import Raft
    from sluicemq.replication.state_owner import StateOwner

CODEC: Final = FifoCodec()
QUORUM_ENTRIES: Final = EntryKind(content=content_of, trim=trimmed_entry, version=MACHINE_VERSION)


class FifoReplicator(Majority[FifoCommand, FifoEffect]):
    """Applies committed entries to a Fifo, and keeps the bodies that they bring."""

    __slots__ = ("_fifo", "bodies", "is_stirred")

    def __init__(
        self,
        fifo: Fifo,
        effects: list[FifoEffect],
        owner: StateOwner[FifoCommand],
        raft: Raft,
        log: GroupLog,
        bodies: EntryBodies,
        clock: Clock,
    ) -> None:
        super().__init__(fifo, effects, owner, raft, log, CODEC, clock)
        self._fifo = fifo
        self.bodies = bodies
        self.is_stirred = False
        """Something has happened to the member in this turn that it has not acted on."""

    def synced(self, number: int) -> None:
        """Note that the append of that number, and all before it, are durable. The consequences
        follow at the end of the turn, with the commands gathered until then."""
        self.raft.synced(number)
        self.is_stirred = True

    def turn_ended(self) -> None:
        """Do the member's work, if something has happened to it; the owner decides when entries are
        made."""
        if self.is_stirred:
            self.is_stirred = False
            self.pump()

    def receive(self, message: object) -> bool:
        if isinstance(message, RaftAppended):
            if not self.is_closed:
                self.synced(message.number)
            return True
        if isinstance(message, RaftSettled):
            self.bodies.were_stored(message.top)
            self.let_go(message.top)
            return True
        return super().receive(message)

    def committed(self, entry: LogEntry) -> None:
        super().committed(entry)
        self.keep_bodies(entry)

    def carry_out_entry(self, index: int, stamp_ms: int, commands: list[FifoCommand]) -> None:
        """Apply the commands of an entry. None of a Fifo has a rest, so that they need not wait for
        one another; at a fault those behind it are still known."""
        fifo = self._fifo
        if self.machine is not fifo:
            super().carry_out_entry(index, stamp_ms, commands)
            return
        assert self.current is None, "entries are applied after the end, or within another one"
        owner = self._owner()
        assert owner is not None, "a replicator without its owner"
        effects = self.effects
        fifo.entered(index, stamp_ms)
        begun = 0
        try:
            for command in commands:
                begun += 1
                self.current = command
                fifo.apply(command, effects)
                if begun == len(commands):
                    fifo.entry_ended(effects)
                self.current = None
                owner.applied(command)
        except Exception:
            self.waiting = deque(commands[begun:])
            raise

    def replay(self, entry: LogEntry) -> None:
        """Apply an entry of an earlier life. A deletion in it has still to be carried out."""
        fifo = self._fifo
        was_deleted = fifo.is_deleted
        super().replay(entry)
        self.keep_bodies(entry)
        if fifo.is_deleted and not was_deleted:
            self.effects.append(FifoDeleted(None, 0))

    def keep_bodies(self, entry: LogEntry) -> None:
        """Keep an entry that was just decoded if it has messages to deliver."""
        content = entry.data
        assert isinstance(content, EntryContent), "entries are wrapped when they come"
        content.was_written()
        if content.messages:
            self.bodies.add(entry.index, content)

    def let_go(self, top: int) -> None:
        """Drop the bytes of entries up to an index that are on the disk and not kept for delivery.
        Entries found at the start may be on the disk and not applied yet: they stay."""
        keeps = self.bodies.keeps
        top = min(top, self.raft.applied)
        for entry in self.raft.member.log.entries:
            if entry.index > top:
                break
            content = entry.data
            if isinstance(content, EntryContent) and not keeps(entry.index):
                content.let_go()
