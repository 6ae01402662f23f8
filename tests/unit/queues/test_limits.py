"""Goal: what is too old or too much leaves a queue at its head, in order and only then; rejected
messages and these arrive somewhere else before they are gone, wherever their bodies are. Method:
hypothesis drives a queue that pages beside a plain list (`limits_model.py`), restarts included.
"""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sluicemq.flow.link import Link
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.commands import ACK, Publish
from sluicemq.queues.effects import Deliver, Effect
from sluicemq.queues.settings import QueueSettings
from support.batches import batch_of
from support.thorough import examples

from .carrying_out import settles
from .limits_model import DYING, LimitedBench, tiny_limits
from .paging_invariants import check

TARGETS: Final = (0, 0, 3, 12, None)

SETTINGS = st.fixed_dictionaries(  # `builds` would make up the other fields of a named tuple
    {
        "message_ttl_ms": st.sampled_from([None, 0, 10, 50]),
        "max_length": st.sampled_from([None, None, 0, 4, 9]),
        "dead_letter_exchange": st.sampled_from([None, "dlx", "dlx"]),
    }
).map(lambda fields: QueueSettings(**fields))
numbers = st.integers(1, 6)
choices = st.integers(0, 40)
sides = st.integers(0, 1)
rarely = st.integers(0, 5).map(lambda n: n == 5)


class LimitedLife(RuleBasedStateMachine):
    """All that can happen to a queue with limits."""

    bench: LimitedBench

    def __init__(self) -> None:
        super().__init__()
        self.tiny = tiny_limits()
        self.tiny.__enter__()

    @initialize(
        durable=st.booleans(),
        lazy=rarely,
        keep=st.sampled_from(TARGETS),
        highest=st.sampled_from([0, 0, 2]),
        asked=SETTINGS,
    )
    def start(
        self, durable: bool, lazy: bool, keep: int | None, highest: int, asked: QueueSettings
    ) -> None:
        self.bench = LimitedBench(durable, lazy, highest, asked)
        self.bench.set_target(keep)

    @invariant()
    def all_promises_are_kept(self) -> None:
        if hasattr(self, "bench"):
            check(self.bench)
            self.bench.check_limits()

    @rule(number=numbers, kind=choices, persistent=st.booleans(), priority=st.integers(0, 3))
    def publish(self, number: int, kind: int, persistent: bool, priority: int) -> None:
        self.bench.publish(number, kind, persistent, 1, priority)

    @rule(ms=st.sampled_from([1, 10, 60]))
    def pass_time(self, ms: int) -> None:
        self.bench.pass_time(ms)

    @rule(asked=SETTINGS)
    def change_policy(self, asked: QueueSettings) -> None:
        self.bench.configure(asked)
        self.bench.turn()

    @precondition(lambda self: self.bench.dying)
    @rule(choice=choices)
    def arrive(self, choice: int) -> None:
        self.bench.arrive(choice)

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
    @rule(choice=choices, length=numbers, requeue=st.booleans())
    def settle(self, choice: int, length: int, requeue: bool) -> None:
        self.bench.settle(choice, length, requeue)

    @precondition(lambda self: self.bench.out)
    @rule(choice=choices, length=numbers)
    def reject(self, choice: int, length: int) -> None:
        self.bench.reject(choice, length)

    @rule(channel=sides)
    def down(self, channel: int) -> None:
        self.bench.down(channel)

    @rule(keep=st.sampled_from(TARGETS))
    def set_target(self, keep: int | None) -> None:
        self.bench.set_target(keep)

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
    @precondition(lambda self: self.bench.reads)
    @rule(choice=st.integers(1, 15))
    def lose_bodies(self, choice: int) -> None:
        self.bench.lose_bodies(choice)

    @rule()
    def sync_journal(self) -> None:
        self.bench.sync_journal()

    @rule(purges=rarely)
    def restart(self, purges: bool) -> None:
        if purges:
            self.bench.purge()
        else:
            self.bench.restart()

    def teardown(self) -> None:
        try:
            if hasattr(self, "bench") and self.bench.sound:
                self.bench.drain()
        finally:
            self.tiny.__exit__(None, None, None)


LimitedLife.TestCase.settings = examples(40, stateful_step_count=30, report_multiple_bugs=False)
TestLimitedLifeBesideAPlainList = LimitedLife.TestCase


@pytest.mark.parametrize("is_dropped", [False, True])
@pytest.mark.parametrize("choice", range(1, 8))
def test_a_lot_with_bodies_that_are_lost_goes_without_them(choice: int, is_dropped: bool) -> None:
    """`choice` has a bit for each of three messages; `is_dropped`: the exchange goes away while
    those that are left wait for room."""
    with tiny_limits():
        bench = LimitedBench(True, False, 0, QueueSettings(dead_letter_exchange="dlx"))
        bench.publish(3, 3, True)
        bench.consume(0, False, 0)
        bench.work_to_the_end()
        bench.set_target(0)
        bench.turn()
        bench.reject(0, 3)
        [run] = bench.machine.unacked_runs.values()
        assert run.sizes is not None and bench.reads
        if is_dropped:
            bench.machine.limits.in_flight += DYING
        bench.lose_bodies(choice)
        if is_dropped:
            bench.machine.limits.in_flight -= DYING
            bench.configure(QueueSettings())
            bench.turn()
        sent = [content for effect in bench.dying for content in effect.contents]
        left = [place for place in range(3) if not choice >> place & 1]
        assert [int(content[:7]) - 1 for content in sent] == ([] if is_dropped else left)
        check(bench)
        while bench.dying:
            bench.arrive(len(bench.dying) - 1)
        check(bench)
        assert not bench.machine.unacked_runs and not bench.out
        depth = bench.machine.depth
        assert (depth.unacked, depth.unacked_bytes, depth.persistent, depth.footprint) == (0,) * 4
        assert (bench.machine.limits.in_flight, bench.machine.limits.in_flight_bytes) == (0, 0)
        bench.drain()


def test_what_is_too_old_is_not_delivered_behind_what_has_come_just_now() -> None:
    """What has come since the last tick may be delivered once, though it expires at once; what
    waits behind it, of a lower priority, has had its time."""
    with tiny_limits():
        bench = LimitedBench(False, False, 2, QueueSettings(message_ttl_ms=10))
        bench.publish(2, 0, False)
        bench.consume(0, False, 2)
        bench.publish(1, 0, False)
        machine = bench.machine
        old_ms = bench.now_ms + 10
        fresh = batch_of([b"fresh"], priority=2)
        publish = Publish(fresh, Link(bench.channels[0]), 1, False)
        publish.expiry = old_ms + 1
        out = [(number, 0, run.left) for number, run in machine.unacked_runs.items()]
        effects: list[Effect] = []
        for command in (publish, *settles(machine, out, ACK)):
            ClassicQueue.apply(machine, command, effects)
        machine.enforce(old_ms + 1, effects)
        delivers = [effect for effect in effects if isinstance(effect, Deliver)]
        assert [each.contents for each in delivers] == [[b"fresh"]]
        assert not machine.depth.ready


def test_bodies_of_pending_dead_letters_are_not_read_before_there_is_room() -> None:
    """In a full memory they would leave it again, and be read again, for as long as the dead
    letters before them take."""
    with tiny_limits():
        bench = LimitedBench(True, False, 0, QueueSettings(dead_letter_exchange="dlx"))
        bench.publish(DYING, 3, True)
        bench.publish(2, 3, True)
        bench.consume(0, False, 0)
        bench.set_target(0)
        bench.reject(0, DYING)
        bench.work_to_the_end()
        assert bench.dying
        bench.reject(0, 2)
        bench.work_to_the_end()
        assert bench.machine.limits.pending_dead_letters
        for _ in range(4):
            if bench.dying:
                bench.arrive(0)
            bench.work_to_the_end()
        assert not bench.machine.limits.pending_dead_letters and not bench.out
        bench.drain()
