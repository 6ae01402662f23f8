"""Goal: every message is handled once, in order, in bounded turns, and nobody starves. Method:
actors that write down what they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.kernel.actor import (
    INTAKE_WORK,
    INTAKE_WORK_EACH,
    INTAKE_WORK_MAX,
    PATIENCE_WORK,
    PATIENCE_WORK_EACH,
    PATIENCE_WORK_MAX,
    TURN_MAX,
    TURN_WORK,
    Actor,
    Scheduler,
    Share,
    StandIn,
)
from sluicemq.kernel.turn_groups import TurnGroups


class Alarm(Scheduler):
    """Counts how often it wakes its World."""

    def __init__(self) -> None:
        super().__init__()
        self.woken = 0
        self.wake = self.ring

    def ring(self) -> None:
        self.woken += 1


class Errand:
    """To be passed on."""

    def __init__(self, to: Actor, what: object) -> None:
        self.to = to
        self.what = what


class Scribe(Actor):
    """Writes into a log that all share, and runs errands."""

    def __init__(self, scheduler: Scheduler, name: str, log: list[tuple[str, object]]) -> None:
        super().__init__(scheduler)
        self.name = name
        self.log = log

    def receive(self, message: object) -> None:
        if isinstance(message, Errand):
            message.to.post(message.what)
        else:
            self.log.append((self.name, message))

    def turn_ended(self) -> None:
        self.log.append((self.name, "end"))


def scribes(count: int) -> tuple[Alarm, list[tuple[str, object]], list[Scribe]]:
    scheduler = Alarm()
    log: list[tuple[str, object]] = []
    return scheduler, log, [Scribe(scheduler, chr(97 + index), log) for index in range(count)]


def test_turn_handles_the_inbox_and_ends_once() -> None:
    scheduler, log, [a] = scribes(1)
    a.post(1)
    a.post(2)
    assert log == [], "nothing runs while posting"
    assert not scheduler.run(10)
    assert log == [("a", 1), ("a", 2), ("a", "end")]


def test_what_comes_during_a_turn_waits_for_the_next() -> None:
    scheduler, log, [a] = scribes(1)
    a.post(Errand(a, 2))
    a.post(1)
    assert scheduler.run(1)
    assert log == [("a", 1), ("a", "end")]
    assert not scheduler.run(1)
    assert log[2:] == [("a", 2), ("a", "end")]


def test_turns_are_bounded_and_others_come_between() -> None:
    scheduler, log, [a, b] = scribes(2)
    for number in range(TURN_MAX + 5):
        a.post(number)
    b.post("b")
    scheduler.run(3)
    ends = [index for index, entry in enumerate(log) if entry[1] == "end"]
    assert ends == [TURN_MAX, TURN_MAX + 2, TURN_MAX + 8]
    assert [what for name, what in log if name == "a" and what != "end"] == list(
        range(TURN_MAX + 5)
    )


def test_what_a_turn_cannot_get_to_stays_where_it_is() -> None:
    """It may be a million messages: they are not copied in each turn. What comes is behind them."""
    log: list[tuple[str, object]] = []
    scheduler = Scheduler()
    actor = Scribe(scheduler, "a", log)
    actor.post(Errand(actor, "last"))
    for number in range(10 * TURN_MAX):
        actor.post(number)
    inbox = actor.inbox
    scheduler.run(1)
    assert actor.inbox is inbox
    assert inbox[0] == TURN_MAX - 1
    assert inbox[-1] == "last"
    scheduler.run(1000)
    said = [what for _, what in log if what != "end"]
    assert said == [*range(10 * TURN_MAX), "last"]


def test_scheduling_without_a_message_gives_one_turn() -> None:
    scheduler, log, [a] = scribes(1)
    a.schedule()
    a.schedule()
    scheduler.run(10)
    assert log == [("a", "end")]


def test_world_is_woken_when_work_appears_and_not_again_before_it_has_run() -> None:
    scheduler, _, [a, b] = scribes(2)
    a.post(1)
    a.post(2)
    b.post(1)
    assert scheduler.woken == 1
    assert scheduler.run(1), "work is left: the World calls again by itself"
    a.post(3)
    assert scheduler.woken == 1
    assert not scheduler.run(10)
    a.post(4)
    assert scheduler.woken == 2


def test_running_with_nothing_to_do_is_idle() -> None:
    scheduler, log, _ = scribes(1)
    assert not scheduler.run(10)
    assert log == []


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=200))
def test_every_message_is_handled_once_and_in_the_order_of_posting(
    posts: list[tuple[int, int, bool]],
) -> None:
    """Some are passed on by another actor; for each pair of actors order is kept."""
    scheduler, log, some = scribes(3)
    for number, (first, second, passed_on) in enumerate(posts):
        way = (first if passed_on else None, number)
        if passed_on:
            some[first].post(Errand(some[second], way))
        else:
            some[second].post(way)
        if number % 7 == 0:
            scheduler.run(1)
    while scheduler.run(5):
        pass
    handled = [(name, way) for name, way in log if isinstance(way, tuple)]
    assert sorted(number for _, (_, number) in handled) == list(range(len(posts)))
    for name in "abc":
        for source in (None, 0, 1, 2):
            numbers = [n for who, (of, n) in handled if who == name and of == source]
            assert numbers == sorted(numbers)


class Digger(Scribe):
    """Does long work in pieces when told how many; each costs as much as a whole turn."""

    def receive(self, message: object) -> None:
        if isinstance(message, list):
            self.begin(self.pieces(message))
        else:
            super().receive(message)

    def pieces(self, names: list[str]) -> Iterator[int]:
        for name in names:
            self.log.append((self.name, name))
            yield TURN_WORK


class Patient(Scribe):
    """Brings work in."""

    is_patient = True


def test_a_turn_ends_when_its_work_is_spent() -> None:
    class Dear(Scribe):
        def receive(self, message: object) -> None:
            super().receive(message)
            self.spend(TURN_WORK // 2)

    scheduler = Alarm()
    log: list[tuple[str, object]] = []
    dear, other = Dear(scheduler, "dear", log), Scribe(scheduler, "b", log)
    for number in range(3):
        dear.post(number)
    other.post("b")
    while scheduler.run(1):
        pass
    assert [what for _, what in log] == [0, 1, "end", "b", "end", 2, "end"]


def test_long_work_goes_on_from_turn_to_turn_and_the_inbox_waits_for_it() -> None:
    scheduler = Alarm()
    log: list[tuple[str, object]] = []
    digger, other = Digger(scheduler, "a", log), Scribe(scheduler, "b", log)
    digger.post(["one", "two"])
    digger.post("after")
    other.post("between")
    while scheduler.run(1):
        pass
    said = [what for _, what in log if what != "end"]
    assert said == ["one", "between", "two", "after"]


def test_a_share_gets_no_more_than_one_that_has_a_single_member() -> None:
    scheduler = Alarm()
    log: list[tuple[str, object]] = []
    share = Share(scheduler)
    crowd = [Digger(scheduler, str(number), log) for number in range(5)]
    for each in crowd:
        each.run_queue = share
        each.post(["x", "x", "x"])
    other = Scribe(scheduler, "b", log)
    other.post("b")
    scheduler.share_work = TURN_WORK
    assert scheduler.run(2)
    assert [entry for entry in log if entry[1] != "end"] == [("0", "x"), ("b", "b")]
    while scheduler.run(1):
        pass
    assert sorted(log) == sorted(
        [(str(n), what) for n in range(5) for what in "xxx"]
        + [entry for entry in log if entry[1] == "end"]
        + [("b", "b")]
    )


def test_the_patient_come_when_nobody_else_has_anything_to_do() -> None:
    scheduler = Alarm()
    log: list[tuple[str, object]] = []
    patient, other = Patient(scheduler, "p", log), Scribe(scheduler, "b", log)
    patient.post(1)
    other.post(Errand(other, 2))
    while scheduler.run(1):
        pass
    assert [entry for entry in log if entry[1] != "end"] == [("b", 2), ("p", 1)]


def test_the_patient_are_not_forgotten_while_others_are_never_done() -> None:
    scheduler = Alarm()
    log: list[tuple[str, object]] = []
    patient, busy = Patient(scheduler, "p", log), Digger(scheduler, "b", log)
    pieces = PATIENCE_WORK // TURN_WORK * 3
    busy.post(["x"] * pieces)
    patient.post(1)
    assert scheduler.run(pieces // 2)
    assert ("p", 1) in log


def pieces_before_the_patient(waiting: int) -> int:
    """How many pieces of TURN_WORK one who is never done gets before `waiting` patient ones."""
    scheduler = Alarm()
    log: list[tuple[str, object]] = []
    busy = Digger(scheduler, "b", log)
    crowd = [Patient(scheduler, f"p{number}", log) for number in range(waiting)]
    busy.post(["x"] * (2 * PATIENCE_WORK_MAX // TURN_WORK))
    for each in crowd:
        each.post(1)
    pieces = 0
    while not any(name == "p0" for name, _ in log):
        assert scheduler.run(1)
        pieces += 1
    return pieces - 1


def test_the_others_have_the_more_time_the_more_of_the_patient_wait() -> None:
    assert pieces_before_the_patient(1) == PATIENCE_WORK // TURN_WORK
    many = 3 * PATIENCE_WORK // PATIENCE_WORK_EACH
    assert pieces_before_the_patient(many) == pytest.approx(3 * PATIENCE_WORK / TURN_WORK, abs=2)
    assert pieces_before_the_patient(2000) == pytest.approx(PATIENCE_WORK_MAX / TURN_WORK, rel=0.1)


def turns_before_the_others(waiting: int) -> int:
    """How many of `waiting` patient ones have a turn before one who always has something to do."""
    scheduler = Alarm()
    log: list[tuple[str, object]] = []
    other = Scribe(scheduler, "b", log)
    crowd = [Patient(scheduler, f"p{number}", log) for number in range(waiting)]
    for each in crowd:
        each.post(1)
    assert scheduler.run(1)
    other.post(2)
    while ("b", 2) not in log:
        assert scheduler.run(1)
    return sum(what == 1 for _, what in log)


def test_the_more_of_the_patient_wait_the_more_come_together() -> None:
    few = turns_before_the_others(60)
    many = turns_before_the_others(300)
    assert INTAKE_WORK / 60 < few < 60
    assert few * 2 < many
    assert turns_before_the_others(2000) <= many * INTAKE_WORK_MAX / (300 * INTAKE_WORK_EACH) + 1


def test_the_patient_of_a_turn_group_have_their_turns_together() -> None:
    scheduler = Alarm()
    log: list[tuple[str, object]] = []
    crowd = [Patient(scheduler, f"{number % 2} {number}", log) for number in range(6)]
    for number, each in enumerate(crowd):
        each.turn_group = number % 2
        each.post("x")
    while scheduler.run(1):
        pass
    assert [name for name, what in log if what == "x"] == ["0 0", "0 2", "0 4", "1 1", "1 3", "1 5"]


@given(st.lists(st.integers(0, 5), max_size=60), st.randoms())
def test_who_waits_is_overtaken_by_nobody_more_than_twice(
    arrivals: list[int], dice: Random
) -> None:
    scheduler = Alarm()
    waiting = TurnGroups()
    actors = [Patient(scheduler, str(number), []) for number in range(6)]
    overtaken: dict[Actor, dict[Actor, int]] = {}
    for number in arrivals:
        actor = actors[number]
        if actor not in overtaken:
            actor.turn_group = number % 3
            waiting.append(actor)
            overtaken[actor] = {}
        if dice.randrange(2):
            called = waiting.popleft()
            del overtaken[called]
            for others in overtaken.values():
                others[called] = others.get(called, 0) + 1
                assert others[called] <= 2
    left = []
    while waiting:
        left.append(waiting.popleft())
    assert set(left) == set(overtaken)
    assert len(left) == len(overtaken)


class Slow(Scribe):
    """Takes so many microseconds by the scheduler's clock, whatever units it spends."""

    def receive(self, message: object) -> None:
        assert isinstance(message, int)
        assert isinstance(self.scheduler, Watch)
        self.scheduler.time_us += message
        super().receive(message)


class Watch(Alarm):
    """Has a clock that its actors move on."""

    def __init__(self) -> None:
        super().__init__()
        self.time_us = 0
        self.now_ns = lambda: self.time_us * 1000


def test_a_round_ends_with_the_turn_that_has_taken_too_long() -> None:
    scheduler = Watch()
    log: list[tuple[str, object]] = []
    for number in range(6):
        slow = Slow(scheduler, str(number), log)
        slow.run_queue = Share(scheduler)
        slow.post(400)
    assert scheduler.run(100, 1_000_000)
    assert [entry for entry in log if entry[1] != "end"] == [(name, 400) for name in "012"]
    assert not scheduler.run(100, 3_000_000)
    assert len(log) == 12


class Faulty(Scribe):
    """Has a mistake about one message, which matters to nobody else."""

    is_vital = False

    def __init__(self, scheduler: Scheduler, name: str, log: list[tuple[str, object]]) -> None:
        super().__init__(scheduler, name, log)
        self.seen: list[object] = []

    def receive(self, message: object) -> None:
        if message == "bad":
            raise ValueError("a mistake")
        super().receive(message)

    def faulted(self, error: Exception) -> None:
        self.seen.append((self.faulted_message, str(error)))


def test_a_fault_costs_its_message_and_nobody_else_anything() -> None:
    scheduler = Alarm()
    witnessed: list[object] = []
    scheduler.witness = lambda actor, _: witnessed.append(actor)
    log: list[tuple[str, object]] = []
    share = Share(scheduler)
    alone, member = Faulty(scheduler, "a", log), Faulty(scheduler, "m", log)
    other, fellow = Scribe(scheduler, "b", log), Scribe(scheduler, "n", log)
    member.run_queue = fellow.run_queue = share
    for actor in (alone, member, other, fellow):
        for message in (1, "bad", 2):
            actor.post(message)
    while scheduler.run(1):
        pass
    done = [entry for entry in log if entry[1] != "end"]
    assert sorted(done, key=str) == sorted(
        [(name, message) for name in "am" for message in (1, 2)]
        + [(name, message) for name in "bn" for message in (1, "bad", 2)],
        key=str,
    )
    assert witnessed == [alone, member]
    assert alone.seen == member.seen == [("bad", "a mistake")]
    assert alone.faulted_message is None


def test_a_fault_of_one_that_says_nothing_ends_all_turns() -> None:
    scheduler = Alarm()
    broke: list[object] = []
    scheduler.broke = lambda actor, _: broke.append(actor)
    log: list[tuple[str, object]] = []
    share = Share(scheduler)
    actor, fellow, other = (Scribe(scheduler, name, log) for name in "anb")
    actor.run_queue = fellow.run_queue = share
    actor.receive = None  # type: ignore[method-assign,assignment]
    for each in (actor, fellow, other):
        each.post(1)
    assert not scheduler.run(100)
    other.post(2)
    assert not scheduler.run(100)
    assert broke == [actor]
    assert log == []


def test_long_work_that_begins_at_the_end_of_a_turn_goes_on() -> None:
    class Late(Digger):
        def turn_ended(self) -> None:
            if not self.log:
                self.begin(self.pieces(["one", "two"]))

    scheduler = Alarm()
    log: list[tuple[str, object]] = []
    Late(scheduler, "a", log).schedule()
    while scheduler.run(1):
        pass
    assert [what for _, what in log] == ["one", "two"]


class Leaving(Scribe):
    """Has another one stand in for it when it is told so."""

    def receive(self, message: object) -> None:
        super().receive(message)
        if isinstance(message, StandIn):
            self.stand_in = message


class Deputy(StandIn):
    def __init__(self) -> None:
        self.heard: list[object] = []

    def receive(self, message: object) -> None:
        self.heard.append(message)


def test_whoever_has_a_stand_in_does_nothing_more_at_the_end_of_that_turn() -> None:
    log: list[tuple[str, object]] = []
    scheduler, deputy = Scheduler(), Deputy()
    actor = Leaving(scheduler, "a", log)
    actor.post(deputy)
    assert not scheduler.run(10)
    assert log == [("a", deputy)]
    actor.post("later")
    assert not scheduler.run(10)
    assert (log, deputy.heard) == ([("a", deputy)], ["later"])
