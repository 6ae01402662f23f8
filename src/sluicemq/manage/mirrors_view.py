"""The columns of lists for mirrored queues, under RabbitMQ's names; a mirror's name is that of its
node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.broker.vhost import VirtualHost
from sluicemq.kernel.address import node_of
from sluicemq.manage.quorum_view import declared_of, node_name
from sluicemq.model.mirroring import mirror_nodes, mirroring_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.chain.queue.mirrored.member import MirrorMember
    from sluicemq.chain.queue.queue import Queue


def without_master(queue: Queue, nodes: Iterable[int]) -> list[str]:
    """Return the names of these nodes, except that of the master's node."""
    post = queue.services.ask_post
    master = 0 if post is None else post.leader_of(queue.id)
    return [node_name(queue.services, node) for node in nodes if node != master]


def slaves(queue: Queue) -> list[str]:
    """Return the nodes that are to have mirrors, without the master's; none for other queues."""
    declared = declared_of(queue)
    if declared is None or not declared.is_mirrored:
        return []
    services = queue.services
    policy = queue.vhost.policies.for_queue(queue.name, queue.definition.type)
    mirroring = None if policy is None else mirroring_of(policy.definition)
    nodes = [node_of(name) for name in declared.members]
    wanted = mirror_nodes(mirroring, nodes, lambda node: node_name(services, node))
    return without_master(queue, wanted)


def synchronised(queue: Queue) -> list[str]:
    """Return the nodes of the mirrors for which confirms wait, as this node's member knows; none
    where it has no member."""
    member = member_of(queue)
    return [] if member is None else without_master(queue, map(node_of, member.in_sync))


def member_of(queue: Queue) -> MirrorMember | None:
    """Return this node's member of a mirrored queue; None when it has none."""
    vhost = queue.vhost
    mirrored = vhost.mirrored if isinstance(vhost, VirtualHost) else None
    return None if mirrored is None else mirrored.members.get(queue.id)


def state(queue: Queue) -> str:
    """Return the state of any queue. A running queue is `syncing` while new mirrors are being sent
    its messages, as far as this node's member knows."""
    found = queue.state(queue.services.world.clock.now_ns())
    member = member_of(queue)
    is_syncing = member is not None and member.is_syncing
    return "syncing" if is_syncing and found == "running" else found
