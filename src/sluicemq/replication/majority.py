"""Replication by Raft: a command is applied once a majority of the members has it on disk.

    submit ... turn_ended --one entry--> raft --append--> disk of this member, other members
    owner's inbox: an append is durable, a member answers --> synced, receive: apply commits

The commands of a turn form one entry, unless they are large. The log's owner calls `synced`.
Commands wait while this member does not lead, or while too much is uncommitted; the owner checks
`unagreed_bytes` and lets publishers wait, too.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.compiling import mypyc_attr
from sluicemq.limits import RAFT_APPEND_BYTES
from sluicemq.raft.entry import DATA
from sluicemq.raft.member import FOLLOWER, LEADER
from sluicemq.raft.messages import RaftMessage
from sluicemq.replication.replicator import C, E, Replicator, Role
from sluicemq.replication.state_owner import StateOwner

if TYPE_CHECKING:
    from sluicemq.kernel.machine import Replicated
    from sluicemq.kernel.world import Clock
    from sluicemq.raft.entry import LogEntry
    from sluicemq.raft.raft import Raft
    from sluicemq.raft.snapshot import LogSnapshot
    from sluicemq.replication.entry_codec import EntryCodec
    from sluicemq.replication.member_log import MemberLog

COMMANDS_MAX: Final = 10_000
"""The most commands in one entry, whose effects are the work of one turn."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Majority(Replicator[C, E]):
    """Proposes commands to the members of a Raft group. A leader stamps its entries with the time
    of `clock`."""

    __slots__ = (
        "_clock",
        "_entries",
        "_left",
        "_log",
        "codec",
        "former_index",
        "gathered",
        "gathered_bytes",
        "proposed",
        "raft",
        "unagreed_bytes",
    )

    machine: Replicated[C, E]

    def __init__(
        self,
        machine: Replicated[C, E],
        effects: list[E],
        owner: StateOwner[C],
        raft: Raft,
        log: MemberLog,
        codec: EntryCodec[C],
        clock: Clock,
    ) -> None:
        super().__init__(machine, effects, owner)
        self.raft = raft
        self.codec = codec
        self._log = log
        self._clock = clock
        self.gathered: list[C] = []
        """Submitted commands that are in no entry yet."""
        self.gathered_bytes = 0
        self.proposed: deque[tuple[int, int, list[C]]] = deque()
        """This member's uncommitted entries: index, bytes and commands."""
        self.unagreed_bytes = 0
        """The weight of all submitted commands that are not committed."""
        self.former_index = raft.member.log.last_index
        """Entries up to here are of earlier lives: their effects were made real then, or never will
        be."""
        self._entries: deque[tuple[int, int, int]] = deque()
        """Committed entries of which no command was applied: index, time, and number of
        commands."""
        self._left = 0
        """The remaining commands of the entry that is being applied."""

    # -- what the owner calls

    def submit(self, command: C) -> None:
        assert not self.is_closed, "a command comes after the end"
        weight = self.codec.weigh(command)
        self.gathered.append(command)
        self.gathered_bytes += weight
        self.unagreed_bytes += weight

    def last_gathered(self) -> C | None:
        """Return the command submitted last, if it is in no entry yet: it may be
        extended (`grew`).
        """
        return self.gathered[-1] if self.gathered else None

    def grew(self, weight: int) -> None:
        """Add the bytes by which the last command has grown."""
        self.gathered_bytes += weight
        self.unagreed_bytes += weight

    def receive(self, message: object) -> bool:
        if not isinstance(message, RaftMessage):
            return False
        self.raft.step(message)
        self.pump()
        return True

    def synced(self, number: int) -> None:
        """Note that the append of that number, and all before it, are durable."""
        self.raft.synced(number)
        self.pump()

    def turn_ended(self) -> None:
        if self.gathered and self.raft.takes_proposals:
            self.propose()
            self.pump()

    def role(self) -> Role:
        role = self.raft.member.role
        if role == LEADER:
            return "leader"
        return "follower" if role == FOLLOWER else "candidate"

    def figures(self) -> dict[str, int]:
        log = self.raft.member.log
        proposed = sum(len(commands) for _, _, commands in self.proposed)
        waiting = len(self.waiting) + (self.current is not None)
        return {
            "pending": len(self.gathered) + proposed + waiting,
            "term": self.raft.member.term,
            "last_index": log.last_index,
            "commit_index": log.commit,
            "snapshot_index": log.snapshot.index,
        }

    def close(self) -> list[C]:
        left = self.undone()
        for _, _, commands in self.proposed:
            left += commands
        left += self.gathered
        self.proposed.clear()
        self.gathered = []
        return left

    # -- entries

    def drop_proposals(self) -> None:
        """Forget uncommitted commands: this member leads no more, so they get lost or are committed
        by the next leader."""
        self.gathered = []
        self.proposed.clear()
        self.gathered_bytes = self.unagreed_bytes = 0

    def propose(self) -> None:
        """Make entries of the gathered commands, as many as may be uncommitted."""
        while self.gathered and self.raft.takes_proposals:
            count, size = self.fitting()
            commands, self.gathered = self.gathered[:count], self.gathered[count:]
            self.gathered_bytes -= size
            index = self.raft.propose(self.codec.encode(commands, self._clock.wall_ms()))
            assert index, "a leader that takes proposals has taken one"
            self.proposed.append((index, size, commands))

    def fitting(self) -> tuple[int, int]:
        """Return the number of gathered commands that go in the next entry, and their weight."""
        if self.gathered_bytes <= RAFT_APPEND_BYTES and len(self.gathered) <= COMMANDS_MAX:
            return len(self.gathered), self.gathered_bytes
        size = count = 0
        for command in self.gathered[:COMMANDS_MAX]:
            weight = self.codec.weigh(command)
            if count and size + weight > RAFT_APPEND_BYTES:
                break
            size += weight
            count += 1
        return count, size

    def pump(self) -> None:
        """Do the member's work, and apply committed entries."""
        ready = self.raft.ready()
        if ready.number:
            self._log.write(ready)
        if ready.install is not None:
            self.installed(ready.install)
        if ready.messages:
            self._log.send(ready.messages)
        if ready.committed:
            self._log.committed(ready.committed[-1].index)
            for entry in ready.committed:
                if entry.kind == DATA:
                    is_new = entry.index > self.former_index
                    (self.committed if is_new else self.replay)(entry)

    def installed(self, snapshot: LogSnapshot) -> None:
        """Replace the machine's state by a leader's snapshot, which the log already has; none of
        this member's proposals will be committed any more."""
        raise NotImplementedError

    def replay(self, entry: LogEntry) -> None:
        """Apply the commands of an entry of an earlier life to the state, without effects."""
        machine = self.machine
        effects: list[E] = []
        stamp_ms, commands = self.codec.decode(entry.data)
        machine.entered(entry.index, stamp_ms)
        for command in commands:
            machine.apply(command, effects)
            assert machine.rest is None, "what takes long is not replayed"
        machine.entry_ended(effects)

    def committed(self, entry: LogEntry) -> None:
        """Apply the commands of an entry, behind those that wait for a long one."""
        if self.proposed and self.proposed[0][0] == entry.index:
            self.unagreed_bytes -= self.proposed.popleft()[1]
        stamp_ms, commands = self.codec.decode(entry.data)
        if commands:
            self.carry_out_entry(entry.index, stamp_ms, commands)

    def carry_out_entry(self, index: int, stamp_ms: int, commands: list[C]) -> None:
        """Apply the commands of an entry, of which there is at least one."""
        self._entries.append((index, stamp_ms, len(commands)))
        self.all_agreed(commands)

    def carry_out(self, command: C) -> None:
        if not self._left:
            index, stamp_ms, self._left = self._entries.popleft()
            self.machine.entered(index, stamp_ms)
        self._left -= 1
        super().carry_out(command)
        if not self._left:
            self.machine.entry_ended(self.effects)
