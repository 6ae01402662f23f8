"""Goal: a node that starts drops no dead letter for a queue that was declared while it was away.

Method: whole brokers in simulated time; a message expires while its node is down, and the others
agree on the queue for dead letters meanwhile. The node recovers alone and stays so for a while.
Without the wait, the planted mistake, the letter must be missing.
"""

from __future__ import annotations

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.types import Table
from sluicemq.chain.definitions.cluster_agreement import ClusterAgreement
from support.linked_brokers import Cluster

TTL_MS = 1_000
ALONE_MS = 2_000
DYING: Table = {
    "x-message-ttl": TTL_MS,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "dead",
}


@pytest.mark.parametrize("is_planted", [False, True], ids=["", "planted: definitions as they are"])
def test_a_dead_letter_waits_for_what_the_cluster_has_agreed_on(is_planted: bool) -> None:
    run = Cluster()
    first, *_, last = run.brokers
    client = last.connect()
    client.call(1, m.QueueDeclare(queue="q", durable=True, arguments=DYING), m.QueueDeclareOk)
    client.publish(b"dies")
    run.until(client.all_confirmed)
    last.crash()
    run.rest(TTL_MS)
    client = first.connect()
    client.call(1, m.QueueDeclare(queue="dead", durable=True), m.QueueDeclareOk)
    run.cut_off(last)
    last.start()
    if is_planted:
        agreement = last.node.broker.clustered
        assert isinstance(agreement, ClusterAgreement)
        agreement.is_ready = True
    run.rest(ALONE_MS)
    depth = last.node.broker.vhosts["/"].queues["q"].machine.depth
    assert depth.ready + depth.unacked == (not is_planted)
    run.network.cut({})
    run.until(lambda: last.has("dead") and last.node.is_open and last.is_up(first.number))
    run.rest(ALONE_MS)
    assert client.depth("dead") == (not is_planted)
    assert last.connect().depth() == 0
    run.no_faults()
