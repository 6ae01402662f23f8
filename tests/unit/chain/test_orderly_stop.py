"""Goal: a node that is told to stop hands over what it leads first: nobody waits for an election.

Method: whole brokers in simulated time, with a quorum queue on all three and a publisher at another
node that never pauses. Where nothing is handed over, the planted mistake, it must be noticed.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from sluicemq.chain.queue.quorum.member_shell import HandOver, MemberShell
from support.linked_brokers import Cluster, LinkedBroker, LinkedClient

MISSED_MS = 250
AFTER_MS = 500


def longest_wait_ms(client: LinkedClient, leader: LinkedBroker) -> int:
    """Stop the leader as a process is stopped; how long the client waited for a confirm at most,
    then and for AFTER_MS after."""
    run = client.run
    published_ns = [run.timeline.now_ns]
    client.publish(b"first")

    def goes_on() -> None:
        if client.all_confirmed():
            published_ns.append(run.timeline.now_ns)
            client.publish(b"next")
        run.rest(5)

    leader.node.hand_over()
    while leader.node.has_heirs:
        assert run.timeline.now_ns < published_ns[0] + MISSED_MS * 1_000_000, "it leads on"
        goes_on()
    leader.crash()
    until_ns = run.timeline.now_ns + AFTER_MS * 1_000_000
    while run.timeline.now_ns < until_ns:
        goes_on()
    run.until(client.all_confirmed)
    published_ns.append(run.timeline.now_ns)
    return max(after - before for before, after in pairwise(published_ns)) // 1_000_000


@pytest.mark.parametrize("is_planted", [False, True], ids=["", "planted: it keeps what it leads"])
def test_who_is_told_to_stop_is_not_missed(
    is_planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Cluster()
    run.declare()
    leader = run.leader()
    client = next(each for each in run.brokers if each is not leader).connect()
    if is_planted:
        heard = MemberShell.heard_of_members
        monkeypatch.setattr(
            MemberShell,
            "heard_of_members",
            lambda shell, message: isinstance(message, HandOver) or heard(shell, message),
        )
        with pytest.raises(AssertionError, match="it leads on"):
            longest_wait_ms(client, leader)
    else:
        assert longest_wait_ms(client, leader) < MISSED_MS
        run.no_faults()
