"""Goal: what is on its way to one connection is bounded over all its windows, and whoever is held
up by the others hears when there is room, in the order in which they came.

Method: hypothesis drives windows of one connection as queues and a writer do, beside a plain sum.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.flow.credit import Grant, LinkSpec
from sluicemq.flow.delivery_window import ConnectionWindow, DeliveryOutflow
from sluicemq.flow.gate import GateKeeper
from support.fakes import FakeClock, bystander, drain

BOUND = 30
WINDOW = 20


class Bench:
    """Four queues, each with a window to a channel of the one connection."""

    def __init__(self) -> None:
        self.bound = BOUND
        self.shared = ConnectionWindow(lambda: self.bound)
        self.queues = [bystander() for _ in range(4)]
        self.windows = [
            DeliveryOutflow(
                GateKeeper(FakeClock()),
                f"window {number}",
                queue,
                LinkSpec(WINDOW, 1),
                self.shared,
            )
            for number, queue in enumerate(self.queues)
        ]
        self.unwritten: list[tuple[int, int]] = []

    def deliver(self, number: int, cost: int) -> bool:
        """As a queue does that has something; False: it has to wait."""
        window = self.windows[number]
        if window.is_shut or window.waits():
            return False
        window.spend(cost)
        self.unwritten.append((number, cost))
        return True

    def write(self) -> None:
        """The socket takes the oldest delivery; its queue gets the credit back."""
        number, cost = self.unwritten.pop(0)
        self.shared.give_back(cost)
        self.queues[number].post(Grant(self.windows[number], cost))

    def hear(self) -> list[int]:
        """All queues have a turn; the windows that were opened."""
        opened: list[int] = []
        for number, queue in enumerate(self.queues):
            was_shut = self.windows[number].is_shut
            for message in drain(queue):
                assert isinstance(message, Grant)
                message.outflow.refill(message.amount)
            if was_shut and not self.windows[number].is_shut:
                opened.append(number)
        return opened


def test_who_is_held_up_by_others_hears_when_half_is_gone() -> None:
    bench = Bench()
    assert bench.deliver(0, 15)
    assert bench.deliver(1, 15)
    assert not bench.deliver(2, 1)
    assert not bench.deliver(0, 1)
    assert bench.windows[0].is_shut
    bench.write()
    assert bench.hear() == [0, 2], "half of it is gone"
    assert bench.deliver(2, 1)
    assert bench.deliver(0, 1)


def test_own_credit_does_not_open_what_the_others_hold_up() -> None:
    bench = Bench()
    bench.deliver(0, 1)
    bench.deliver(1, 19)
    bench.deliver(2, 19)
    assert not bench.deliver(0, 1)
    bench.write()
    assert bench.hear() == []
    bench.write()
    assert bench.hear() == [], "19 are more than the half"
    bench.write()
    assert bench.hear() == [0]


def test_window_that_is_gone_waits_for_nothing() -> None:
    bench = Bench()
    bench.deliver(0, 19)
    bench.deliver(1, 19)
    assert not bench.deliver(2, 1)
    bench.windows[2].detach()
    assert not bench.shared.waiting
    assert not bench.windows[2].is_shut


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(0, 3), st.integers(1, 40)),
        st.tuples(st.just("write"), st.just(0), st.just(0)),
        st.tuples(st.just("hear"), st.just(0), st.just(0)),
        st.tuples(st.just("bound"), st.just(0), st.integers(1, BOUND)),
    )
)


@given(STEPS)
def test_bound_holds_and_nobody_waits_for_ever(steps: list[tuple[str, int, int]]) -> None:
    bench = Bench()
    for what, number, amount in steps:
        if what == "deliver":
            before = bench.shared.spent
            if bench.deliver(number, amount):
                assert before < bench.bound
        elif what == "write" and bench.unwritten:
            bench.write()
        elif what == "hear":
            bench.hear()
        elif what == "bound":
            bench.bound = amount
        assert bench.shared.spent == sum(cost for _, cost in bench.unwritten)
    while bench.unwritten:
        bench.write()
    bench.hear()
    assert not bench.shared.waiting
    assert not any(window.is_shut for window in bench.windows)
