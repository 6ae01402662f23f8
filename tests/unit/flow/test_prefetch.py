"""Goal: consumers and channels never hold more than their limit, and refused queues come again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.flow.prefetch import Limiter, Prefetch, Resume
from sluicemq.kernel.actor import Actor, Scheduler


@given(st.integers(1, 20), st.lists(st.tuples(st.booleans(), st.integers(0, 30))))
def test_consumer_never_holds_more_than_its_limit(
    limit: int, schedule: list[tuple[bool, int]]
) -> None:
    prefetch = Prefetch(limit)
    held = 0
    for takes, n in schedule:
        if takes:
            taken = prefetch.take(n)
            assert taken == min(n, limit - held)
            held += taken
        else:
            given_back = min(n, held)
            assert prefetch.give(given_back) == (held == limit and given_back > 0)
            held -= given_back
        assert prefetch.unacked == held
        assert prefetch.exhausted == (held == limit)


def test_consumer_without_a_limit_takes_everything() -> None:
    prefetch = Prefetch(0)
    assert prefetch.take(10**6) == 10**6
    assert not prefetch.exhausted
    assert not prefetch.give(10**6)
    assert prefetch.unacked == 0


def test_consumer_cannot_give_back_what_it_does_not_hold() -> None:
    prefetch = Prefetch(5)
    prefetch.take(2)
    with pytest.raises(AssertionError):
        prefetch.give(3)


def queues(n: int) -> list[Actor]:
    scheduler = Scheduler()
    return [Actor(scheduler) for _ in range(n)]


def invited(some: list[Actor]) -> list[int]:
    """Which of the queues were told to ask again; their inboxes are empty after it."""
    told = [index for index, queue in enumerate(some) if queue.inbox]
    for queue in some:
        assert all(isinstance(message, Resume) for message in queue.inbox)
        assert len(queue.inbox) <= 1
        queue.inbox.clear()
    return told


def deliver(limiter: Limiter, queue: Actor, wanted: int) -> int:
    """As a queue does: one by one, as long as it may."""
    done = 0
    while done < wanted and limiter.permits(queue):
        limiter.take(1)
        done += 1
    return done


def test_limiter_that_is_off_permits_everything_and_counts() -> None:
    limiter = Limiter()
    [queue] = queues(1)
    assert deliver(limiter, queue, 1000) == 1000
    assert limiter.unacked == 1000
    limiter.give(1000)
    assert limiter.unacked == 0


def test_refused_queues_are_invited_one_after_the_other() -> None:
    limiter = Limiter()
    limiter.set_limit(10)
    a, b, c = some = queues(3)
    assert deliver(limiter, a, 6) == 6
    assert deliver(limiter, b, 6) == 4
    assert deliver(limiter, c, 1) == 0
    assert invited(some) == []
    limiter.give(3)
    assert invited(some) == [1]
    assert deliver(limiter, c, 1) == deliver(limiter, a, 1) == 0, "b has not had its turn"
    assert deliver(limiter, b, 2) == 2
    limiter.had_turn(b)
    assert invited(some) == [2]
    assert deliver(limiter, c, 1) == 1
    limiter.had_turn(c)
    assert invited(some) == [], "there is no room for a"
    limiter.give(1)
    assert invited(some) == [0]


def test_invitation_that_is_not_wanted_any_more_goes_to_the_next() -> None:
    limiter = Limiter()
    limiter.set_limit(1)
    a, b, c = some = queues(3)
    for queue in some:
        deliver(limiter, queue, 2)
    limiter.give(1)
    assert invited(some) == [0]
    limiter.had_turn(c)
    assert invited(some) == [], "it is not c that was asked"
    limiter.had_turn(a)
    assert invited(some) == [1]
    limiter.had_turn(b)
    assert invited(some) == [2]
    limiter.had_turn(c)
    assert invited(some) == []
    assert deliver(limiter, a, 1) == 1, "nobody is waited for"


def test_queue_that_makes_the_room_is_no_nearer_to_it() -> None:
    """Three queues with endless messages and room for one, all of it made by acks to the first,
    which asks at the end of the turn in which it heard of them."""
    limiter = Limiter()
    limiter.set_limit(1)
    some = queues(3)
    got = [deliver(limiter, queue, 5) for queue in some]
    for _ in range(30):
        limiter.give(1)
        got[0] += deliver(limiter, some[0], 5)
        for index in invited(some):
            got[index] += deliver(limiter, some[index], 5)
            limiter.had_turn(some[index])
    assert sum(got) == 31
    assert min(got) >= 10


def test_limit_set_later_counts_what_was_delivered_before_it() -> None:
    """Also what the channel has not yet seen."""
    limiter = Limiter()
    [queue] = queues(1)
    deliver(limiter, queue, 3)
    limiter.set_limit(5)
    assert deliver(limiter, queue, 5) == 2
    limiter.give(3)
    assert deliver(limiter, queue, 9) == 3


def test_limit_changed_keeps_the_count_and_a_higher_one_invites() -> None:
    limiter = Limiter()
    some = [queue] = queues(1)
    limiter.set_limit(5)
    deliver(limiter, queue, 9)
    limiter.set_limit(4)
    assert invited(some) == []
    limiter.set_limit(8)
    assert invited(some) == [0]
    assert deliver(limiter, queue, 9) == 3


def test_limit_switched_off_invites() -> None:
    limiter = Limiter()
    some = [queue] = queues(1)
    limiter.set_limit(1)
    deliver(limiter, queue, 2)
    limiter.set_limit(0)
    assert invited(some) == [0]
    assert deliver(limiter, queue, 7) == 7


def test_limiter_cannot_be_given_what_it_does_not_hold() -> None:
    limiter = Limiter()
    limiter.take(1)
    with pytest.raises(AssertionError):
        limiter.give(2)
