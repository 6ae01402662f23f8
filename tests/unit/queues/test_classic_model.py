"""Goal: a ClassicQueue behaves like the naive queue of `queue_model.py`. Method: hypothesis drives
two of them and their models with the same commands; after each command the effects, the counters,
the windows and the limits must be the same, and no message waits that somebody could take.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sluicemq.queues import consumers as consuming
from support.thorough import examples

from .side_by_side import SideBySide

PLAIN = (b"\x00\x01a", 1, True, 1)
"""Envelope, channel number, persistent, copies."""

queues = st.sampled_from(["durable", "durable", "durable", "transient"])
channels = st.integers(0, 2)
choices = st.integers(0, 30)
rarely = st.integers(0, 7).map(lambda n: n == 7)
priorities = st.sampled_from([0, 0, 1, 2, 9])
windows = st.sampled_from([3, 20, 5000])
consumers = st.tuples(
    queues, channels, st.sampled_from([0, 0, 0, 5, -1]), st.sampled_from([0, 0, 1, 2, 5])
)
parts = st.lists(st.tuples(choices, choices, choices), min_size=1, max_size=3)


def something_is_out(machine: QueueLife) -> bool:
    return any(pair.model.out for pair in machine.both.pairs.values())


class QueueLife(RuleBasedStateMachine):
    """What queues do all day."""

    both: SideBySide | None = None

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(consuming, "DEALT_SINGLY_MAX", 1 << 30)  # the model knows no blocks

    @initialize(
        window=windows,
        long_turns=st.booleans(),
        single_active=st.booleans(),
        highest=st.sampled_from([0, 0, 2]),
        delivery_limit=st.sampled_from([None, None, 0, 2]),
        some=st.lists(consumers, min_size=1, max_size=5),
    )
    def start(
        self,
        window: int,
        long_turns: bool,
        single_active: bool,
        highest: int,
        delivery_limit: int | None,
        some: list[tuple[str, int, int, int]],
    ) -> None:
        self.both = SideBySide(window, long_turns, single_active, highest, delivery_limit)
        for name, channel, priority, prefetch in some:
            self.both.consume(name, channel, False, False, priority, prefetch)
        self.both.publish("durable", 5, [8], True, PLAIN, False, 0)

    @invariant()
    def both_are_the_same(self) -> None:
        if self.both is not None:
            self.both.check()

    @precondition(lambda self: self.both.long_turns)
    @rule()
    def end_turns(self) -> None:
        self.both.end_turns()

    @rule(name=queues, count=st.integers(1, 8), priority=priorities)
    def publish(self, name: str, count: int, priority: int) -> None:
        self.both.publish(name, count, [8], True, PLAIN, False, priority)

    @rule(one=consumers)
    def consume(self, one: tuple[str, int, int, int]) -> None:
        name, channel, priority, prefetch = one
        self.both.consume(name, channel, False, False, priority, prefetch)

    @precondition(lambda self: self.both.consumers)
    @rule(choice=choices)
    def cancel(self, choice: int) -> None:
        self.both.cancel(choice)

    @rule(name=queues, channel=channels, no_ack=rarely)
    def get(self, name: str, channel: int, no_ack: bool) -> None:
        self.both.get(name, channel, no_ack)

    @precondition(something_is_out)
    @rule(name=queues, picks=parts)
    def acknowledge(self, name: str, picks: list[tuple[int, int, int]]) -> None:
        self.both.settle(name, picks, False, False)

    @precondition(something_is_out)
    @rule(name=queues, picks=parts, stray=rarely)
    def requeue(self, name: str, picks: list[tuple[int, int, int]], stray: bool) -> None:
        self.both.settle(name, picks, True, stray)

    @rule(name=queues, choice=choices)
    def flush(self, name: str, choice: int) -> None:
        self.both.flush(name, choice)

    @rule(channel=channels, limit=st.sampled_from([0, 1, 2, 5]))
    def limit_channel(self, channel: int, limit: int) -> None:
        self.both.qos_global(channel, limit)

    def teardown(self) -> None:
        try:
            if self.both is not None and self.both.sound:
                self.both.settle_all()
        finally:
            self.patch.undo()


class QueueLifeAndDeath(QueueLife):
    """And what happens to them now and then."""

    @rule(
        name=queues,
        count=st.one_of(st.integers(1, 6), st.sampled_from([100, 300, 1030])),
        sizes=st.lists(st.sampled_from([8, 9, 30, 4096, 9000]), min_size=1, max_size=4),
        says_same_size=st.booleans(),
        kind=st.tuples(
            st.sampled_from([PLAIN[0], b"\x01x\x01b"]),
            st.integers(1, 2),
            st.booleans(),
            st.integers(1, 3),
        ),
        confirming=st.booleans(),
        priority=priorities,
    )
    def publish_any(
        self,
        name: str,
        count: int,
        sizes: list[int],
        says_same_size: bool,
        kind: tuple[bytes, int, bool, int],
        confirming: bool,
        priority: int,
    ) -> None:
        self.both.publish(name, count, sizes, says_same_size, kind, confirming, priority)

    @rule(one=consumers, no_ack=st.booleans(), exclusive=st.booleans())
    def consume_any(self, one: tuple[str, int, int, int], no_ack: bool, exclusive: bool) -> None:
        name, channel, priority, prefetch = one
        self.both.consume(name, channel, no_ack, exclusive, priority, prefetch)

    @rule(name=queues, count=choices)
    def written(self, name: str, count: int) -> None:
        self.both.written(name, count)

    @rule(
        name=queues,
        channel=channels,
        what=st.sampled_from(["inspect", "purge", "delete", "down"]),
        if_unused=rarely,
        if_empty=rarely,
        by_broker=rarely,
    )
    def interfere(
        self, name: str, channel: int, what: str, if_unused: bool, if_empty: bool, by_broker: bool
    ) -> None:
        both = self.both
        acts: dict[str, Callable[[], None]] = {
            "inspect": lambda: both.inspect(name),
            "purge": lambda: both.purge(name),
            "delete": lambda: both.delete(name, if_unused, if_empty, by_broker),
            "down": lambda: both.down(channel),
        }
        acts[what]()

    @precondition(lambda self: any(pair.model.deleted for pair in self.both.pairs.values()))
    @rule()
    def declare_again(self) -> None:
        self.both.declare_again()


EVERY_DAY = examples(50, stateful_step_count=30, report_multiple_bugs=False)
QueueLife.TestCase.settings = EVERY_DAY
QueueLifeAndDeath.TestCase.settings = EVERY_DAY
TestQueueLifeAgainstTheNaiveOne = QueueLife.TestCase
TestQueueLifeAndDeathAgainstTheNaiveOne = QueueLifeAndDeath.TestCase
