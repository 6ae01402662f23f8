"""The promises of a mirrored queue beside those of Raft, checked with a view of all members.

confirms     a confirmed message is on the disks of the whole in-sync set, and every later master
             has it, unless it was removed; or it was delivered, and left the queue, before that
removals     a message whose removal is committed never comes again
flags        a delivered message comes again only flagged
mastership   a master has everything committed, and is no witness
credit       no publisher waits for a mirror that is not in the set
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
    """Checks the promises for one run."""

    def __init__(self, birth: Configuration) -> None:
        super().__init__(birth)
        self.witnesses: set[int] = set()
        self.settings = NO_SETTINGS
        """The settings of the queue."""
        self.in_sync: dict[int, frozenset[int]] = {0: frozenset()}
        """The in-sync set after each entry, as far as any member has applied."""
        self.entries: dict[int, bytes] = {}
        """The committed entries by index."""
        self.last_id = 0
        self.place_of: dict[int, tuple[int, int, int]] = {}
        """By the id in a message: its position, the index of its entry, and the term."""
        self.id_at: dict[tuple[int, int, int], int] = {}
        """The inverse of `place_of`."""
        self.confirmed: set[int] = set()
        self.removing: set[int] = set()
        """Messages that some master wanted removed, perhaps in vain."""
        self.overtaken: set[int] = set()
        """Messages that left a master's queue before they were in an entry."""
        self.removed: set[int] = set()
        """Positions of messages whose removal is committed."""
        self.delivered: set[int] = set()
        self.served = 0
        """The newest term in which a member has served."""
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
                "overtaken",
            ),
            0,
        )

    def term_of(self, index: int) -> int:
        """Return the term of the committed entry at that index."""
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

    # acts of masters

    def new_id(self) -> int:
        """Return the content of the next message."""
        self.last_id += 1
        return self.last_id

    def messages_of(self, mirror: Mirror) -> dict[int, int]:
        """Return the ids of all messages of a mirror, by position."""
        return {
            position: self.id_at[position, run.index, self.term_of(run.index)]
            for run in mirror.runs()
            for part in run.positions
            for position in part
        }

    def writes(self, run: Run, index: int, term: int) -> None:
        """Note that a master has these messages written in the entry at an index."""
        assert run.contents is not None
        for position, content in zip(run.positions, run.contents, strict=True):
            self.place_of[int(content)] = (position, index, term)
            self.id_at[position, index, term] = int(content)

    def removes(self, ids: set[int]) -> None:
        """Note that a master wants the removal of these messages committed."""
        self.removing |= ids

    def overtakes(self, ids: set[int]) -> None:
        """Note that these messages have left a master's queue and will never be in an entry."""
        self.overtaken |= ids
        self.removing |= ids
        self.happened["overtaken"] += len(ids)

    def serves(self, name: int, term: int, there: set[int]) -> None:
        """Check a member that begins to serve clients and has these messages."""
        self.happened["masters"] += 1
        rule(name not in self.witnesses, f"{name} is a witness, and serves")
        if term < self.served:
            return  # it does not know yet that it has been replaced
        self.served = term
        lost = self.confirmed - self.removing - there
        rule(not lost, f"{name} serves, and lacks what was confirmed: {sorted(lost)[:3]}")
        again = self.removed & {self.place_of[each][0] for each in there}
        rule(not again, f"{name} serves, and has again what was removed: {sorted(again)[:3]}")
        again = self.overtaken & there
        rule(not again, f"{name} serves, and has what had gone before: {sorted(again)[:3]}")

    def delivers(self, term: int, number: int, redelivered: bool) -> None:
        """Check a delivery by the master of that term. A lease has to prevent deliveries after a
        term has ended, and there is none here."""
        self.happened["delivered"] += 1
        self.happened["flagged"] += redelivered
        if term >= self.served:
            is_new = number not in self.delivered
            rule(is_new or redelivered, f"message {number} comes again and is not flagged")
        self.delivered.add(number)

    def confirms(self, applied: int, ids: list[int], undelivered: set[int]) -> None:
        """Check the confirms of a master that has applied everything up to that index, and has not
        made some deliveries yet."""
        self.happened["confirms"] += 1
        for number in ids:
            self.confirmed.add(number)
            if number in self.overtaken:
                is_out = number not in undelivered
                rule(is_out, f"message {number} is confirmed, nowhere, and not delivered")
                continue
            rule(number in self.place_of, f"message {number} is confirmed, and in no entry")
            _, index, term = self.place_of[number]
            is_agreed = index <= self.commit and self.term_of(index) == term
            rule(is_agreed, f"message {number} is confirmed and not agreed on")
            for name in self.in_sync[applied]:
                host = self.hosts[name]
                rule(
                    host.is_amnesiac or host.disk.platter.has(index, term),
                    f"message {number} is confirmed, and not on {name}, which is in sync",
                )

    def holds_up(self, applied: int, mirrors: list[int]) -> None:
        """Check that a master, having applied so much, lets publishers wait only for in-sync
        mirrors."""
        self.happened["held up"] += len(mirrors)
        others = {*mirrors} - self.in_sync[applied]
        rule(not others, f"publishers wait for {sorted(others)}, which are not in sync")
