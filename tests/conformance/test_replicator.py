"""Goal: whoever agrees on commands applies each once, in order, one at a time, and says of nothing
that it is his what is not. One suite for all of them.

Method: each rule is a function over an owner with an Echo; then bugs are planted in a replicator,
and the rule that is broken has to see it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeAlias

import pytest

from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.kernel.socket_messages import Writable
from sluicemq.replication.alone import Alone
from sluicemq.replication.replicator import Replicator, Role
from sluicemq.replication.state_owner import StateOwner
from support.echo import Echo, EchoCommand, Keep, LetGo, Recite, Say
from support.fakes import drain
from support.grouped import Grouped, JoinedSyncs, grouped
from support.grouped_bugs import (
    Clinging,
    Deposed,
    Forgetful,
    Overhasty,
    Overlooking,
    Presumptuous,
    Restless,
    Twofold,
)
from support.late import Agreed, Late

SCRIPTS: Final = 200


class Shell(Actor, StateOwner[EchoCommand]):
    """An owner as they all are. What is said with "!" leads to a further command when it is
    applied, with "?" when its effect is made real, with "@" while it is applied."""

    is_vital = False

    def __init__(self, make: Make) -> None:
        super().__init__(Scheduler())
        self.machine = Echo()
        self.effects: list[str] = Effects(self)
        self.replicator = make(self)
        self.submitted: list[EchoCommand] = []
        self.done: list[EchoCommand] = []
        self.real: list[str] = []
        self.foreign: list[object] = []

    def submit(self, command: EchoCommand) -> None:
        self.submitted.append(command)
        self.replicator.submit(command)

    def applied(self, command: EchoCommand) -> None:
        assert self.machine.rest is None
        assert command not in self.done
        self.done.append(command)
        if isinstance(command, Say) and command.text.startswith("!"):
            self.submit(Say(f"after {command.text}"))

    def receive(self, message: object) -> None:
        if isinstance(message, Say | LetGo):
            self.submit(message)
        elif not self.replicator.receive(message):
            self.foreign.append(message)
        if self.machine.rest is not None and self.underway is None:
            self.begin(self.work_off())

    def work_off(self) -> Any:
        while self.machine.rest is not None:
            yield from self.machine.rest
            self.machine.rest = None
            self.replicator.go_on()

    def turn_ended(self) -> None:
        effects = [*self.effects]
        self.effects.clear()
        for text in effects:
            self.real.append(text)
            if text.startswith("?"):
                self.submit(Say(f"of {text}"))
        self.replicator.turn_ended()
        if self.effects:
            self.schedule()

    def run(self, turns: int = 1000) -> None:
        self.scheduler.run(turns)

    def spoken(self) -> list[str]:
        """What is to be heard, in this order."""
        texts: list[str] = []
        for command in self.submitted:
            if isinstance(command, Recite):
                texts += [f"{command.text} {number}" for number in range(command.count)]
            elif isinstance(command, Say):
                texts.append(command.text)
        return texts


class Effects(list[str]):
    """Where something is done as effects come."""

    def __init__(self, shell: Shell) -> None:
        super().__init__()
        self.shell = shell

    def append(self, text: str) -> None:
        super().append(text)
        if text.startswith("@"):
            self.shell.submit(Say(f"within {text}"))


Made: TypeAlias = Replicator[EchoCommand, str]
Make: TypeAlias = Callable[[Shell], Made]
Rule: TypeAlias = Callable[[Make], None]


def alone(shell: Shell) -> Made:
    return Alone(shell.machine, shell.effects, shell)


def late(shell: Shell) -> Made:
    return Late(shell.machine, shell.effects, shell, shell)


def majority(shell: Shell) -> Made:
    return grouped(Grouped, shell)


def majority_in_turns(shell: Shell) -> Made:
    """Whose syncs cover what several turns have written."""
    return grouped(Grouped, shell, JoinedSyncs)


IMPLEMENTATIONS: Final[dict[str, Make]] = {
    "alone": alone,
    "late": late,
    "majority": majority,
    "majority in turns": majority_in_turns,
}


# -- the rules


def once_and_in_order(make: Make) -> None:
    """Of everything that is submitted, in any turns."""
    for seed in range(SCRIPTS):
        dice = Random(seed)
        shell = Shell(make)
        for number in range(dice.randrange(1, 30)):
            kind = dice.choice(("", "", "!", "?", "@", "long"))
            long = dice.randrange(1, 400)
            shell.post(Recite(f"{number}", long) if kind == "long" else Say(f"{kind}{number}"))
            if dice.random() < 0.5:
                shell.run(dice.randrange(3))
        shell.run()
        assert shell.done == shell.submitted
        assert shell.machine.said == shell.spoken() == shell.real
        assert shell.replicator.figures()["pending"] == 0


def effects_go_to_the_list_of_the_owner(make: Make) -> None:
    """Which is the same one, whenever a command is applied; behind what is in it already."""
    shell = Shell(make)
    shell.post(Say("one"))
    shell.run(1)
    there = shell.effects
    there.append("of a call")
    shell.submit(Say("two"))
    shell.schedule()
    shell.run()
    assert shell.replicator.effects is shell.effects is there
    assert [text for text in shell.real if text != "one"] == ["of a call", "two"]
    assert shell.machine.said == ["one", "two"]


def nothing_is_applied_within_another(make: Make) -> None:
    """A command that is submitted while one is applied comes behind it."""
    shell = Shell(make)
    shell.submit(Say("@first"))
    shell.submit(Say("second"))
    shell.schedule()
    shell.run()
    assert shell.done == shell.submitted
    assert shell.machine.said == shell.spoken()


def nothing_is_applied_before_a_long_one_is_done(make: Make) -> None:
    shell = Shell(make)
    for command in (Recite("long", 2000), Say("behind"), Recite("again", 2000), Say("last")):
        shell.post(command)
    shell.run()
    assert shell.real == shell.spoken()


def a_long_one_holds_up_what_is_agreed_meanwhile(make: Make) -> None:
    """Whether it was agreed with the long one, or while that is worked off."""
    shell = Shell(make)
    for commands in ([Recite("long", 3), Say("with it")], [Say("after it")]):
        for command in commands:
            shell.submit(command)
        shell.replicator.turn_ended()
        for message in drain(shell):
            assert shell.replicator.receive(message)
    assert shell.machine.rest is not None
    assert not shell.machine.said
    assert shell.replicator.figures()["pending"] == 3
    shell.begin(shell.work_off())
    shell.run()
    assert shell.machine.said == shell.spoken()


def what_is_not_its_own_is_left(make: Make) -> None:
    """It has done nothing with it, either; nor is what another replicator waits for its own."""
    shell, other = Shell(make), Shell(make)
    other.submit(Say("elsewhere"))
    other.replicator.turn_ended()
    shell.submit(Say("here"))
    shell.replicator.turn_ended()
    before = (shell.machine.said.copy(), shell.replicator.figures())
    strangers = [Writable(), object(), None, *other.inbox]
    for message in strangers:
        assert shell.replicator.receive(message) is False
    assert before == (shell.machine.said, shell.replicator.figures())
    shell.run()
    other.run()
    assert (shell.machine.said, other.machine.said) == (["here"], ["elsewhere"])


def its_own_is_taken(make: Make) -> None:
    shell = Shell(make)
    shell.post(Say("here"))
    shell.run()
    assert not shell.foreign


def a_turn_with_nothing_costs_nothing(make: Make) -> None:
    """No message, no turn, no effect."""
    shell = Shell(make)
    for _ in range(3):
        shell.replicator.turn_ended()
    assert (shell.inbox, shell.scheduled, [*shell.effects]) == ([], False, [])
    shell.post(Say("here"))
    shell.run()
    for _ in range(3):
        shell.replicator.turn_ended()
    assert (shell.inbox, shell.scheduled, [*shell.effects]) == ([], False, [])


def a_turn_applies_nothing(make: Make) -> None:
    """What it ends with is what was made real."""
    shell = Shell(make)
    shell.submit(Say("here"))
    before = shell.machine.said.copy()
    shell.replicator.turn_ended()
    assert shell.machine.said == before
    shell.run()
    assert shell.machine.said == ["here"]


def a_turn_makes_one_batch(make: Make) -> None:
    """However much was submitted in it."""
    shell = Shell(make)
    for number in range(20):
        shell.submit(Say(f"{number}"))
    assert not shell.inbox
    shell.replicator.turn_ended()
    assert len(shell.inbox) <= 1
    shell.run()
    assert shell.machine.said == shell.spoken()


def a_command_outside_of_a_turn_has_one(make: Make) -> None:
    """Nobody else may have something for the owner to do."""
    shell = Shell(make)
    shell.submit(Say("here"))
    shell.run()
    assert shell.machine.said == ["here"]


def at_the_end_what_is_not_done_comes_back(make: Make) -> None:
    """In order, the one under way first; and nothing is applied any more."""
    for seed in range(SCRIPTS):
        dice = Random(seed)
        shell = Shell(make)
        for number in range(dice.randrange(1, 10)):
            shell.post(Say(f"{number}") if dice.random() < 0.7 else Recite(f"{number}", 700))
        shell.run(dice.randrange(6))
        pending = shell.replicator.figures()["pending"]
        left = shell.replicator.close()
        assert len(left) == pending
        assert [*shell.done, *left] == shell.submitted
        said = shell.machine.said.copy()
        shell.underway = None
        shell.inbox = [each for each in shell.inbox if not isinstance(each, Say | LetGo)]
        shell.schedule()
        shell.run()
        assert shell.machine.said == said
        assert not shell.foreign


def after_the_end_nothing_may_be_submitted(make: Make) -> None:
    shell = Shell(make)
    shell.replicator.close()
    refused = False
    try:
        shell.replicator.submit(Say("too late"))
    except AssertionError:
        refused = True
    assert refused


def a_fault_leaves_the_command_it_came_at(make: Make) -> None:
    """It is the first of what is lost."""

    def mistaken(command: EchoCommand, _: list[str]) -> None:
        if isinstance(command, Keep):
            raise ZeroDivisionError
        shell.machine.said.append("fine")

    shell = Shell(make)
    shell.machine.apply = mistaken  # type: ignore[method-assign]
    commands = [Say("fine"), Keep("at fault", 1), Say("behind")]
    struck: list[Exception] = []
    shell.faulted = struck.append  # type: ignore[assignment, method-assign]
    for command in commands:
        shell.post(command)
    while not struck:
        shell.run(1)
    left = shell.replicator.close()
    assert left[0] is commands[1]
    assert left == shell.submitted[1:]


def it_leads_where_it_is_alone(make: Make) -> None:
    assert Shell(make).replicator.role() == "leader"


RULES: Final = {
    rule.__name__: rule
    for rule in (
        once_and_in_order,
        effects_go_to_the_list_of_the_owner,
        nothing_is_applied_within_another,
        nothing_is_applied_before_a_long_one_is_done,
        a_long_one_holds_up_what_is_agreed_meanwhile,
        what_is_not_its_own_is_left,
        its_own_is_taken,
        a_turn_with_nothing_costs_nothing,
        a_turn_applies_nothing,
        a_turn_makes_one_batch,
        a_command_outside_of_a_turn_has_one,
        at_the_end_what_is_not_done_comes_back,
        after_the_end_nothing_may_be_submitted,
        a_fault_leaves_the_command_it_came_at,
        it_leads_where_it_is_alone,
    )
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_rule(implementation: str, rule: str) -> None:
    RULES[rule](IMPLEMENTATIONS[implementation])


# -- bugs


class Doubting(Late[EchoCommand, str]):
    """Has each batch agreed on twice."""

    __slots__ = ()

    def receive(self, message: object) -> bool:
        if isinstance(message, Agreed) and message.replicator is self:
            for command in [*self.pending][: message.count]:
                self.agreed(command)
        return super().receive(message)


class Careless(Late[EchoCommand, str]):
    """Loses what comes when much has come."""

    __slots__ = ()

    def submit(self, command: EchoCommand) -> None:
        if len(self.pending) < 5:
            super().submit(command)


class Backward(Late[EchoCommand, str]):
    """Has the last of a batch agreed on first."""

    __slots__ = ()

    def turn_ended(self) -> None:
        if not self.asked:
            self.pending.reverse()
        super().turn_ended()


class Private(Late[EchoCommand, str]):
    """Keeps effects to itself."""

    __slots__ = ()

    def carry_out(self, command: EchoCommand) -> None:
        there, self.effects = self.effects, []
        super().carry_out(command)
        self.effects = there


class Impatient(Alone[EchoCommand, str]):
    """Applies what comes, whatever the machine is at."""

    __slots__ = ()

    def submit(self, command: EchoCommand) -> None:
        self.machine.apply(command, self.effects)


class Forgetting(Alone[EchoCommand, str]):
    """Does not look for what has come while a command was applied."""

    __slots__ = ()

    def _catch_up(self) -> None:
        pass


class Greedy(Late[EchoCommand, str]):
    """Takes what is another's."""

    __slots__ = ()

    def receive(self, message: object) -> bool:
        return super().receive(message) or isinstance(message, Agreed)


class Modest(Late[EchoCommand, str]):
    """Says that what was its own was not."""

    __slots__ = ()

    def receive(self, message: object) -> bool:
        super().receive(message)
        return False


class Chatty(Late[EchoCommand, str]):
    """Sends a batch of nothing."""

    __slots__ = ()

    def turn_ended(self) -> None:
        self.asked += (count := len(self.pending) - self.asked)
        self.actor.post(Agreed(self, count))


class Hasty(Late[EchoCommand, str]):
    """Applies at the end of a turn, when effects have been made real."""

    __slots__ = ()

    def turn_ended(self) -> None:
        while self.pending:
            self.agreed(self.pending.popleft())


class Piecemeal(Late[EchoCommand, str]):
    """Sends a batch for each command."""

    __slots__ = ()

    def submit(self, command: EchoCommand) -> None:
        super().submit(command)
        self.turn_ended()


class Sleepy(Late[EchoCommand, str]):
    """Waits until its owner has something else to do."""

    __slots__ = ()

    def submit(self, command: EchoCommand) -> None:
        self.pending.append(command)


class Ruthless(Late[EchoCommand, str]):
    """Says nothing of what was not agreed on."""

    __slots__ = ()

    def close(self) -> list[EchoCommand]:
        self.pending.clear()
        return super().close()


class Undead(Late[EchoCommand, str]):
    """Goes on after the end."""

    __slots__ = ()

    def close(self) -> list[EchoCommand]:
        return [*self.undone(), *self.pending]

    def receive(self, message: object) -> bool:
        if isinstance(message, Agreed) and self.is_closed:
            self.current = None
        return super().receive(message)


class Hospitable(Late[EchoCommand, str]):
    """Takes commands after the end."""

    __slots__ = ()

    def submit(self, command: EchoCommand) -> None:
        self.pending.append(command)
        self.actor.schedule()


class Blameless(Late[EchoCommand, str]):
    """Does not know at what a fault has come."""

    __slots__ = ()

    def carry_out(self, command: EchoCommand) -> None:
        try:
            super().carry_out(command)
        except ZeroDivisionError:
            self.current = None
            raise


class Interrupting(Late[EchoCommand, str]):
    """Does not wait for the end of a long command."""

    __slots__ = ()

    def carry_out(self, command: EchoCommand) -> None:
        super().carry_out(command)
        if self.machine.rest is not None:
            self.current = None


class Shy(Late[EchoCommand, str]):
    """Leads, and says that it follows."""

    __slots__ = ()

    def role(self) -> Role:
        return "follower"


BUGS: Final[list[tuple[type[Made], Rule]]] = [
    (Doubting, once_and_in_order),
    (Careless, once_and_in_order),
    (Backward, once_and_in_order),
    (Private, effects_go_to_the_list_of_the_owner),
    (Impatient, nothing_is_applied_within_another),
    (Forgetting, nothing_is_applied_within_another),
    (Interrupting, nothing_is_applied_before_a_long_one_is_done),
    (Interrupting, a_long_one_holds_up_what_is_agreed_meanwhile),
    (Greedy, what_is_not_its_own_is_left),
    (Modest, its_own_is_taken),
    (Chatty, a_turn_with_nothing_costs_nothing),
    (Hasty, a_turn_applies_nothing),
    (Piecemeal, a_turn_makes_one_batch),
    (Sleepy, a_command_outside_of_a_turn_has_one),
    (Ruthless, at_the_end_what_is_not_done_comes_back),
    (Undead, at_the_end_what_is_not_done_comes_back),
    (Hospitable, after_the_end_nothing_may_be_submitted),
    (Blameless, a_fault_leaves_the_command_it_came_at),
    (Shy, it_leads_where_it_is_alone),
    (Presumptuous, a_turn_applies_nothing),
    (Forgetful, once_and_in_order),
    (Twofold, once_and_in_order),
    (Overhasty, a_turn_makes_one_batch),
    (Clinging, at_the_end_what_is_not_done_comes_back),
    (Overlooking, a_fault_leaves_the_command_it_came_at),
    (Restless, a_turn_with_nothing_costs_nothing),
    (Deposed, what_is_not_its_own_is_left),
]


@pytest.mark.parametrize(("bug", "rule"), BUGS, ids=lambda each: each.__name__)
def test_a_planted_bug_is_caught(bug: Any, rule: Rule) -> None:
    def make(shell: Shell) -> Made:
        if issubclass(bug, Grouped):
            return grouped(bug, shell)
        more = (shell,) if issubclass(bug, Late) else ()
        made: Made = bug(shell.machine, shell.effects, shell, *more)
        return made

    with pytest.raises(AssertionError):
        rule(make)


def test_a_bug_was_planted_in_each_rule() -> None:
    assert {rule for _, rule in BUGS} == {*RULES.values()}
