"""Goal: consumers of a mirrored queue go on when another node is its master, those that want to
hear of it are cancelled, and only what was out comes again.

Method: whole brokers that are linked over the pipes of the simulation.
"""

from __future__ import annotations

import pytest

from sluicemq.amqp import methods as m
from support.linked_brokers import LinkedClient
from support.mirrored_brokers import Mirrored, Turned, numbered

ON_FAILOVER = {"x-cancel-on-ha-failover": True}


def delivered(client: LinkedClient, count: int) -> list[tuple[bytes, bool]]:
    """Return what the client is delivered, when it is so many messages."""

    def come() -> bool:
        client.poll()
        return len(client.delivered) >= count

    client.run.until(come)
    return [(body, flagged) for _, body, flagged in client.delivered]


def is_cancelled(client: LinkedClient) -> bool:
    client.poll()
    return any(isinstance(each, m.BasicCancel) for each in client.methods)


def published(run: Mirrored, start: int, end: int) -> None:
    client = run.running[-1].connect()
    client.publish(*numbered(start, end))
    run.until(client.all_confirmed)
    client.lose()


@pytest.mark.parametrize("at", [1, 2], ids=["at the new master", "at neither"])
def test_consumers_go_on_when_the_master_dies(at: int) -> None:
    run = Mirrored()
    run.in_sync(3)
    published(run, 0, 20)
    consumer = run.brokers[at].connect()
    consumer.send(2, m.BasicQos(prefetch_count=5))
    consumer.consume()
    assert delivered(consumer, 5) == [(each, False) for each in numbered(0, 5)]
    run.brokers[0].crash(power=True)
    found = delivered(consumer, 10)[5:]
    assert found == [(each, True) for each in numbered(0, 5)]
    assert not is_cancelled(consumer)
    consumer.ack(5, multiple=True)  # of the former master: it has no effect
    consumer.ack(10, multiple=True)
    assert [body for body, _ in delivered(consumer, 15)[10:]] == numbered(5, 10)
    mirrors = [run.member(each).mirror for each in run.running]
    run.until(lambda: [each.messages for each in mirrors] == [15, 15])
    run.no_faults()


@pytest.mark.parametrize("at", [0, 1, 2], ids=["former master", "new master", "neither"])
def test_consumers_go_on_when_a_policy_moves_the_master(at: int) -> None:
    run = Mirrored()
    run.in_sync(3)
    published(run, 0, 3)
    consumer, other = run.brokers[at].connect(), run.brokers[at].connect()
    consumer.consume()
    delivered(consumer, 3)
    other.consume(arguments=ON_FAILOVER)
    run.set_policy({"ha-mode": "nodes", "ha-params": ["n2"]})
    run.until(lambda: run.masters() == [run.brokers[1]])
    run.until(lambda: is_cancelled(other))
    assert delivered(consumer, 6)[3:] == [(each, True) for each in numbered(0, 3)]
    published(run, 3, 6)
    assert [body for body, _ in delivered(consumer, 9)[6:]] == numbered(3, 6)
    assert not is_cancelled(consumer)
    run.no_faults()


def test_who_asks_while_there_is_no_master_is_answered_by_the_next() -> None:
    run = Mirrored()
    run.in_sync(3)
    published(run, 0, 3)
    clients = [each.connect() for each in run.brokers[1:]]
    run.brokers[0].crash()
    for client in clients:
        client.consume()
    run.until(lambda: sum(len(delivered(each, 0)) for each in clients) == 3)
    run.no_faults()


def test_consumers_are_cancelled_when_no_master_comes() -> None:
    run = Mirrored({"ha-mode": "nodes", "ha-params": ["n1"]})
    run.in_sync(1)
    consumer = run.brokers[1].connect()
    consumer.consume()
    run.brokers[0].crash()
    run.until(lambda: is_cancelled(consumer))
    run.no_faults()


def test_consumers_go_on_when_a_queue_becomes_mirrored() -> None:
    run = Turned()
    published(run, 0, 3)
    consumers = [each.connect() for each in run.brokers]
    for consumer in consumers:
        consumer.consume()
    run.until(lambda: sum(len(delivered(each, 0)) for each in consumers) == 3)
    run.set_policy({"ha-mode": "all"})
    run.in_sync(3)
    published(run, 3, 6)
    left = [each for each in consumers if not is_cancelled(each)]
    assert consumers[0] in left
    run.until(lambda: sum(len(delivered(each, 0)) for each in left) >= 6)
    run.no_faults()
