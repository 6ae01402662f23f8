"""Goal: links share one budget, shrink and grow with it, and none of them ever locks up.

Method: many publishers' links to receivers of their own under one budget, in random schedules.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Refused
from sluicemq.flow.budget import AdaptiveInflow, Budget
from sluicemq.flow.credit import LinkSpec, Outflow

from .chain_model import SECOND_NS, Chain, FakeClock, Hop


class Fleet:
    """`size` separate links under one budget."""

    def __init__(self, size: int, budget: Budget, spec: LinkSpec) -> None:
        self.clock = FakeClock()
        self.budget = budget
        self.chains = [Chain([spec], budget, self.clock) for _ in range(size)]

    def wait(self, seconds: float) -> None:
        self.clock.time_ns += int(seconds * SECOND_NS)
        self.budget.tick(self.clock.time_ns)

    def run(self) -> None:
        for chain in self.chains:
            chain.run()

    def check(self) -> None:
        for chain in self.chains:
            chain.check()

    def spend_all(self, index: int, size_bytes: int = 0) -> None:
        """The sender goes on until it has no credit left; nothing is handled meanwhile."""
        for _ in range(1000):
            if not self.chains[index].publish(1, size_bytes):
                return
        raise AssertionError("the reader is never stopped")

    def inflow(self, index: int) -> AdaptiveInflow:
        inflow = self.receiver(index).inflow
        assert isinstance(inflow, AdaptiveInflow)
        return inflow

    def outflow(self, index: int) -> Outflow:
        outflow = self.chains[index].reader.outflow
        assert outflow is not None
        return outflow

    def receiver(self, index: int) -> Hop:
        return self.chains[index].hops[1]

    def circulating(self, index: int) -> int:
        inflow = self.inflow(index)
        return inflow.initial - inflow.withheld


ACT = st.one_of(
    st.tuples(st.just("publish"), st.integers(0, 4), st.integers(0, 3000)),
    st.tuples(st.just("handle"), st.integers(0, 4), st.integers(1, 10)),
    st.tuples(st.just("refill"), st.integers(0, 4), st.integers(1, 10)),
    st.tuples(st.just("wait"), st.integers(1, 5), st.just(0)),
)


@given(
    st.integers(1, 50),
    st.integers(1, 20_000),
    st.integers(1, 5),
    st.integers(1, 10),
    st.integers(1, 10),
    st.lists(ACT, max_size=120),
)
def test_sender_without_credit_always_gets_some_when_all_is_settled(
    messages: int,
    size_bytes: int,
    floor: int,
    more: int,
    more_after: int,
    schedule: list[tuple[str, int, int]],
) -> None:
    """After any history each sender spends all it has, and everything is settled and handed over:
    at least the window, and so at least the floor, circulates, and the sender can go on."""
    spec = LinkSpec(floor + 5 * more, min(more_after, floor + 5 * more))
    fleet = Fleet(5, Budget(messages, size_bytes, floor, 40), spec)
    for what, first, second in schedule:
        if what == "publish":
            fleet.chains[first].publish(1 + second % 7, second)
        elif what == "handle":
            for _ in range(second):
                fleet.receiver(first).step()
        elif what == "refill":
            for _ in range(second):
                fleet.chains[first].reader.step()
        else:
            fleet.wait(first / 4)
        fleet.check()
    for index in range(5):
        fleet.spend_all(index, 3000)
    fleet.run()
    for index, chain in enumerate(fleet.chains):
        inflow = fleet.inflow(index)
        assert fleet.circulating(index) >= inflow.window >= min(floor, spec.initial)
        assert fleet.outflow(index).credit > fleet.circulating(index) - inflow.more_after
        assert fleet.outflow(index).credit >= 1
        assert chain.publish(1)


def test_withheld_credit_comes_back_to_a_sender_that_has_none() -> None:
    """Two links shrink to half each; then both receivers stand still, so nothing is settled. After
    an epoch without a message the tick alone gives a sender without credit the whole window."""
    fleet = Fleet(2, Budget(40, 10**9, 1, 40), LinkSpec(40, 10))
    for _ in range(5):
        for index in (0, 1):
            fleet.spend_all(index)
        fleet.run()
    assert [fleet.circulating(index) for index in (0, 1)] == [20, 20]
    fleet.spend_all(0)
    assert fleet.outflow(0).credit == 0
    fleet.wait(1)
    assert fleet.circulating(0) == 20
    fleet.wait(1)
    assert fleet.circulating(0) == 40
    fleet.chains[0].reader.step()
    assert fleet.outflow(0).credit == 20


@pytest.mark.parametrize("publishers", [1, 5, 50, 500])
def test_what_circulates_does_not_grow_with_the_number_of_publishers(publishers: int) -> None:
    """All are busy: together they hold no more than the budget, however many they are."""
    fleet = Fleet(publishers, Budget(1000, 10**9, 1, 200), LinkSpec(200, 50))
    for _ in range(3):
        for index in range(publishers):
            fleet.spend_all(index)
        fleet.run()
    assert fleet.budget.active == publishers
    total = sum(fleet.circulating(index) for index in range(publishers))
    assert total == min(1000, 200 * publishers)


def test_large_messages_shrink_the_window_in_bytes_and_small_ones_let_it_grow() -> None:
    fleet = Fleet(1, Budget(1000, 100_000, 2, 200), LinkSpec(200, 50))
    fleet.spend_all(0, 10_000)
    fleet.run()
    assert fleet.circulating(0) == 10
    fleet.spend_all(0, 1_000_000)
    fleet.run()
    assert fleet.circulating(0) == 2
    for _ in range(40):
        fleet.spend_all(0, 10)
        fleet.run()
    assert fleet.inflow(0).average_bytes == 10
    assert fleet.circulating(0) == 200


def test_link_is_active_in_the_epoch_it_settled_in_and_the_next_one() -> None:
    budget = Budget(1000, 10**9, 1, 200)
    fleet = Fleet(3, budget, LinkSpec(200, 50))
    assert budget.active == 0
    fleet.wait(1)
    for index in (0, 1):
        fleet.chains[index].publish(1)
        fleet.chains[index].publish(1)
    fleet.run()
    assert budget.active == 2
    fleet.wait(1)
    assert budget.active == 2
    fleet.chains[1].publish(1)
    fleet.chains[2].publish(1)
    fleet.run()
    assert budget.active == 3
    fleet.wait(0.5)
    assert budget.active == 3
    fleet.wait(0.5)
    assert budget.active == 2
    fleet.wait(1)
    assert budget.active == 0


def test_new_link_starts_with_its_share_among_all_links() -> None:
    fleet = Fleet(100, Budget(1000, 10**9, 5, 200), LinkSpec(200, 50))
    assert fleet.circulating(0) == 200
    assert fleet.circulating(9) == 100
    assert fleet.circulating(99) == 10
    fleet = Fleet(300, Budget(1000, 10**9, 5, 200), LinkSpec(200, 50))
    assert fleet.outflow(299).credit == 5


def test_window_is_clamped_between_floor_and_ceiling() -> None:
    budget = Budget(messages=100, bytes=50_000, floor=3, ceiling=20)
    assert budget.window(0) == 20
    assert budget.window(5_000) == 10
    assert budget.window(10**9) == 3
    budget.active = 10
    assert budget.window(0) == 10
    assert budget.window(1_000) == 5


def test_unit_of_granting_keeps_its_proportion_to_the_window() -> None:
    fleet = Fleet(1, Budget(10, 10**9, 1, 200), LinkSpec(200, 100))
    assert (fleet.inflow(0).window, fleet.inflow(0).more_after) == (10, 5)
    fleet = Fleet(1, Budget(1, 10**9, 1, 200), LinkSpec(200, 50))
    assert (fleet.inflow(0).window, fleet.inflow(0).more_after) == (1, 1)


@pytest.mark.parametrize(
    "numbers", [(0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 2, 1)], ids=str
)
def test_budget_that_could_stop_everything_is_refused(
    numbers: tuple[int, int, int, int],
) -> None:
    with pytest.raises(Refused, match="flow budget"):
        Budget(*numbers)
