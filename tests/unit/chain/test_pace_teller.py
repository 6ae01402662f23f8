"""Goal: while queues of a node lag, the nodes whose channels publish to them hold their publishers,
and no longer. Method: whole nodes over a wire that the test moves (support/paired.py), and the
totals of a queue by hand.
"""

from __future__ import annotations

from sluicemq.amqp import methods as m
from sluicemq.chain.pacer import LAG_MIN, Pacer, QueuePace
from sluicemq.chain.remote.pace_teller import AGAIN_MS, FIRST_MS, PaceTeller
from support.paired import Group


def lagging() -> tuple[Group, QueuePace, list[Pacer]]:
    """Three nodes, and their pacers; a channel of the first publishes to a queue of the second, and
    one of the third consumes from it."""
    group = Group(3)
    group.declare("q", home=2)
    publisher, consumer = group[1].connect(), group[3].connect()
    publisher.open(1)
    consumer.open(1)
    publisher.publish(1, "q", b"1")
    consumer.send(1, m.BasicConsume(queue="q", consumer_tag="c"))
    pacers = [group[number].node.broker.pacer for number in group.numbers]
    found = [each for each in pacers if each is not None]
    assert len(found) == 3
    pace = QueuePace()
    found[1].note(pace, 2 * LAG_MIN, 0, 2 * LAG_MIN)
    group.run()
    return group, pace, found


def let_pass(group: Group, time_ms: int) -> None:
    """Let time pass for the teller of the second node."""
    clock = group[2].world.clock
    clock.time_ns += time_ms * 10**6
    for timer in [*clock.timers]:
        due_ns, actor, message = timer
        if isinstance(actor, PaceTeller) and due_ns <= clock.time_ns:
            clock.timers.remove(timer)
            actor.post(message)
    group.run()


def test_who_publishes_to_a_node_that_lags_is_held_until_it_lags_no_more() -> None:
    group, pace, pacers = lagging()
    assert [each.is_held for each in pacers] == [False, True, False]
    let_pass(group, FIRST_MS)
    assert [each.is_held for each in pacers] == [True, True, False]
    assert not pacers[0].lags
    pacers[1].note(pace, 2 * LAG_MIN, 2 * LAG_MIN, 0)
    group.run()
    assert [each.is_held for each in pacers] == [False, False, False]


def test_a_short_lag_is_told_to_nobody() -> None:
    group, pace, pacers = lagging()
    pacers[1].note(pace, 2 * LAG_MIN, 2 * LAG_MIN, 0)
    let_pass(group, FIRST_MS)
    assert [each.held_count for each in pacers] == [0, 1, 0]


def test_a_lag_is_told_again_and_not_after_the_link_is_lost() -> None:
    group, _, pacers = lagging()
    let_pass(group, FIRST_MS)
    first = pacers[0].others[2]
    group[1].world.clock.time_ns += 1
    let_pass(group, AGAIN_MS)
    assert pacers[0].others[2] > first
    group.cut(1, 2)
    group.run()
    assert not pacers[0].is_held
