"""Goal: whose turn it is, and how much each may take. Method: small groups of consumers, asked and
dealt to by hand.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.flow.credit import LinkSpec, Outflow
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.prefetch import Limiter, Prefetch
from sluicemq.kernel.actor import Actor
from sluicemq.queues.consumers import Consumer, ConsumerGroups, cost_of
from support.fakes import FakeClock, bystander

KEEPER = GateKeeper(FakeClock())


def window(credit: int = 100) -> Outflow:
    return Outflow(KEEPER, "deliveries", LinkSpec(credit, 1))


def consumer(
    tag: str,
    priority: int = 0,
    prefetch: int = 0,
    limiter: Limiter | None = None,
    outflow: Outflow | None = None,
    no_ack: bool = False,
    exclusive: bool = False,
) -> Consumer:
    return Consumer(
        bystander(),
        tag,
        no_ack,
        exclusive,
        priority,
        Prefetch(prefetch),
        limiter or Limiter(),
        outflow or window(),
        {},
    )


def grouped(*some: Consumer) -> ConsumerGroups:
    groups = ConsumerGroups()
    for one in some:
        groups.add(one)
    return groups


def tags(some: list[Consumer]) -> str:
    return " ".join(one.tag for one in some)


@given(st.lists(st.integers(-2, 2)))
def test_all_are_in_order_of_priority_then_of_arrival(priorities: list[int]) -> None:
    some = [consumer(str(index), priority) for index, priority in enumerate(priorities)]
    groups = grouped(*some)
    assert groups.all() == sorted(some, key=lambda one: -one.priority)
    assert groups.count == len(some)
    for one in some:
        assert groups.remove(one)
        assert not groups.remove(one)
    assert groups.count == 0
    assert groups.able(1, bystander(), 9) == ([], 0)
    assert (groups.rings, groups.busy, groups.of_channel, groups.dead) == ({}, [], {}, 0)


def test_only_the_highest_priority_that_has_room_is_able() -> None:
    high = consumer("high", priority=9, prefetch=1)
    groups = grouped(consumer("low"), high, consumer("low too"))
    queue = bystander()
    assert tags(groups.able(1, queue, 9)[0]) == "high"
    high.take(1, 1)
    assert tags(groups.able(1, queue, 9)[0]) == "low low too"


def test_rooms_are_the_smallest_of_window_and_prefetch() -> None:
    queue = bystander()
    assert consumer("c").room(1, queue) == 100
    assert consumer("c").room(30, queue) == 3
    assert consumer("c").room(1000, queue) == 1, "one may overdraw the window"
    assert consumer("c", prefetch=2).room(30, queue) == 2
    assert consumer("c", prefetch=2, no_ack=True).room(30, queue) == 3
    shut = consumer("c")
    shut.take(100, 1)
    assert shut.room(1, queue) == 0


def test_room_of_several_is_what_each_of_them_can_take() -> None:
    groups = grouped(consumer("a", prefetch=7), consumer("b", prefetch=3), consumer("c"))
    able, each = groups.able(1, bystander(), 9)
    assert (tags(able), each) == ("a b c", 3)


def test_consumers_of_one_channel_share_its_window() -> None:
    shared = window(10)
    a, b = consumer("a", outflow=shared), consumer("b", outflow=shared)
    groups = grouped(a, b, consumer("c"))
    able, each = groups.able(1, bystander(), 9)
    assert (tags(able), each) == ("a b c", 5)
    a.take(9, 1)
    able, each = groups.able(1, bystander(), 9)
    assert (tags(able), each) == ("a", 1), "one by one at the end"


@pytest.mark.parametrize("first_is_limited", [True, False])
def test_with_a_limiter_messages_are_dealt_one_by_one_in_turn(first_is_limited: bool) -> None:
    """The limit may end after any of them; who has none is not passed over."""
    limiter = Limiter()
    limiter.set_limit(2)
    limited, free = consumer("limited", limiter=limiter), consumer("free")
    groups = grouped(limited, free) if first_is_limited else grouped(free, limited)
    queue: Actor = bystander()
    dealt = []
    for _ in range(6):
        able, each = groups.able(1, queue, 9)
        assert (len(able), each) == (1, 1) or able == [free]
        able[0].take(1, 1)
        groups.dealt(able, 1)
        dealt.append(able[0].tag)
    turns = ["limited", "free"] * 2 if first_is_limited else ["free", "limited"] * 2
    assert dealt == [*turns, "free", "free"]


@given(st.integers(1, 6), st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_rotation_goes_on_behind_the_last_who_got_one(size: int, counts: list[int]) -> None:
    groups = grouped(*[consumer(str(index)) for index in range(size)])
    turn = 0
    for count in counts:
        able, _ = groups.able(1, bystander(), count)
        assert able[0].tag == str(turn % size)
        groups.dealt(able, count)
        turn += count


def test_exclusive_is_remembered_until_it_goes() -> None:
    alone = consumer("alone", exclusive=True)
    groups = grouped(alone)
    assert groups.exclusive is alone
    groups.remove(alone)
    assert groups.exclusive is None


def test_cost_counts_started_pages() -> None:
    assert [cost_of(size) for size in (0, 4095, 4096, 8191, 8192)] == [1, 1, 2, 2, 3]


def asked_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tags of those who are asked for their room from now on."""
    asked: list[str] = []
    room = Consumer.room

    def counted(self: Consumer, cost_each: int, queue: Actor) -> int:
        asked.append(self.tag)
        return room(self, cost_each, queue)

    monkeypatch.setattr(Consumer, "room", counted)
    return asked


def serve(groups: ConsumerGroups, messages: int) -> int:
    """Deal so many one by one; returns how many found somebody."""
    for dealt in range(messages):
        able, _ = groups.able(1, bystander(), 1)
        if not able:
            return dealt
        able[0].take(1, 1)
        groups.dealt(able, 1)
    return messages


@pytest.mark.parametrize("sharing", [False, True])
def test_nobody_is_asked_who_gets_nothing(sharing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deal costs what is dealt, however many consumers there are, and whatever they wait for."""
    shared = window(500) if sharing else None
    some = [consumer(str(index), outflow=shared, prefetch=index % 3) for index in range(3000)]
    groups = grouped(*some)
    asked = asked_of(monkeypatch)
    assert serve(groups, 400) == 400
    assert len(asked) == 400
    if shared is None:
        return
    assert serve(groups, 200) == 100
    while not shared.is_shut or groups.able(1, bystander(), 1)[0] or groups.unasked:
        pass
    asked.clear()
    for _ in range(50):
        shared.refill(10)
        groups.wake(shared)
        assert serve(groups, 20) == 10
    assert len(asked) <= 3 * 500


def test_so_many_are_asked_in_one_go_and_no_more() -> None:
    some = [consumer(str(index), prefetch=1) for index in range(25)]
    groups = grouped(*some)
    groups.asks_max = 10
    for one in some[:24]:
        one.take(1, 1)
    found = [(tags(groups.able(1, bystander(), 1)[0]), groups.unasked) for _ in range(3)]
    assert found == [("", True), ("", True), ("24", False)]


def test_those_who_come_and_go_are_not_kept() -> None:
    """Neither in a ring that nobody looks at nor in the line of a window that stays shut."""
    stays, shut = consumer("stays"), window(1)
    shut.spend(1)
    groups = grouped(stays)
    for index in range(1000):
        one = consumer(str(index), outflow=shut if index % 2 else None)
        groups.add(one)
        if index % 2:
            groups.able(1, bystander(), 9)
        groups.remove(one)
        kept = [*groups.rings.values(), *groups.lines.values()]
        assert sum(map(len, kept)) < 30
