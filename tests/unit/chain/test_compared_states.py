"""Goal: a member of a quorum queue whose state is not that of the others notices, and makes it
anew.

Method: whole brokers in simulated time, with few entries between two comparisons; one member's
state is changed behind its back.
"""

from __future__ import annotations

import pytest

from sluicemq.chain.queue.quorum.shared_shell import SharedShell
from sluicemq.queues.quorum import fifo
from support.linked_brokers import Cluster, LinkedBroker, LinkedClient


def publish(client: LinkedClient, count: int) -> None:
    """Publish as many messages, one an entry."""
    for _ in range(count):
        client.publish(b"message")
        client.broker.run.until(client.all_confirmed)


def digests(run: Cluster) -> set[bytes]:
    return {
        shell.fifo.digest()
        for each in run.brokers
        if isinstance(shell := each.node.broker.vhosts["/"].queues["q"], SharedShell)
    }


def differing(broker: LinkedBroker) -> list[str]:
    return [line for line in broker.run.problems if "state is not the leader's" in line]


@pytest.mark.parametrize("is_small", [True, False], ids=["small", "large"])
@pytest.mark.parametrize("is_planted", [False, True], ids=["", "planted: not compared"])
def test_a_state_that_has_gone_wrong_is_noticed_and_made_anew(
    is_planted: bool, is_small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fifo, "DIGEST_ENTRIES", 10)
    if not is_small:
        monkeypatch.setattr(fifo, "DIGEST_MESSAGES", 0)
    if is_planted:
        monkeypatch.setitem(fifo.HANDLERS, fifo.CompareState, lambda *_: None)
    run = Cluster()
    run.declare()
    leader = run.leader()
    client = leader.connect()
    publish(client, 15)
    assert not run.problems, "members that are alike"
    wrong = next(each for each in run.brokers if each is not leader)
    wrong.shell().fifo.messages.bytes += 1
    publish(client, 25)
    run.rest(2000)
    assert bool(differing(wrong)) is not is_planted
    assert len(digests(run)) == 1
    assert (wrong.shell().fifo.messages.bytes == leader.shell().fifo.messages.bytes) is not (
        is_planted
    )
    assert all("state is not the leader's" in line for line in run.problems)
