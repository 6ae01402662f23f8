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
from sluicemq.queues.settings import NO_SETTINGS
from sluicemq.raft.entry import DATA, LogEntry
from sluicemq.sim.raft.checkers import RaftCheckers
from sluicemq.sim.raft.promise import rule

if TYPE_CHECKING:
    from sluicemq.queues.mirrored.mirror import Mirror
    from sluicemq.raft.configuration import Configuration
    from sluicemq.sim.raft.port import CheckedMember
    from sluicemq.storage.entries import Run


class MirroredCheckers(RaftCheckers):
    """What one run is held to."""

    def __init__(self, birth: Configuration) -> None:
        super().__init__(birth)
        self.witnesses: set[int] = set()
        self.settings = NO_SETTINGS
        """Of the queue."""
        self.in_sync: dict[int, frozenset[int]] = {0: frozenset()}
        """The set after each entry, as far as any member has applied."""
        self.entries: dict[int, bytes] = {}
        """What is agreed on, by index."""
        self.last_id = 0
        self.place_of: dict[int, tuple[int, int, int]] = {}
        """By the id that is in a message: its position, the index of its entry, and the term."""
        self.id_at: dict[tuple[int, int, int], int] = {}
        """The other way round."""
        self.confirmed: set[int] = set()
        self.removing: set[int] = set()
        """Messages whose removal somebody has asked for; it may have come to nothing."""
        self.removed: set[int] = set()
        """Positions of messages that are agreed to be removed."""
        self.delivered: set[int] = set()
        self.served = 0
        """The newest term in which somebody has served."""
        self.happened |= dict.fromkeys(
            (
                "masters",
                "confirms",
                "drops",
                "joins",
                "held up",
                "handed over",
                "delivered",
                "flagged",
            ),
            0,
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
        self.entries[entry.index] = bytes(entry.data)
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

    def new_id(self) -> int:
        """Return what is in the next message."""
        self.last_id += 1
        return self.last_id

    def messages_of(self, mirror: Mirror) -> dict[int, int]:
        """Return the ids of all messages that a mirror has, by position."""
        return {
            position: self.id_at[position, run.index, self.term_of(run.index)]
            for run in mirror.runs()
            for part in run.positions
            for position in part
        }

    def writes(self, run: Run, index: int, term: int) -> None:
        """A master has these messages written in the entry at an index."""
        assert run.contents is not None
        for position, content in zip(run.positions, run.contents, strict=True):
            self.place_of[int(content)] = (position, index, term)
            self.id_at[position, index, term] = int(content)

    def removes(self, ids: set[int]) -> None:
        """A master wants it agreed on that messages have left the queue."""
        self.removing |= ids

    def serves(self, name: int, term: int, there: set[int]) -> None:
        """A member begins to serve clients, and has these messages."""
        self.happened["masters"] += 1
        rule(name not in self.witnesses, f"{name} is a witness, and serves")
        if term < self.served:
            return  # it does not know yet that it is not the one
        self.served = term
        lost = self.confirmed - self.removing - there
        rule(not lost, f"{name} serves, and lacks what was confirmed: {sorted(lost)[:3]}")
        again = self.removed & {self.place_of[each][0] for each in there}
        rule(not again, f"{name} serves, and has again what was removed: {sorted(again)[:3]}")

    def delivers(self, term: int, number: int, redelivered: bool) -> None:
        """The master of that term gives a message to a client. A lease has to keep one from that
        whose term is over, and there is none here."""
        self.happened["delivered"] += 1
        self.happened["flagged"] += redelivered
        if term >= self.served:
            is_new = number not in self.delivered
            rule(is_new or redelivered, f"message {number} comes again and is not flagged")
        self.delivered.add(number)

    def confirms(self, applied: int, ids: list[int]) -> None:
        """A master that has applied everything up to there says that messages are safe."""
        self.happened["confirms"] += 1
        for number in ids:
            _, index, term = self.place_of[number]
            is_agreed = index <= self.commit and self.term_of(index) == term
            rule(is_agreed, f"message {number} is confirmed and not agreed on")
            for name in self.in_sync[applied]:
                host = self.hosts[name]
                rule(
                    host.is_amnesiac or host.disk.platter.has(index, term),
                    f"message {number} is confirmed, and not on {name}, which is in sync",
                )
            self.confirmed.add(number)

    def holds_up(self, applied: int, mirrors: list[int]) -> None:
        """A master that has applied so much has its publishers wait for these mirrors."""
        self.happened["held up"] += len(mirrors)
        others = {*mirrors} - self.in_sync[applied]
        rule(not others, f"publishers wait for {sorted(others)}, which are not in sync")
