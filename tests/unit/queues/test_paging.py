"""Goal: a queue that pages keeps all invariants (`paging_invariants.py`), whatever it is told while
its disk works. Method: hypothesis, and dice, drive a queue beside a plain list (`paging_model.py`);
jobs of the disk are done at moments of their choice; after each step all invariants are evaluated.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final
from unittest.mock import patch

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sluicemq.queues.classic.backing import Delta
from sluicemq.queues.classic.chunk import Chunk
from sluicemq.queues.classic.paging import PlainBacking
from sluicemq.queues.classic.subqueues import MOVES, Q3, RESTORE
from sluicemq.storage.entries import Run
from sluicemq.storage.queue_index import IndexRead, IndexWrite, QueueIndex
from support.thorough import examples

from .paging_invariants import check
from .paging_model import WINDOW, Bench, tiny

TARGETS: Final = (0, 0, 3, 12, None)

numbers = st.integers(1, 6)
choices = st.integers(0, 40)
sides = st.integers(0, 1)
rarely = st.integers(0, 5).map(lambda n: n == 5)


class PagingLife(RuleBasedStateMachine):
    """All that can happen to one queue."""

    bench: Bench
    highest = 0

    def __init__(self) -> None:
        super().__init__()
        self.limits = tiny()
        self.limits.__enter__()

    @initialize(durable=st.booleans(), lazy=rarely, keep=st.sampled_from(TARGETS))
    def start(self, durable: bool, lazy: bool, keep: int | None) -> None:
        self.bench = Bench(durable, lazy, self.highest)
        self.bench.set_target(keep)

    @invariant()
    def all_promises_are_kept(self) -> None:
        if hasattr(self, "bench"):
            check(self.bench)

    @rule(
        number=numbers,
        kind=choices,
        persistent=st.booleans(),
        parts=st.integers(1, 3),
        priority=st.integers(0, 3),
    )
    def publish(self, number: int, kind: int, persistent: bool, parts: int, priority: int) -> None:
        self.bench.publish(number, kind, persistent, parts, priority)

    @rule(channel=sides, no_ack=rarely, prefetch=st.integers(0, 5))
    def consume(self, channel: int, no_ack: bool, prefetch: int) -> None:
        self.bench.consume(channel, no_ack, prefetch)

    @rule(channel=sides, no_ack=st.booleans())
    def get(self, channel: int, no_ack: bool) -> None:
        self.bench.get(channel, no_ack)

    @precondition(lambda self: self.bench.consumers)
    @rule(choice=choices)
    def cancel(self, choice: int) -> None:
        self.bench.cancel(choice)

    @precondition(lambda self: self.bench.out)
    @rule(choice=choices, length=st.one_of(numbers, st.just(20)), requeue=st.booleans())
    def settle(self, choice: int, length: int, requeue: bool) -> None:
        self.bench.settle(choice, length, requeue)

    @rule(channel=sides)
    def down(self, channel: int) -> None:
        self.bench.down(channel)

    @rule(keep=st.sampled_from(TARGETS))
    def set_target(self, keep: int | None) -> None:
        self.bench.set_target(keep)

    @rule(credit=st.sampled_from([0, 0, 1, 4, WINDOW, WINDOW]))
    def give_credit(self, credit: int) -> None:
        self.bench.give_credit(credit)

    @rule(choice=choices)
    def flush(self, choice: int) -> None:
        self.bench.flush(choice)

    @precondition(lambda self: self.bench.strand)
    @rule(times=st.integers(1, 3))
    def work(self, times: int) -> None:
        for _ in range(times):
            self.bench.work()

    @precondition(lambda self: self.bench.reads)
    @rule()
    def read_bodies(self) -> None:
        self.bench.read_bodies()

    @precondition(lambda self: self.bench.collecting)
    @rule()
    def sync_journal(self) -> None:
        self.bench.sync_journal()

    @rule(
        what=st.sampled_from(
            ["purge", "delete", "restart", "storage fails", "storage is back", "full", "broken"]
        ),
        lazy=rarely,
    )
    def interfere(self, what: str, lazy: bool) -> None:
        bench = self.bench
        acts: dict[str, Callable[[], None]] = {
            "purge": bench.purge,
            "delete": bench.delete,
            "restart": bench.restart,
            "full": lambda: bench.fail_write("ENOSPC"),
            "broken": lambda: bench.fail_write("EIO"),
            "storage fails": lambda: bench.fail_storage(True),
            "storage is back": lambda: bench.fail_storage(False),
        }
        acts[what]()
        if lazy:
            bench.set_lazy(not bench.lazy)

    def teardown(self) -> None:
        try:
            if hasattr(self, "bench") and self.bench.sound:
                self.bench.drain()
        finally:
            self.limits.__exit__(None, None, None)


class PriorityLife(PagingLife):
    """The same with priorities."""

    highest = 2


PagingLife.TestCase.settings = examples(40, stateful_step_count=40, report_multiple_bugs=False)
PriorityLife.TestCase.settings = PagingLife.TestCase.settings
TestPagingLifeBesideAPlainList = PagingLife.TestCase
TestPriorityLifeBesideASortedList = PriorityLife.TestCase


EVENTFUL = (57, 55, 107, 26)
"""Lives in which what is rare happens; they are lived first."""

LIVES_LEAST = 12


def acts_of(bench: Bench, dice: random.Random) -> list[tuple[int, Callable[[], None]]]:
    """What can happen, and how often."""
    n = dice.randrange
    credit = (0, 0, 1, 4, WINDOW, WINDOW)
    return [
        (8, lambda: bench.publish(1 + n(6), n(6), n(2) > 0, 1 + n(3), n(4))),
        (2, lambda: bench.consume(n(2), n(6) == 0, n(6))),
        (3, lambda: bench.get(n(2), n(2) > 0)),
        (2, lambda: bench.cancel(n(3))),
        (8, lambda: bench.settle(n(40) * n(2), 1 + n(6) * n(6), n(3) > 0)),
        (2, lambda: bench.settle(0, 1 + len(bench.out) // 2, True)),
        (2, lambda: bench.down(n(2))),
        (3, lambda: bench.set_target(dice.choice(TARGETS))),
        (2, lambda: bench.flush(n(1000))),
        (12, bench.work),
        (8, bench.read_bodies),
        (2, bench.sync_journal),
        (2, lambda: bench.give_credit(dice.choice(credit))),
        (1, lambda: bench.fail_write(dice.choice(("ENOSPC", "EIO")))),
        (1, lambda: bench.fail_storage(True)),
        (2, lambda: bench.fail_storage(False)),
        (1, lambda: seldom(bench, n)),
    ]


def seldom(bench: Bench, n: Callable[[int], int]) -> None:
    what = n(8)
    if what < 4:
        bench.purge()
    elif what < 6:
        bench.restart()
    elif what < 7:
        bench.set_lazy(n(4) == 0)
    else:
        bench.delete()


def live(seed: int, steps: int, highest: int = 0) -> set[tuple[str, str]]:
    """A whole life, with habits of its own; the moves that were made."""
    dice = random.Random(seed)
    with tiny():
        bench = Bench(seed % 3 != 2, seed % 7 == 6, highest)
        acts = acts_of(bench, dice)
        habits = [weight * dice.choice((0, 1, 1, 5)) for weight, _ in acts]
        habits[0] += 1
        for _ in range(steps):
            [(_, act)] = dice.choices(acts, habits)
            act()
            check(bench)
        bench.drain()
        check(bench)
    return bench.moves


def test_every_move_of_the_table_is_made_and_no_other() -> None:
    """What is restored is so from mirrors, see test_mirrored_master.py."""
    moves: set[tuple[str, str]] = {(RESTORE, Q3)}
    for lives, seed in enumerate((*EVENTFUL, *range(200))):
        moves |= live(seed, 300)
        if lives > LIVES_LEAST and moves == set(MOVES):
            return
    assert moves == set(MOVES)


def test_queues_with_priorities_live_long() -> None:
    for seed in range(12):
        live(seed, 300, highest=1 + seed % 3)


def test_what_a_restart_estimated_wrongly_is_right_when_all_of_it_has_been_read() -> None:
    with tiny():
        bench = Bench()
        bench.publish(6, 0, True, 3)
        bench.restart()
        bench.machine.depth.ready_bytes += 1000
        bench.backing.delta.bytes += 1000
        bench.consume(0, False, 0)
        bench.work_to_the_end()
        assert not bench.ready
        assert bench.machine.depth.ready_bytes == 0
        check(bench)


def test_large_bodies_come_back_a_load_at_a_time() -> None:
    """Requeued when they had let go of their bodies: all at once could be more than the RAM."""
    with tiny():
        bench = Bench()
        bench.publish(6, 3, True, 10)
        bench.consume(0, False, 0)
        bench.set_target(0)
        assert bench.machine.depth.ram_unacked == 0
        bench.down(0)
        assert not bench.reads, "nobody wants them"
        bench.consume(0, False, 1)
        assert 0 < len(bench.reads) < 10
        bench.drain()


@pytest.mark.parametrize("highest", [0, 2])
def test_a_queue_that_becomes_lazy_pages_out_what_is_there_and_one_that_is_not_any_more_keeps_it(
    highest: int,
) -> None:
    with tiny():
        bench = Bench(highest=highest)
        for priority in range(3):
            bench.publish(6, priority + 1, priority > 0, 2, priority)
        bench.give_credit(0)
        bench.set_lazy(True)
        assert bench.machine.depth.ram_messages > 0, "the message store takes nothing"
        assert bench.backing.converting
        bench.give_credit(4)
        for _ in range(12):
            bench.turn()
            check(bench)
        assert not bench.backing.converting
        bench.work_to_the_end()
        bench.publish(6, 0, True, 1, 1)
        bench.work_to_the_end()
        assert bench.backing.delta.count == len(bench.ready) == 42
        assert bench.machine.depth.ram_messages == bench.machine.depth.footprint == 0
        bench.set_lazy(False)
        bench.publish(6, 0, True, 1, 2)
        assert bench.machine.depth.ram_messages == 6
        bench.drain()


def test_a_get_is_answered_while_a_queue_becomes_lazy_and_its_storage_takes_nothing() -> None:
    with tiny():
        bench = Bench(durable=False)
        bench.set_target(0)
        bench.publish(1, 15, False, 1, 0)  # in the message store
        bench.fail_storage(True)
        bench.publish(1, 0, False, 1, 0)
        bench.set_lazy(True)
        bench.get(0, True)
        check(bench)
        bench.read_bodies()
        assert bench.gets == 0


def test_a_consumer_gets_what_is_there_while_a_queue_becomes_lazy_and_its_storage_has_failed() -> (
    None
):
    """What has come back for it to q3 is not paged out again before its body is read."""
    with tiny():
        bench = Bench(durable=False)
        bench.set_target(0)
        bench.fail_storage(True)
        bench.publish(1, 0, False, 1, 0)
        bench.set_lazy(True)
        bench.publish(1, 3, False, 1, 0)
        bench.consume(0, False, 0)
        check(bench)


def purge_around_what_is_out() -> None:
    """Half of what is out comes back and is paged out: delta reaches over the other half, which is
    on disk too."""
    with tiny():
        bench = Bench()
        bench.publish(6, 0, True, 8)
        bench.consume(0, False, 0)
        bench.flush(48)
        bench.work_to_the_end()
        bench.cancel(0)
        for position in sorted(bench.out)[::-2]:
            bench.settle(sorted(bench.out).index(position), 1, True)
        bench.set_target(0)
        bench.work_to_the_end()
        delta = bench.backing.delta
        assert any(delta.start < position < delta.end for position in bench.out)
        bench.purge()
        check(bench)
        assert len(bench.out) == 24
        bench.restart()
        check(bench)
        assert len(bench.ready) == 24
        bench.drain()


def test_a_purge_leaves_what_is_out_in_the_middle_of_delta() -> None:
    purge_around_what_is_out()


def test_a_purge_that_forgets_who_is_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    clear = PlainBacking.clear
    monkeypatch.setattr(PlainBacking, "clear", lambda self, _: clear(self, lambda *_: []))
    with pytest.raises(AssertionError):
        purge_around_what_is_out()


def test_a_dead_consumers_messages_leave_ram_though_nobody_asks() -> None:
    with tiny():
        bench = Bench()
        bench.publish(6, 3, False, 5)
        bench.consume(0, False, 0)
        bench.down(0)
        bench.set_target(0)
        assert bench.machine.depth.ram_messages == 0
        bench.drain()


# What the machine must find


def a_load_forgets_what_is_on_its_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainBacking, "_stay", lambda *_: [])


def acks_during_a_write_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    wrote = QueueIndex.wrote

    def forgetful(self: QueueIndex, job: IndexWrite) -> None:
        job.gone.clear()
        wrote(self, job)

    monkeypatch.setattr(QueueIndex, "wrote", forgetful)


def a_split_chunk_keeps_its_position(monkeypatch: pytest.MonkeyPatch) -> None:
    split = Chunk.split

    def careless(self: Chunk, number: int) -> Chunk:
        other = split(self, number)
        if not other.bodies:
            other.position -= number
        return other

    monkeypatch.setattr(Chunk, "split", careless)


def requeued_messages_go_to_the_front(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: PlainBacking, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            self._back_to_q4(chunk)

    monkeypatch.setattr(PlainBacking, "give_back", careless)


def delta_never_moves_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    cover = Delta.cover

    def careless(self: Delta, positions: range) -> None:
        start = self.start if self.count else None
        cover(self, positions)
        if start is not None:
            self.start = start

    monkeypatch.setattr(Delta, "cover", careless)


def redelivered_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks_of_run = PlainBacking._chunks_of_run

    def careless(self: PlainBacking, run: Run) -> list[Chunk]:
        chunks = chunks_of_run(self, run)
        for chunk in chunks:
            chunk.redelivered = False
        return chunks

    monkeypatch.setattr(PlainBacking, "_chunks_of_run", careless)


def ram_is_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: PlainBacking, job: IndexWrite) -> None:
        self.index.wrote(job)
        self.in_flight = []

    monkeypatch.setattr(PlainBacking, "wrote", careless)


@pytest.mark.parametrize(
    "plant",
    [
        a_load_forgets_what_is_on_its_way_out,
        acks_during_a_write_are_forgotten,
        a_split_chunk_keeps_its_position,
        requeued_messages_go_to_the_front,
        delta_never_moves_its_beginning,
        redelivered_is_not_told,
        ram_is_not_given_back,
    ],
    ids=lambda plant: plant.__name__,
)
def test_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KeyError, ValueError, IndexError)):
        for seed in range(40):
            live(seed, 300)


# Damage


def damaged_bench(kind: int, persistent: bool) -> Bench:
    """Messages that are on disk only, and a block of them damaged."""
    bench = Bench()
    bench.set_target(0)
    bench.publish(6, kind, persistent, 8)
    bench.work_to_the_end()
    assert bench.backing.delta.count > 20
    segment = bench.backing.index.segments[4]
    assert segment.places is not None
    bench.files.files[segment.path].data[segment.places[0].offset + 60] ^= 1
    return bench


@pytest.mark.parametrize("kind", [0, 2, 3])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_damaged_block_costs_its_messages_and_no_others(kind: int, persistent: bool) -> None:
    with tiny():
        bench = damaged_bench(kind, persistent)
        lost: list[int] = []
        loaded = bench.machine.loaded

        def lose(job: IndexRead) -> list[range]:
            gone = [position for positions in loaded(job) for position in positions]
            lost.extend(gone)
            bench.ready = [each for each in bench.ready if each.position not in gone]
            job.damaged.clear()
            return []

        with patch.object(bench.machine, "loaded", lose):
            bench.consume(0, False, 2)
            for _ in range(200):
                bench.work()
                bench.read_bodies()
                bench.settle(0, 9, False)
        assert not bench.ready
        assert not bench.out
        assert lost, "a block was damaged"
        depth = bench.machine.depth
        assert (depth.ready, depth.unacked, depth.ready_bytes) == (0, 0, 0)
        assert (depth.persistent, depth.footprint) == (0, 0)
        assert bench.backing.length() == 0


@pytest.mark.parametrize("all_of_them", [False, True])
@pytest.mark.parametrize("requeued", [False, True])
def test_bodies_that_are_gone_cost_their_messages_and_no_others(
    requeued: bool, all_of_them: bool
) -> None:
    with tiny():
        bench = Bench()
        bench.set_target(0)
        bench.publish(6, 3, True, 3)
        if requeued:
            bench.consume(1, False, 0)
            bench.work_to_the_end()
            bench.down(1)
        bench.work_to_the_end()
        bench.consume(0, False, 2)
        while not bench.reads:
            bench.work()
        chunk, ids = bench.reads.pop(0)
        kept = [] if all_of_them else [*ids][1::2]
        found = {number: bench.persistent.contents[number] for number in kept}
        lost = [p for some in bench.machine.got_bodies(chunk, found) for p in some]
        assert lost
        gone = {each.id for each in bench.ready if each.position in lost}
        assert gone == {*ids} - {*kept}
        bench.ready = [each for each in bench.ready if each.position not in lost]
        for number in gone:
            del bench.persistent.contents[number]
        bench.published -= len(gone)
        bench.journalled -= {*lost}
        bench.turn()
        check(bench)
        bench.drain()
        check(bench)
