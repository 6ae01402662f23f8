"""Goal: a keeper counts its gates and its time right, and lets go only when the last one opens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.flow.gate import Gate, GrantHolder

from .chain_model import SECOND_NS, FakeClock, Keeper


class Holder(GrantHolder):
    """Writes down when it was let go."""

    __slots__ = ("let_go", "name")

    def __init__(self, name: str, let_go: list[str]) -> None:
        self.name = name
        self.let_go = let_go

    def release_deferred(self) -> None:
        self.let_go.append(self.name)


def test_gate_counts_once_when_shut_twice() -> None:
    keeper = Keeper(FakeClock())
    gate = Gate(keeper, "g")
    gate.shut()
    gate.shut()
    assert (keeper.gates_shut, gate.shut_count, gate.is_shut) == (1, 1, True)
    gate.open()
    gate.open()
    assert (keeper.gates_shut, gate.shut_count, gate.is_shut) == (0, 1, False)


def test_one_peer_with_two_gates_holds_up_until_both_are_open() -> None:
    """Spec 1.6: blocked by the counter and directly; a single unblock leaves it blocked."""
    keeper = Keeper(FakeClock())
    credit, window = Gate(keeper, "credit"), Gate(keeper, "window")
    credit.shut()
    window.shut()
    credit.open()
    assert keeper.gates_shut == 1
    assert keeper.resumed == 0
    window.open()
    assert keeper.gates_shut == 0
    assert keeper.resumed == 1


def test_deferred_grants_are_let_go_in_order_before_the_owner_hears_of_it() -> None:
    keeper = Keeper(FakeClock())
    gate, other = Gate(keeper, "a"), Gate(keeper, "b")
    let_go: list[str] = []
    gate.shut()
    other.shut()
    keeper.deferred += [Holder("first", let_go), Holder("second", let_go)]
    gate.open()
    assert let_go == []
    other.open()
    assert let_go == ["first", "second"]
    assert keeper.deferred == []
    assert keeper.deferred_at_resume == 0


def test_in_flow_is_sticky_from_the_time_it_began() -> None:
    """Spec 1.2 item 9: blocked now, or blocked_at less than the sticky time ago."""
    clock = FakeClock()
    keeper = Keeper(clock)
    gate = Gate(keeper, "g")
    began_ns = clock.time_ns
    assert not keeper.in_flow(began_ns, SECOND_NS)
    gate.shut()
    assert keeper.in_flow(began_ns + 10 * SECOND_NS, SECOND_NS)
    clock.time_ns += 100
    gate.open()
    assert keeper.in_flow(began_ns + SECOND_NS - 1, SECOND_NS)
    assert not keeper.in_flow(began_ns + SECOND_NS, SECOND_NS)


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 50))))
def test_times_and_counts_equal_those_added_up_naively(
    schedule: list[tuple[int, bool, int]],
) -> None:
    """Any schedule of three gates: compare with a model that adds each nanosecond up."""
    clock = FakeClock()
    keeper = Keeper(clock)
    gates = [Gate(keeper, name) for name in "abc"]
    shut = [False] * 3
    gate_ns = [0] * 3
    keeper_ns = 0
    resumed = 0
    for index, shuts, wait_ns in schedule:
        if shuts:
            gates[index].shut()
        else:
            gates[index].open()
        if shut[index] and not shuts and sum(shut) == 1:
            resumed += 1
        shut[index] = shuts
        clock.time_ns += wait_ns
        gate_ns = [ns + wait_ns * is_shut for ns, is_shut in zip(gate_ns, shut, strict=True)]
        keeper_ns += wait_ns * any(shut)
        assert keeper.gates_shut == sum(shut)
        assert keeper.blocked_ns(clock.time_ns) == keeper_ns
        assert [gate.blocked_ns(clock.time_ns) for gate in gates] == gate_ns
        assert keeper.resumed == resumed
