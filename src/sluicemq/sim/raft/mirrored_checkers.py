"""What a mirrored queue promises, beside what Raft does, seen by somebody who sees all members.

confirms     what is confirmed is on the disks of all of the in-sync set, and whoever serves later
             has it, unless it was removed
removals     what is agreed to be removed never comes again
flags        what has been delivered comes again flagged
mastership   who serves has all that was agreed on, and is no witness
credit       nobody waits for a mirror that is not in the set
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.queues.mirrored.command_codec import decode_entry
from sluicemq.queues.mirrored.commands import (
    BeginMastership,
    DropMirror,
    JoinMirror,
    RemoveMessages,
)
from sluicemq.raft.entry import DATA, LogEntry
from sluicemq.sim.raft.checkers import RaftCheckers
from sluicemq.sim.raft.promise import rule

if TYPE_CHECKING:
    from sluicemq.raft.configuration import Configuration
    from sluicemq.sim.raft.mirror_message import MirrorMessage
    from sluicemq.sim.raft.port import CheckedMember


class MirroredCheckers(RaftCheckers):
    """What one run is held to."""

    def __init__(self, birth: Configuration) -> None:
        super().__init__(birth)
        self.witnesses: set[int] = set()
        self.in_sync: dict[int, frozenset[int]] = {0: frozenset()}
        """The set after each entry, as far as any member has applied."""
        self.confirmed: set[MirrorMessage] = set()
        self.removing: set[MirrorMessage] = set()
        """Messages whose removal somebody has asked for; it may have come to nothing."""
        self.removed: set[int] = set()
        """Positions of messages that are agreed to be removed."""
        self.delivered: set[MirrorMessage] = set()
        self.served = 0
        """The newest term in which somebody has served."""
        self.happened |= dict.fromkeys(
            ("masters", "confirms", "drops", "joins", "held up", "handed over", "flagged"), 0
        )

    def term_of(self, index: int) -> int:
        """The term of what is committed at that index."""
        return self.committed[index][0]

    def applied(self, host: CheckedMember, entry: LogEntry) -> None:
        if entry.index not in self.in_sync:
            self._first_applied(entry)
        super().applied(host, entry)

    def _first_applied(self, entry: LogEntry) -> None:
        members = self.in_sync[entry.index - 1]
        for command in decode_entry(bytes(entry.data)) if entry.kind == DATA else []:
            if isinstance(command, BeginMastership):
                members |= {command.member}
            elif isinstance(command, JoinMirror):
                self.happened["joins"] += 1
                members |= {command.member}
            elif isinstance(command, DropMirror):
                self.happened["drops"] += 1
                members -= {command.member}
            elif isinstance(command, RemoveMessages):
                self.removed |= {each for part in command.positions for each in part}
        self.in_sync[entry.index] = members

    # what masters do

    def serves(self, name: int, term: int, there: set[MirrorMessage]) -> None:
        """A member begins to serve clients, and has these messages."""
        self.happened["masters"] += 1
        rule(name not in self.witnesses, f"{name} is a witness, and serves")
        if term < self.served:
            return  # it does not know yet that it is not the one
        self.served = term
        lost = self.confirmed - self.removing - there
        rule(not lost, f"{name} serves, and lacks what was confirmed: {sorted(lost)[:3]}")
        again = self.removed & {each.position for each in there}
        rule(not again, f"{name} serves, and has again what was removed: {sorted(again)[:3]}")

    def delivers(self, term: int, message: MirrorMessage, redelivered: bool) -> None:
        """The master of that term gives a message to a consumer. A lease has to keep one from that
        whose term is over, and there is none here."""
        self.happened["flagged"] += redelivered
        if term >= self.served:
            is_new = message not in self.delivered
            rule(is_new or redelivered, f"{message} comes again and is not flagged")
        self.delivered.add(message)

    def removes(self, message: MirrorMessage) -> None:
        """A master wants it agreed on that a message has left the queue."""
        self.removing.add(message)

    def confirms(self, applied: int, messages: list[MirrorMessage]) -> None:
        """A master that has applied everything up to there says that messages are safe."""
        self.happened["confirms"] += 1
        for message in messages:
            _, index, term = message
            rule(
                index <= self.commit and self.term_of(index) == term, f"{message} is not agreed on"
            )
            for name in self.in_sync[applied]:
                host = self.hosts[name]
                rule(
                    host.is_amnesiac or host.disk.platter.has(index, term),
                    f"{message} is confirmed, and {name}, which is in sync, does not have it",
                )
            self.confirmed.add(message)

    def holds_up(self, applied: int, mirrors: list[int]) -> None:
        """A master that has applied so much has its publishers wait for these mirrors."""
        self.happened["held up"] += len(mirrors)
        others = {*mirrors} - self.in_sync[applied]
        rule(not others, f"publishers wait for {sorted(others)}, which are not in sync")
