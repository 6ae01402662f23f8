"""Goal: what a node has been dealt for its consumers reaches none of them any more when others may
have it: after a minute in which it could not be reached.

Method: whole brokers in simulated time; a consumer that reads nothing, so that much waits for it,
on a node that is cut off, and reads on later. Without the lease the same run must show that two
consumers have a message at one time.
"""

from __future__ import annotations

import pytest

from sluicemq.chain.queue.quorum.lease import DeliveryLease
from sluicemq.kernel.socket_messages import Writable
from support.linked_brokers import Cluster, LinkedBroker, LinkedClient

BODY = b"x" * 12_000
MESSAGES = 700
"""More than two delivery windows of a channel: the rest waits in the queue. What was handed to the
channel counts as delivered, whether its client reads it or not."""


def reads_on(client: LinkedClient) -> None:
    client.broker.net.full.discard(client.number)
    client.reader.writer.post(Writable())


def with_a_slow_consumer(leads: bool) -> tuple[Cluster, LinkedClient, LinkedBroker]:
    """A cluster, a consumer that does not read on the node that leads or on another one, and the
    node of those that are left that will lead or leads."""
    run = Cluster()
    run.declare()
    leader = run.leader()
    others = [each for each in run.brokers if each is not leader]
    client = (leader if leads else others[0]).connect()
    client.consume()
    client.broker.net.full.add(client.number)
    publisher = others[1].connect()
    publisher.publish(*[BODY] * MESSAGES)
    run.until(publisher.all_confirmed)
    run.rest(2000)
    assert len(client.bodies) < MESSAGES, "everything was delivered already"
    return run, client, others[1]


@pytest.mark.parametrize(
    ("leads", "is_planted"),
    [(False, False), (True, False), (False, True)],
    ids=["follower", "leader", "planted: no lease"],
)
def test_who_is_cut_off_delivers_nothing_that_others_may_have(
    leads: bool, is_planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_planted:
        monkeypatch.setattr(DeliveryLease, "is_held", lambda _: True)
    run, slow, other = with_a_slow_consumer(leads)
    run.cut_off(slow.broker)
    consumer = other.connect()
    consumer.consume()
    run.until(lambda: len(consumer.bodies) == MESSAGES, 120_000)
    reads_on(slow)
    run.rest(3000)
    assert (len(slow.bodies) == MESSAGES) is is_planted
    run.no_faults()


def test_a_short_cut_holds_nobody_up_for_good() -> None:
    run, slow, _ = with_a_slow_consumer(leads=False)
    run.cut_off(slow.broker)
    run.rest(30_000)
    reads_on(slow)
    run.rest(3000)
    assert len(slow.bodies) < MESSAGES, "there is no lease"
    run.network.cut({})
    run.until(lambda: len(slow.bodies) == MESSAGES)
    assert not any(redelivered for _, _, redelivered in slow.delivered)
    run.no_faults()
