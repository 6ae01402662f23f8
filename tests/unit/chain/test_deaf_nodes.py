"""Goal: a node that hears nothing and goes on to talk is missed as soon as one that is silent.

Method: whole brokers in simulated time, with a quorum queue on all three; what the others say does
not reach the one that leads. Without the detector's part, the planted mistake, the same run must
show the difference.
"""

from __future__ import annotations

import pytest

from sluicemq.cluster.cluster_port import NodeStanding
from sluicemq.cluster.detector import FailureDetector
from support.linked_brokers import Cluster, LinkedBroker

MISSED_MS = 2_000
"""A node is suspected after a second; who waits for it campaigns within another one."""


def is_suspected(by: LinkedBroker, other: LinkedBroker) -> bool:
    membership = by.node.membership
    assert membership is not None
    return membership.cluster.standing(other.number) is NodeStanding.SUSPECTED


@pytest.mark.parametrize("is_planted", [False, True], ids=["", "planted: nobody notes answers"])
def test_a_leader_that_hears_nothing_is_missed_within_two_seconds(
    is_planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_planted:
        monkeypatch.setattr(FailureDetector, "is_deaf", lambda *_: False)
    run = Cluster()
    run.declare()
    leader = run.leader()
    others = [each for each in run.brokers if each is not leader]
    client = others[0].connect()
    client.publish(b"before")
    run.until(client.all_confirmed)
    run.network.cut({(each.host, leader.host): None for each in others})
    client.publish(b"after")
    run.rest(MISSED_MS)
    assert client.all_confirmed() is not is_planted
    assert is_suspected(others[0], leader) is not is_planted
    run.until(client.all_confirmed)
    run.network.cut({})
    run.until(lambda: all(each.is_up(leader.number) for each in others))
    run.no_faults()
