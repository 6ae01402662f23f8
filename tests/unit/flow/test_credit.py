"""Goal: credit is conserved, bounds what is held, and never locks up.

Method: random schedules on a chain of three links whose actors are moved one inbox entry at a time,
with further gates shut and opened between; `Chain.check` looks at every link after every step.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Refused
from sluicemq.flow.budget import Budget
from sluicemq.flow.credit import Grant, LinkSpec
from sluicemq.flow.gate import Gate

from .chain_model import SECOND_NS, Chain

PUBLISH, STEP, SHUT, OPEN, TICK = range(5)


@st.composite
def specs(draw: st.DrawFn) -> LinkSpec:
    initial = draw(st.integers(1, 30))
    return LinkSpec(initial, draw(st.integers(1, initial)))


budgets = st.one_of(
    st.none(),
    st.builds(
        Budget,
        messages=st.integers(1, 60),
        bytes=st.integers(1, 60_000),
        floor=st.integers(1, 4),
        ceiling=st.integers(4, 40),
    ),
)

schedules = st.lists(
    st.one_of(
        st.tuples(st.just(PUBLISH), st.integers(1, 12), st.integers(0, 5000)),
        st.tuples(st.just(STEP), st.integers(0, 3), st.integers(1, 5)),
        st.tuples(st.sampled_from([SHUT, OPEN]), st.integers(1, 3), st.just(0)),
        st.tuples(st.just(TICK), st.integers(1, 3), st.just(0)),
    ),
    max_size=150,
)


def play(chain: Chain, gates: list[Gate], schedule: list[tuple[int, int, int]]) -> int:
    """Everything the schedule says, checked after each step; the messages published."""
    published = 0
    for what, first, second in schedule:
        if what == PUBLISH:
            published += first * chain.publish(first, second)
        elif what == STEP:
            for _ in range(second):
                chain.hops[first].step()
                chain.check()
        elif what == SHUT:
            gates[first].shut()
        elif what == OPEN:
            gates[first].open()
        else:
            chain.clock.time_ns += first * SECOND_NS // 2
            if chain.budget is not None:
                chain.budget.tick(chain.clock.time_ns)
        chain.check()
    return published


@given(st.lists(specs(), min_size=3, max_size=3), budgets, schedules)
def test_credit_is_conserved_and_everything_flows_again(
    links: list[LinkSpec], budget: Budget | None, schedule: list[tuple[int, int, int]]
) -> None:
    """Then open what is shut and let all actors run: nothing is stuck, nothing kept back, and
    a publisher that goes on for ever is never stopped for ever."""
    chain = Chain(links, budget)
    gates = [Gate(hop.keeper, "window") for hop in chain.hops]
    published = play(chain, gates, schedule)
    for _ in range(20):
        for gate in gates:
            gate.open()
        chain.run()
        for hop in chain.hops:
            assert hop.keeper.gates_shut == 0
            assert hop.keeper.deferred == []
            assert hop.seen == published
        assert chain.publish(7)
        published += 7


@given(st.lists(specs(), min_size=3, max_size=3), budgets, schedules)
def test_what_a_chain_holds_is_bounded_by_its_credits(
    links: list[LinkSpec], budget: Budget | None, schedule: list[tuple[int, int, int]]
) -> None:
    """The store stands still: one batch at a time past the sum of the initial credits."""
    chain = Chain(links, budget)
    gates = [Gate(hop.keeper, "window") for hop in chain.hops]
    play(chain, gates, [step for step in schedule if step[:2] != (STEP, 3)])
    for _ in range(100):
        if not chain.publish(5):
            break
        chain.run_all_but("store")
    else:
        pytest.fail("the reader is never stopped")
    held = chain.reader.seen - chain.hop("store").seen
    assert held <= sum(spec.initial for spec in links) + 12 * len(links)


def test_more_after_equal_to_initial_stalls_for_a_cycle_only() -> None:
    chain = Chain([LinkSpec(10, 10)])
    for _ in range(10):
        assert chain.publish(1)
    assert not chain.publish(1)
    for _ in range(9):
        chain.hops[1].step()
        assert not chain.hops[0].inbox
    chain.run()
    assert chain.publish(1)


def test_grant_counts_many_units_at_once() -> None:
    chain = Chain([LinkSpec(200, 50)])
    chain.publish(170)
    chain.hops[1].step()
    [grant] = chain.reader.inbox
    assert isinstance(grant, Grant)
    assert grant.amount == 150
    assert chain.hops[1].inflow is not None
    assert chain.hops[1].inflow.owed == 20


@pytest.mark.parametrize(
    ("initial", "more_after"), [(0, 0), (1, 0), (5, 6), (-1, -1), (1_000_001, 1)]
)
def test_specification_that_would_lock_up_is_refused(initial: int, more_after: int) -> None:
    with pytest.raises(Refused, match=f"{initial}, {more_after}"):
        LinkSpec(initial, more_after)


@pytest.mark.parametrize(("initial", "more_after"), [(1, 1), (5, 5), (1_000_000, 1)])
def test_specification_at_the_edges_is_taken(initial: int, more_after: int) -> None:
    assert repr(LinkSpec(initial, more_after)) == f"{{{initial},{more_after}}}"


@pytest.mark.parametrize("adaptive", [False, True], ids=["fixed", "adaptive"])
def test_detached_receiver_holds_up_nobody_and_its_grants_are_ignored(adaptive: bool) -> None:
    """The receiver dies while its sender is shut and a grant is on its way."""
    chain = Chain([LinkSpec(10, 5)], Budget(20, 10**9, 1, 20) if adaptive else None)
    chain.publish(10)
    chain.hops[1].step()
    outflow = chain.reader.outflow
    assert outflow is not None
    outflow.detach()
    assert chain.reader.keeper.gates_shut == 0
    chain.reader.step()
    outflow.spend(100)
    assert chain.reader.keeper.gates_shut == 0


@pytest.mark.parametrize("adaptive", [False, True], ids=["fixed", "adaptive"])
def test_detached_sender_is_granted_nothing(adaptive: bool) -> None:
    """The sender dies while grants to it are deferred, and while it has messages under way."""
    budget = Budget(20, 10**9, 1, 20) if adaptive else None
    chain = Chain([LinkSpec(10, 5)], budget)
    chain.publish(5)
    chain.publish(5)
    channel = chain.hops[1]
    gate = Gate(channel.keeper, "window")
    gate.shut()
    channel.step()
    assert channel.inflow is not None
    assert channel.inflow.deferred == 5
    channel.inflow.detach()
    channel.inflow.detach()
    gate.open()
    channel.step()
    assert chain.reader.inbox == []
    if budget is not None:
        assert budget.links == 0
