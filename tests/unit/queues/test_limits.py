"""Goal: what is too old or too much leaves a queue at its head, in order and only then; rejected
messages and these arrive somewhere else before they are gone, wherever their bodies are. Method:
hypothesis drives a queue that pages beside a plain list (`limits_model.py`), restarts included.
"""

from __future__ import annotations

from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sluicemq.queues.settings import QueueSettings

from .limits_model import LimitedBench, tiny_limits
from .paging_invariants import check

TARGETS: Final = (0, 0, 3, 12, None)

SETTINGS = st.builds(
    QueueSettings,
    message_ttl_ms=st.sampled_from([None, 0, 10, 50]),
    max_length=st.sampled_from([None, None, 0, 4, 9]),
    dead_letter_exchange=st.sampled_from([None, "dlx", "dlx"]),
)
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

    @precondition(lambda self: self.bench.lane)
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


LimitedLife.TestCase.settings = settings(
    max_examples=80, stateful_step_count=30, deadline=None, report_multiple_bugs=False
)
TestLimitedLifeBesideAPlainList = LimitedLife.TestCase
