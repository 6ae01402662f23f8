"""Goal: a node whose disk stands still, or whose clock is off, leads nothing, and one whose storage
has failed ends; the others go on.

Method: whole brokers in simulated time, with a quorum queue on all three. Without what is tested,
the planted mistakes, the same runs must show the difference.
"""

from __future__ import annotations

import pytest

from sluicemq.chain.store.group_commit import GroupCommit
from sluicemq.cluster.cluster import NodeCluster
from sluicemq.cluster.cluster_port import NodeStanding
from support.linked_brokers import Cluster, LinkedBroker

FOREVER_NS = 10**15


def standing(broker: LinkedBroker, other: LinkedBroker) -> NodeStanding:
    membership = broker.node.membership
    assert membership is not None
    return membership.cluster.standing(other.number)


def led() -> tuple[Cluster, LinkedBroker, list[LinkedBroker]]:
    """A cluster with the queue `q`, the node that leads it, and the others."""
    run = Cluster()
    run.declare()
    leader = run.leader()
    others = [each for each in run.brokers if each is not leader]
    return run, leader, others


def go_on(run: Cluster, broker: LinkedBroker) -> None:
    """Publish there, and have it confirmed."""
    client = broker.connect()
    client.publish(b"message")
    run.until(client.all_confirmed)
    run.no_faults()


@pytest.mark.parametrize("is_planted", [False, True], ids=["", "planted: nobody says so"])
def test_a_node_whose_disk_stands_still_leads_no_more(
    is_planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_planted:
        monkeypatch.setattr(GroupCommit, "stalled_ms", lambda _: 0)
    run, leader, others = led()
    leader.disk.delay_ns_max = FOREVER_NS
    client = others[0].connect()
    client.publish(b"to be synced")
    run.rest(14_000)
    is_suspected = standing(others[0], leader) is NodeStanding.SUSPECTED
    assert is_suspected is not is_planted
    assert (leader not in run.leaders()) is not is_planted
    run.until(client.all_confirmed)
    if not is_planted:
        go_on(run, others[1])


def test_time_in_which_a_node_did_not_move_is_not_its_disks() -> None:
    run, leader, others = led()
    assert leader.node.membership is not None
    cluster = leader.node.membership.cluster
    leader.disk.delay_ns_max = FOREVER_NS
    others[0].connect().publish(b"to be synced")
    run.rest(1000)
    leader.freeze()
    run.rest(30_000)
    leader.freeze(False)
    run.rest(2000)
    assert cluster.may_lead
    run.rest(12_000)
    assert not cluster.may_lead


@pytest.mark.parametrize("is_planted", [False, True], ids=["", "planted: whatever it is"])
@pytest.mark.parametrize("wrong_ms", [8_000, -8_000])
def test_a_node_whose_clock_is_off_leads_no_queue(
    wrong_ms: int, is_planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_planted:
        monkeypatch.setattr(NodeCluster, "_look_whether_fit", lambda *_: None)
    run, leader, others = led()
    clock = leader.node.world.clock
    right = clock.wall_ms
    monkeypatch.setattr(clock, "wall_ms", lambda: right() + wrong_ms)
    client = others[0].connect()
    client.publish(b"wakes the group")
    run.rest(10_000)
    assert (leader not in run.leaders()) is not is_planted
    go_on(run, others[1])
    go_on(run, leader)
    if not is_planted:
        assert any("leads no queue: its clock is" in line for line in leader.log.lines)
        monkeypatch.setattr(clock, "wall_ms", right)
        run.rest(1000)
        assert leader.node.membership is not None
        assert leader.node.membership.cluster.may_lead


def test_one_other_clock_says_nothing() -> None:
    """Of three nodes two have to say so: else the one that is off would stop the others."""
    run, leader, others = led()
    clock = others[0].node.world.clock
    right = clock.wall_ms
    clock.wall_ms = lambda: right() + 60_000  # type: ignore[method-assign]
    others[1].crash()
    run.rest(12_000)
    for each in (leader, others[0]):
        assert each.node.membership is not None
        assert each.node.membership.cluster.may_lead


def test_a_node_whose_storage_has_failed_ends() -> None:
    run, leader, others = led()
    ended: list[int] = []
    leader.node.broken = lambda: ended.append(leader.number)
    leader.node.broker.store.fail_storage("EIO")
    run.until(lambda: bool(ended))
    leader.crash()
    go_on(run, others[0])
