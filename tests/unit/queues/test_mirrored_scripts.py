"""Goal: a master has its mirrors keep up, waits for them, drops them and lets them join again, and
says what may be confirmed, step by step as the transcripts in tests/scripts/mirrored say.

Method: a mastership over a mirror that applies its entries when the transcript says that they are
committed; what the group's members have on their disks is said, too. The commands:

    group 1 2 3 [mirrors=1,2]    these have a vote, and member 1 is master; all are to be
                                 mirrors unless `mirrors` says which
    publish 5 [size=100] [name=a]   so many messages, in one entry, of which each has so many bytes;
                                 `a` is confirmed when they are safe
    durable 2 7 [3 7]            member 2 has said to have everything up to entry 7 on its disk
    commit 7                     the entries up to there are agreed on, and applied
    lost 2     back 2            member 2 cannot be reached; it can be again
    pass 500 [by=100]            so many milliseconds go by, and the master looks every so often
    deliver 10                   may this position be delivered?
    remove 0 10                  messages from position 0 to before 10 have left the queue
    hold 4     release 4         what is in the queue is not for member 4; it is all the same
    state
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluicemq.queues.by_value import ByValue
from sluicemq.queues.mirrored.command_codec import encode_entry
from sluicemq.queues.mirrored.commands import (
    InSyncChanged,
    MirrorCommand,
    MirrorEffect,
    WriteMessages,
)
from sluicemq.queues.mirrored.group_standing import GroupStanding
from sluicemq.queues.mirrored.mastership import Mastership
from sluicemq.queues.mirrored.mirror import Mirror
from sluicemq.queues.mirrored.mirror_bounds import MirrorBounds
from sluicemq.storage.entries import Run
from support.transcripts import check

from .mirrored_bench import TRAITS

SCRIPTS = Path(__file__).parents[2] / "scripts" / "mirrored"
BOUNDS = MirrorBounds(
    gate_bytes=4000,
    close_bytes=2000,
    behind_bytes=16000,
    stalled_ms=10_000,
    rejoin_ms=1000,
    rejoin_max_ms=60_000,
    mark_ahead=10,
)


class Interpreter:
    """Carries out commands, one after the other."""

    def __init__(self) -> None:
        self.mirror = Mirror()
        self.mastership: Mastership[str] = Mastership(self.mirror, 1, BOUNDS, 0)
        self.now_ms = 0
        self.commit = self.last = 0
        self.durable: dict[int, int] = {}
        self.lost: set[int] = set()
        self.mirrors: set[int] = set()
        self.entries: dict[int, list[MirrorCommand]] = {}
        self.shut: list[int] = []
        self.said: list[str] = []

    def execute(self, command: str) -> str:
        name, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        numbers = [int(word) for word in words if "=" not in word]
        self.said = []
        getattr(self, f"do_{name}")(*numbers, **options)
        if name != "state":
            self.look()
        return "\n".join(self.said)

    def look(self) -> None:
        """Let the master do what is due."""
        mastership = self.mastership
        standing = GroupStanding(self.commit, self.durable, frozenset(self.lost))
        mastership.look(standing, self.now_ms, self.mirrors)
        for name in mastership.confirmed(standing):
            self.said.append(f"confirmed {name}")
        if mastership.holding_up != self.shut:
            self.shut = mastership.holding_up
            waits = f"publishers wait for {' '.join(map(str, self.shut))}"
            self.said.append(waits if self.shut else "publishers go on")
        commands = mastership.take_entry()
        if commands:
            self.last += 1
            data = encode_entry(commands)
            padding = sum(
                sum(each.run.sizes) for each in commands if isinstance(each, WriteMessages)
            )
            mastership.proposed(self.last, padding or len(data))
            self.entries[self.last] = commands
            self.durable[1] = self.last
            self.said.append(f"entry {self.last}: {', '.join(map(shown, commands))}")

    def do_group(self, *members: int, mirrors: str = "") -> None:
        self.durable = dict.fromkeys(members, 0)
        self.mirrors = {int(each) for each in mirrors.split(",")} if mirrors else {*members}

    def do_publish(self, count: int, size: str = "10", name: str | None = None) -> None:
        first = max(
            (run.first + run.count for run in self.written()),
            default=self.mirror.rows[0].next if self.mirror.rows else 0,
        )
        sizes = [int(size)] * count
        contents = [bytes(each) for each in sizes]
        run = Run(0, first, 1, count, TRAITS, True, contents, sizes)
        self.mastership.write(run, name)

    def written(self) -> list[Run]:
        """All messages that are not applied."""
        return [
            each.run
            for commands in self.entries.values()
            for each in commands
            if isinstance(each, WriteMessages)
        ]

    def do_durable(self, *pairs: int) -> None:
        self.durable |= dict(zip(pairs[::2], pairs[1::2], strict=True))

    def do_commit(self, index: int) -> None:
        effects: list[MirrorEffect] = []
        for each in range(self.commit + 1, index + 1):
            self.mirror.entered(each, 0)
            for command in self.entries.pop(each):
                self.mirror.apply(command, effects)
        self.commit = index
        for effect in effects:
            if isinstance(effect, InSyncChanged):
                members = " ".join(map(str, effect.members))
                self.said.append(f"in sync: {members} ({effect.event})")
            else:
                self.said.append(f"{effect.member} may be sent the queue")

    def do_lost(self, member: int) -> None:
        self.lost.add(member)

    def do_back(self, member: int) -> None:
        self.lost.discard(member)

    def do_pass(self, duration_ms: int, by: str = "500") -> None:
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            self.now_ms = min(end_ms, self.now_ms + int(by))
            said = len(self.said)
            self.look()
            self.said[said:] = [f"at {self.now_ms} ms: {line}" for line in self.said[said:]]

    def do_deliver(self, position: int) -> None:
        self.said.append("yes" if self.mastership.marks.cover([position + 1]) else "not yet")

    def do_remove(self, start: int, end: int) -> None:
        self.mastership.remove(range(start, end))

    def do_hold(self, member: int) -> None:
        self.mastership.hold(member)

    def do_release(self, member: int) -> None:
        self.mastership.release(member)

    def do_state(self) -> None:
        in_sync = self.mirror.in_sync
        held = f", held: {' '.join(map(str, in_sync.held))}" if in_sync.held else ""
        members = " ".join(map(str, in_sync.members)) or "nobody"
        self.said.append(f"master {in_sync.master}, in sync: {members}{held}")
        self.said.append(f"{self.mirror.messages} messages, delivered {self.mirror.delivered(0)}")


def shown(command: MirrorCommand) -> str:
    """A command, for a reader."""
    if isinstance(command, WriteMessages):
        return f"write {command.run.first}-{command.run.first + command.run.count - 1}"
    word = re.findall("[A-Z][a-z]+", type(command).__name__)[0].lower()
    fields = command.values() if isinstance(command, ByValue) else command
    return " ".join([word, *map(str, fields)])


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path, rewrite: bool) -> None:
    check(path, Interpreter().execute, rewrite)
