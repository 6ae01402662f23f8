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

from ..fakes import FakeClock, bystander

KEEPER = GateKeeper(FakeClock())


def window(credit: int = 100) -> Outflow:
    return Outflow(KEEPER, "deliveries", bystander(), LinkSpec(credit, 1))


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
    assert (groups.groups, groups.count) == ([], 0)


def test_only_the_highest_priority_that_has_room_is_able() -> None:
    high = consumer("high", priority=9, prefetch=1)
    groups = grouped(consumer("low"), high, consumer("low too"))
    queue = bystander()
    assert tags(groups.able(1, queue)[0]) == "high"
    high.take(1, 1)
    assert tags(groups.able(1, queue)[0]) == "low low too"


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
    able, each, _ = groups.able(1, bystander())
    assert (tags(able), each) == ("a b c", 3)


def test_consumers_of_one_channel_share_its_window() -> None:
    shared = window(10)
    a, b = consumer("a", outflow=shared), consumer("b", outflow=shared)
    groups = grouped(a, b, consumer("c"))
    able, each, _ = groups.able(1, bystander())
    assert (tags(able), each) == ("a b c", 5)
    a.take(9, 1)
    able, each, _ = groups.able(1, bystander())
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
        able, each, group = groups.able(1, queue)
        assert (len(able), each) == (1, 1) or able == [free]
        able[0].take(1, 1)
        groups.rotate(group, able, 1)
        dealt.append(able[0].tag)
    turns = ["limited", "free"] * 2 if first_is_limited else ["free", "limited"] * 2
    assert dealt == [*turns, "free", "free"]


@given(st.integers(1, 6), st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_rotation_goes_on_behind_the_last_who_got_one(size: int, counts: list[int]) -> None:
    groups = grouped(*[consumer(str(index)) for index in range(size)])
    turn = 0
    for count in counts:
        able, _, group = groups.able(1, bystander())
        assert able[0].tag == str(turn % size)
        groups.rotate(group, able, count)
        turn += count


def test_exclusive_is_remembered_until_it_goes() -> None:
    alone = consumer("alone", exclusive=True)
    groups = grouped(alone)
    assert groups.exclusive is alone
    groups.remove(alone)
    assert groups.exclusive is None


def test_cost_counts_started_pages() -> None:
    assert [cost_of(size) for size in (0, 4095, 4096, 8191, 8192)] == [1, 1, 2, 2, 3]
