"""Goal: a node that starts, or is behind, drops no dead letter for a queue that was declared
meanwhile; a letter that goes nowhere is dropped soon where nothing is missed.

Method: whole brokers in simulated time; a message expires while its node is down or cut off, and
the others agree on the queue for dead letters meanwhile. The node is alone for a while. Without the
wait, the planted mistake, the letter must be missing.
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
def test_a_dead_letter_waits_for_what_the_cluster_has_agreed_on(
    is_planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        monkeypatch.setattr(ClusterAgreement, "is_current", True)
    run.rest(ALONE_MS)
    depth = last.node.broker.vhosts["/"].queues["q"].machine.depth
    assert depth.ready + depth.unacked == (not is_planted)
    run.network.cut({})
    run.until(lambda: last.has("dead") and last.node.is_open and last.is_up(first.number))
    run.rest(ALONE_MS)
    assert client.depth("dead") == (not is_planted)
    assert last.connect().depth() == 0
    run.no_faults()


def dying_at_the_last(run: Cluster) -> None:
    """Have a message that is about to die on the last node, and no queue for dead letters."""
    client = run.brokers[-1].connect()
    client.call(1, m.QueueDeclare(queue="q", durable=True, arguments=DYING), m.QueueDeclareOk)
    client.publish(b"dies")
    run.until(client.all_confirmed)


@pytest.mark.parametrize("is_planted", [False, True], ids=["", "planted: definitions as they are"])
def test_a_dead_letter_that_goes_nowhere_waits_while_its_node_may_be_behind(
    is_planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Cluster()
    first, *_, last = run.brokers
    if is_planted:
        monkeypatch.setattr(ClusterAgreement, "is_current", True)
    dying_at_the_last(run)
    run.cut_off(last)
    client = first.connect()
    client.call(1, m.QueueDeclare(queue="dead", durable=True), m.QueueDeclareOk)
    run.rest(TTL_MS + ALONE_MS)
    depth = last.node.broker.vhosts["/"].queues["q"].machine.depth
    assert depth.ready + depth.unacked == (not is_planted)
    run.network.cut({})
    run.until(lambda: last.has("dead") and last.is_up(first.number))
    run.rest(ALONE_MS)
    assert client.depth("dead") == (not is_planted)
    assert last.connect().depth() == 0
    run.no_faults()


def test_a_dead_letter_that_goes_nowhere_is_dropped_by_a_node_that_is_current() -> None:
    run = Cluster()
    dying_at_the_last(run)
    run.rest(TTL_MS + ALONE_MS)
    assert run.brokers[-1].connect().depth() == 0
    run.no_faults()
