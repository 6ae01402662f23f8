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
        assert prefetch.held == held
        assert prefetch.exhausted == (held == limit)


def test_consumer_without_a_limit_takes_everything() -> None:
    prefetch = Prefetch(0)
    assert prefetch.take(10**6) == 10**6
    assert not prefetch.exhausted
    assert not prefetch.give(10**6)
    assert prefetch.held == 0


def test_consumer_cannot_give_back_what_it_does_not_hold() -> None:
    prefetch = Prefetch(5)
    prefetch.take(2)
    with pytest.raises(AssertionError):
        prefetch.give(3)


def queues(n: int) -> list[Actor]:
    return [Actor(Scheduler()) for _ in range(n)]


def resumed(some: list[Actor]) -> list[int]:
    """Which of the queues were told to ask again; their inboxes are empty after it."""
    told = [index for index, queue in enumerate(some) if queue.inbox]
    for queue in some:
        assert all(isinstance(message, Resume) for message in queue.inbox)
        assert len(queue.inbox) <= 1
        queue.inbox.clear()
    return told


def test_limiter_that_is_off_permits_everything_and_counts_nothing() -> None:
    limiter = Limiter()
    [queue] = queues(1)
    assert limiter.take(queue, 1000) == 1000
    limiter.give(1000)
    assert limiter.held == 0


def test_refused_queues_are_resumed_once_when_there_is_room() -> None:
    limiter = Limiter()
    limiter.set_limit(10, 0)
    a, b, c = some = queues(3)
    assert limiter.take(a, 6) == 6
    assert limiter.take(b, 6) == 4
    assert limiter.take(b, 1) == 0
    assert limiter.take(c, 1) == 0
    assert resumed(some) == []
    limiter.give(3)
    assert resumed(some) == [1, 2]
    limiter.give(1)
    assert resumed(some) == []


def test_each_time_another_queue_is_the_first_to_ask_again() -> None:
    """Three queues with endless messages and room for one: each gets its share."""
    limiter = Limiter()
    limiter.set_limit(1, 0)
    scheduler = Scheduler()
    some = [Actor(scheduler) for _ in range(3)]
    got = [0, 0, 0]
    for index, queue in enumerate(some):
        got[index] += limiter.take(queue, 5)
    for _ in range(30):
        limiter.give(1)
        asking = list(scheduler.ready)
        scheduler.ready.clear()
        for queue in asking:
            queue.scheduled = False
            queue.inbox.clear()
            got[some.index(queue)] += limiter.take(queue, 5)
    assert sum(got) == 31
    assert min(got) >= 10


def test_limit_set_later_begins_with_what_is_unacked() -> None:
    limiter = Limiter()
    [queue] = queues(1)
    limiter.set_limit(5, 3)
    assert limiter.take(queue, 5) == 2


def test_limit_changed_keeps_the_count_and_a_higher_one_resumes() -> None:
    """What is on its way to the channel is in the limiter's count, not in the channel's."""
    limiter = Limiter()
    some = [queue] = queues(1)
    limiter.set_limit(5, 0)
    limiter.take(queue, 9)
    limiter.set_limit(4, 0)
    assert resumed(some) == []
    limiter.set_limit(8, 0)
    assert resumed(some) == [0]
    assert limiter.take(queue, 9) == 3


def test_limit_switched_off_resumes() -> None:
    limiter = Limiter()
    some = [queue] = queues(1)
    limiter.set_limit(1, 1)
    assert limiter.take(queue, 1) == 0
    limiter.set_limit(0, 1)
    assert resumed(some) == [0]
    assert limiter.take(queue, 7) == 7


def test_acks_of_deliveries_from_before_the_limit_do_not_make_room_for_more() -> None:
    limiter = Limiter()
    [queue] = queues(1)
    limiter.set_limit(5, 0)
    limiter.give(3)
    assert limiter.take(queue, 9) == 5
