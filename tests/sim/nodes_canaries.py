"""Bugs to be planted in whole nodes of a cluster: each breaks one promise to clients, or to the
other nodes. Those of Raft are the ones that are planted in Raft alone, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from sim import raft_canaries
from sluicemq.chain.definitions import cluster_agreement
from sluicemq.chain.definitions.cluster_agreement import ClusterAgreement
from sluicemq.chain.remote.remote_channel import PeerLost, RemoteChannel
from sluicemq.chain.remote.remote_end import HeldDelivery, RemoteEnd
from sluicemq.chain.remote.remote_queue import RemoteQueue
from sluicemq.kernel.actor import Actor
from sluicemq.metadata.agreement import Agreed
from sluicemq.metadata.changes import Change
from sluicemq.queues import commands as c

NodesPlant = Callable[[pytest.MonkeyPatch], None]
CANARIES: Final[dict[str, NodesPlant]] = {
    name: raft_canaries.CANARIES[name]
    for name in (
        "two_votes_in_a_term",
        "a_vote_is_said_before_it_is_durable",
        "acknowledged_before_the_sync",
        "counted_before_the_own_sync",
    )
}


def canary(plant: NodesPlant) -> NodesPlant:
    """Register a bug under its function's name."""
    CANARIES[plant.__name__] = plant
    return plant


@canary
def a_change_is_answered_before_it_is_agreed_on(patch: pytest.MonkeyPatch) -> None:
    original = ClusterAgreement.propose

    def propose(self: ClusterAgreement, change: Change, proposer: Actor | None = None) -> bool:
        original(self, change)
        if proposer is not None:
            proposer.post(Agreed(None))
        return False

    patch.setattr(ClusterAgreement, "propose", propose)


@canary
def members_apply_in_their_own_order(patch: pytest.MonkeyPatch) -> None:
    """The proposals of an entry, where there are several."""
    decode = cluster_agreement.decode_proposals
    nodes: dict[int, int] = {}

    def turned(data: bytes) -> Any:
        found = decode(data)
        nodes[len(nodes)] = 0
        return found[::-1] if len(nodes) % 3 == 0 else found

    patch.setattr(cluster_agreement, "decode_proposals", turned)


@canary
def what_a_lost_node_has_not_answered_is_confirmed(patch: pytest.MonkeyPatch) -> None:
    """To who publishes to a queue of a node that is not reached."""

    def refuse_publish(self: RemoteQueue, publish: c.Publish) -> None:
        self.publish_to_deleted(publish)

    patch.setattr(RemoteQueue, "refuse_publish", refuse_publish)


@canary
def a_channel_of_a_lost_node_stays(patch: pytest.MonkeyPatch) -> None:
    """What it has unacknowledged never comes back."""
    receive = RemoteChannel.receive

    def deaf(self: RemoteChannel, message: object) -> None:
        if not isinstance(message, PeerLost):
            receive(self, message)

    patch.setattr(RemoteChannel, "receive", deaf)


@canary
def flags_are_lost_between_nodes(patch: pytest.MonkeyPatch) -> None:
    give = RemoteEnd._give

    def unflagged(self: RemoteEnd, delivery: HeldDelivery, count: int) -> None:
        came = delivery.came._replace(redelivered=False)
        other = HeldDelivery(delivery.consumer, came)
        other.offset = delivery.offset
        give(self, other, count)
        delivery.offset = other.offset

    patch.setattr(RemoteEnd, "_give", unflagged)
