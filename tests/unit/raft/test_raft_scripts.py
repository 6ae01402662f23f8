"""Goal: a group does, step by step, what the transcripts in tests/scripts/raft say.

Method: a command is something that happens to a member or to a message; the answer is what members
say and become. docs/raft.md has the commands a reader needs; here are all of them:

    group 1 2 3 [learners=4]     members that know of each other, with nothing in their logs
    log 1 1 1 2 [term=3] [vote=2] [size=9]   member 1 starts with entries of these terms on disk
    join 4                       a member with nothing on its disk, that knows nobody
    campaign 1                   ticks until member 1 asks to be elected
    elect 1                      the same, and everything arrives, unseen; says only that it leads
    propose 1 [times=3] [size=400]       read 1 name
    add 1 4    promote 1 4    remove 1 3    transfer 1 2
    patient 1 2 3                those at 2 and 3 need not hear at once of what 1 has agreed on
    tick 1 [times=3]
    deliver [1->2] [kind] [times=1] [skip=1]     what is on its way arrives; without arguments,
                                 everything, and all that follows from it
    repeat 1->2 kind             it arrives, and stays on its way
    drop [1->2] [kind]           it is lost
    settle                       everything arrives, unseen
    cut 1 2 [oneway]    heal     messages between them are lost, or only those from 1 to 2
    lost 1 2    back 1 2         member 1 is told of its link to 2
    hold 1    sync 1 [append=2]    unhold 1        when what it writes is durable
    snapshot 1 5 [size=10] [live=2,4]    member 1 takes a snapshot after entry 5, which needs these
    crash 1 [kept=1]    start 1 [amnesiac] [version=2]
    state                        all members
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sluicemq.errors import Refused
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.messages import RaftMessage
from support.transcripts import check
from unit.raft.script_group import KINDS, Group

SCRIPTS = Path(__file__).parents[2] / "scripts" / "raft"


class Interpreter:
    """Carries out commands, one after the other."""

    def __init__(self) -> None:
        self.group = Group()

    def execute(self, command: str) -> str:
        name, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        self.group.said = []
        try:
            getattr(self, f"do_{name}")(plain, options)
        except Refused as refused:
            self.group.say(f"refused: {refused}")
        except AssertionError as failed:
            self.group.say(f"the process ends: {str(failed).splitlines()[0]}")
        return "\n".join(self.group.said)

    # members

    def do_group(self, plain: list[str], options: dict[str, str]) -> None:
        learners = (*(int(each) for each in options.get("learners", "").split(",") if each),)
        birth = Configuration((*map(int, plain),), learners)
        for name in birth.members:
            self.group.seat(name, birth, [], 0).start()

    def do_log(self, plain: list[str], options: dict[str, str]) -> None:
        name, *terms = map(int, plain)
        birth = self.group.seats[name].raft.configuration
        size = int(options.get("size", 1))
        seat = self.group.seat(name, birth, terms, int(options.get("vote", 0)), size)
        seat.disk.platter.term = int(options.get("term", seat.disk.platter.term))
        seat.start()

    def do_join(self, plain: list[str], _options: dict[str, str]) -> None:
        self.group.seat(int(plain[0]), Configuration(), [], 0).start()

    def do_crash(self, plain: list[str], options: dict[str, str]) -> None:
        seat = self.group.seats[int(plain[0])]
        for _, record in seat.disk.waiting[: int(options.get("kept", 0))]:
            seat.disk.platter.write(record)
        seat.disk.waiting = []
        seat.is_up = False

    def do_start(self, plain: list[str], options: dict[str, str]) -> None:
        seat = self.group.seats[int(plain[0])]
        seat.version = int(options.get("version", seat.version))
        seat.is_held = False
        seat.start(is_amnesiac="amnesiac" in plain)

    # what is asked of them

    def do_campaign(self, plain: list[str], _options: dict[str, str]) -> None:
        raft = self.group.seats[int(plain[0])].raft
        for _ in range(8):
            if raft.election is None:
                raft.tick()
        self.group.at(int(plain[0]), lambda _: None)

    def do_elect(self, plain: list[str], options: dict[str, str]) -> None:
        self.do_campaign(plain, options)
        self.do_settle(plain, options)
        won = [line for line in self.group.said if line.startswith(f"  {plain[0]} leads")]
        self.group.said = won or self.group.said

    def do_propose(self, plain: list[str], options: dict[str, str]) -> None:
        data = bytes(int(options.get("size", 1)))

        def propose() -> None:
            index = self.group.seats[int(plain[0])].raft.propose(data)
            self.group.say(f"entry {index}" if index else "not taken")

        for _ in range(int(options.get("times", 1))):
            propose()
        self.group.at(int(plain[0]), lambda _: None)

    def do_read(self, plain: list[str], _options: dict[str, str]) -> None:
        def read() -> None:
            if not self.group.seats[int(plain[0])].raft.read(plain[1]):
                self.group.say("not taken")

        read()
        self.group.at(int(plain[0]), lambda _: None)

    def do_add(self, plain: list[str], _options: dict[str, str]) -> None:
        self.group.at(int(plain[0]), lambda seat: seat.raft.add_learner(int(plain[1])))

    def do_promote(self, plain: list[str], _options: dict[str, str]) -> None:
        self.group.at(int(plain[0]), lambda seat: seat.raft.promote(int(plain[1])))

    def do_remove(self, plain: list[str], _options: dict[str, str]) -> None:
        self.group.at(int(plain[0]), lambda seat: seat.raft.remove(int(plain[1])))

    def do_transfer(self, plain: list[str], _options: dict[str, str]) -> None:
        self.group.at(int(plain[0]), lambda seat: seat.raft.transfer(int(plain[1])))

    def do_patient(self, plain: list[str], _options: dict[str, str]) -> None:
        leader, *patient = map(int, plain)
        self.group.at(leader, lambda seat: seat.raft.let_wait(patient))

    def do_snapshot(self, plain: list[str], options: dict[str, str]) -> None:
        live = [int(each) for each in options.get("live", "").split(",") if each]
        seat = self.group.seats[int(plain[0])]
        seat.snapshot(int(plain[1]), int(options.get("size", 10)), live)

    # what happens to them

    def do_tick(self, plain: list[str], options: dict[str, str]) -> None:
        for _ in range(int(options.get("times", 1))):
            self.group.at(int(plain[0]), lambda seat: seat.raft.tick())

    def do_lost(self, plain: list[str], _options: dict[str, str]) -> None:
        self.group.at(int(plain[0]), lambda seat: seat.raft.link_lost(int(plain[1])))

    def do_back(self, plain: list[str], _options: dict[str, str]) -> None:
        self.group.at(int(plain[0]), lambda seat: seat.raft.link_back(int(plain[1])))

    def do_hold(self, plain: list[str], _options: dict[str, str]) -> None:
        self.group.seats[int(plain[0])].is_held = True

    def do_sync(self, plain: list[str], options: dict[str, str]) -> None:
        self.group.seats[int(plain[0])].sync(int(options.get("append", 0)))

    def do_unhold(self, plain: list[str], _options: dict[str, str]) -> None:
        self.group.seats[int(plain[0])].is_held = False
        self.group.seats[int(plain[0])].pump()

    # messages

    @staticmethod
    def chosen(plain: list[str]) -> Callable[[RaftMessage], bool]:
        ways = [word for word in plain if "->" in word]
        kinds = [word for word in plain if word in KINDS.values()]
        if len(ways) + len(kinds) != len(plain):
            raise ValueError(f"not known: {plain}")
        return lambda message: (
            (not ways or f"{message.sender}->{message.to}" in ways)
            and (not kinds or KINDS[type(message)] in kinds)
        )

    def do_deliver(self, plain: list[str], options: dict[str, str]) -> None:
        if not plain and not options:
            self.group.deliver_all()
            return
        chosen = self.chosen(plain)
        found = [message for message in self.group.mailbox if chosen(message)]
        found = found[int(options.get("skip", 0)) :]
        for message in found[: int(options.get("times", len(found)))]:
            self.group.mailbox.remove(message)
            self.group.deliver(message)

    def do_repeat(self, plain: list[str], _options: dict[str, str]) -> None:
        chosen = self.chosen(plain)
        for message in [each for each in self.group.mailbox if chosen(each)]:
            self.group.deliver(message)

    def do_drop(self, plain: list[str], _options: dict[str, str]) -> None:
        self.group.taken(self.chosen(plain))

    def do_settle(self, _plain: list[str], _options: dict[str, str]) -> None:
        self.group.is_silent = True
        try:
            self.group.deliver_all()
        finally:
            self.group.is_silent = False

    def do_cut(self, plain: list[str], _options: dict[str, str]) -> None:
        one, other = int(plain[0]), int(plain[1])
        self.group.cut |= {(one, other)} if "oneway" in plain else {(one, other), (other, one)}

    def do_heal(self, _plain: list[str], _options: dict[str, str]) -> None:
        self.group.cut = set()

    def do_state(self, _plain: list[str], _options: dict[str, str]) -> None:
        for name in sorted(self.group.seats):
            self.group.say(self.group.seats[name].line())


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path, rewrite: bool) -> None:
    check(path, Interpreter().execute, rewrite)
