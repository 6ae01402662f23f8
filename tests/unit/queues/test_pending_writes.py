"""Goal: of the messages of a mirrored queue that are in no entry yet exactly those are written that
are in the queue, each receipt comes once, and entries wait only where that pays.

Method: random writes and removals beside a model with a set of positions; the timing with a clock
of the test's.
"""

from __future__ import annotations

import random

import pytest

from sluicemq.model.traits import NO_TRAITS
from sluicemq.queues.mirrored.entry_timing import (
    ENOUGH_BYTES,
    IDLE_MS,
    LONGEST_MS,
    PASSED_MAX,
    EntryTiming,
)
from sluicemq.queues.mirrored.pending_writes import PendingWrites
from sluicemq.storage.entries import Run
from sluicemq.storage.positions import first_of_priority


def run_at(first: int, count: int, size: int = 1) -> Run:
    return Run(0, first, 1, count, NO_TRAITS, True, [bytes(size)] * count, [size] * count)


@pytest.mark.parametrize("seed", range(30))
def test_what_is_left_is_written(seed: int) -> None:
    dice = random.Random(seed)
    pending: PendingWrites[int] = PendingWrites()
    nexts = [first_of_priority(0), first_of_priority(1)]
    logged: set[int] = set()
    there: set[int] = set()
    due: dict[int, set[int]] = {}
    for step in range(300):
        row = dice.randrange(2)
        act = dice.random()
        if act < 0.5:
            count = dice.choice((1, 2, 5, 70))
            run = run_at(nexts[row], count)
            nexts[row] += count
            there |= {*run.positions}
            due[step] = {*run.positions}
            pending.add(run, step, step)
            assert pending.messages == len(there - logged)
        elif act < 0.95:
            width = dice.choice((1, 3, 100))
            start = max(first_of_priority(row), nexts[row] - dice.randrange(1, 200))
            positions = range(start, min(start + width, nexts[row]), dice.choice((1, 2, 3)))
            if not positions or not there.issuperset(positions):
                continue
            written, receipts = pending.remove(positions, step)
            assert {*written} == logged.intersection(positions)
            there -= {*positions}
            logged -= {*positions}
            over = {each for each, of in due.items() if not of & there}
            assert {*receipts} == over
            assert pending.messages == len(there - logged)
            for each in over:
                del due[each]
        else:
            commands, removed, receipts = pending.take()
            said = {each for command in commands for each in command.run.positions}
            said -= {each for part in removed for each in part}
            assert said == there - logged
            assert {*receipts} == {*due}
            logged |= said
            due = {}
            assert not pending.writes and not pending.size_bytes and not pending.messages


class Clock:
    """A master's entries, in the time of the test."""

    def __init__(self) -> None:
        self.now_ms = 1000
        self.next = 0
        self.pending: PendingWrites[int] = PendingWrites()
        self.timing = EntryTiming()

    def publish(self, count: int = 10, size: int = 1) -> None:
        self.pending.add(run_at(self.next, count, size), None, self.now_ms)
        self.next += count

    def acknowledge(self, count: int) -> None:
        self.pending.remove(range(self.next - count, self.next), self.now_ms)

    def left_ms(self, removed_ms: int | None = None, *, is_consumed: bool = True) -> int:
        return self.timing.left_ms(self.pending, removed_ms, self.now_ms, is_consumed=is_consumed)

    def make(self) -> None:
        self.timing.made(self.pending)
        self.pending.take()

    def waits(self) -> bool:
        """Tell whether the entry of a message that nobody acknowledges waits; it is made."""
        self.publish()
        has_waited = self.left_ms() > 0
        self.make()
        return has_waited


def test_an_entry_waits_for_acknowledgements_of_what_consumers_have() -> None:
    clock = Clock()
    assert clock.left_ms() == 0
    clock.publish()
    assert clock.left_ms(is_consumed=False) == 0
    assert clock.left_ms() == IDLE_MS
    clock.now_ms += 15
    clock.publish()
    assert clock.left_ms() == IDLE_MS - 15
    clock.now_ms += IDLE_MS
    assert clock.left_ms() == 0
    clock.make()
    clock.publish(size=ENOUGH_BYTES)
    assert clock.left_ms() == 0


def test_a_wait_goes_on_while_messages_come_and_go_and_most_go() -> None:
    clock = Clock()
    waited_ms = []
    for _ in range(4):
        clock.publish()
        began_ms = clock.now_ms
        while clock.left_ms():
            clock.now_ms += IDLE_MS // 5
            clock.publish()
            clock.acknowledge(9)
        waited_ms.append(clock.now_ms - began_ms)
        clock.make()
    assert waited_ms == [IDLE_MS, 2 * IDLE_MS, LONGEST_MS, LONGEST_MS]
    clock.publish()
    clock.now_ms += IDLE_MS
    assert clock.left_ms() == 0, "nothing has come or gone"


def test_removals_wait_for_longer_and_go_with_what_is_due() -> None:
    clock = Clock()
    assert clock.left_ms(clock.now_ms - 3) == LONGEST_MS - 3
    assert clock.left_ms(clock.now_ms - LONGEST_MS) == 0
    clock.publish()
    assert clock.left_ms(clock.now_ms - 3, is_consumed=False) == 0


def test_useless_waits_become_seldom_and_useful_ones_do_not() -> None:
    clock = Clock()
    waits = "".join("w" if clock.waits() else "." for _ in range(110))
    assert [*map(len, waits.split("w"))] == [0, 1, 2, 4, 8, 16, PASSED_MAX, PASSED_MAX, 7]
    while not clock.waits():
        pass
    clock.timing.passes = 0
    for _ in range(3):
        clock.publish()
        assert clock.left_ms() > 0
        clock.acknowledge(6)
        clock.make()
    assert clock.timing.passes_next == 1
