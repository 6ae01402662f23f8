"""Quorum queues as lists and `quorum_status` show them.

The words are RabbitMQ's where it has them: those of rabbitmq-queues quorum_status and list_queues.
"""

from __future__ import annotations

from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.cluster.cluster_port import NodeStanding
from sluicemq.kernel.address import node_of
from sluicemq.manage.backing_view import share
from sluicemq.model.queue_types import QUORUM

if TYPE_CHECKING:
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.services import Services
    from sluicemq.metadata.events import DeclaredQueue
    from sluicemq.replication.member_status import MemberStatus

Row = dict[str, Any]


def node_name(services: Services, node: int) -> str:
    """Return the name of a node, to show it to people; a node without a cluster has a number."""
    post = services.ask_post
    return f"node{node}" if post is None else post.cluster.name_of(node)


def declared_of(queue: Queue) -> DeclaredQueue | None:
    """Return a queue as it is declared; None when it no longer is."""
    host = queue.services.definitions.hosts.get(queue.definition.vhost)
    declared = None if host is None else host.queues.get(queue.name)
    return declared if declared is not None and declared.id == queue.id else None


def leader(queue: Queue) -> str:
    """Return the name of the node that leads the queue's group; "" when none is known, or after a
    fault, and for queues of other types."""
    services = queue.services
    if queue.definition.type != QUORUM or queue.crash is not None:
        return ""
    node = 0 if services.ask_post is None else services.ask_post.leader_of(queue.id)
    if isinstance(queue, QuorumShell):
        node = node_of(queue.replicator.raft.member.leader)
    return node_name(services, node) if node else ""


def member_nodes(queue: Queue) -> list[int]:
    """Return the nodes that have a member of the queue's group, or will have one; none for queues
    of other types."""
    if queue.definition.type != QUORUM:
        return []
    declared = declared_of(queue)
    names = () if declared is None else declared.members
    if isinstance(queue, QuorumShell) and not names:
        names = queue.replicator.raft.configuration.members
    return [node_of(name) for name in names]


def members(queue: Queue) -> list[str]:
    """Return the names of these nodes."""
    return [node_name(queue.services, node) for node in member_nodes(queue)]


def online(queue: Queue) -> list[str]:
    """Return the names of the nodes whose members take part, as far as this node reaches them; none
    after a fault of the queue."""
    if queue.crash is not None:
        return []
    services = queue.services
    cluster = None if services.ask_post is None else services.ask_post.cluster
    return [
        node_name(services, node)
        for node in member_nodes(queue)
        if cluster is None or node == cluster.node or cluster.standing(node) is NodeStanding.UP
    ]


class InRam(NamedTuple):
    """The messages of a queue that are in RAM: how many are ready, how many are not, and about how
    many bytes their bodies have together. Messages that were read for deliveries are not counted.
    """

    ready: int
    unacked: int
    body_bytes: int


def in_ram(queue: QuorumShell) -> InRam:
    """Count the messages in RAM. This looks at each entry there of which some messages were
    delivered; refused messages of later entries count, too."""
    bodies, messages = queue.bodies, queue.fifo.messages
    head = messages.fresh[0].index if messages.fresh else None
    begun = begun_bytes = 0
    for index, content in chain(bodies.stored.items(), bodies.fresh.items()):
        if head is not None and index > head:
            break
        begun += content.messages
        begun_bytes += content.body_bytes
    left = sum(batch.taken for batch in messages.taken if bodies.keeps(batch.index))
    back = sum(len(run.places) for run in messages.returns if bodies.keeps(run.batch.index))
    fresh = 0
    if head is not None and bodies.keeps(head):
        fresh = sum(
            batch.count for batch in takewhile(lambda each: each.index == head, messages.fresh)
        )
        fresh -= messages.head - messages.fresh[0].first
    later = bodies.messages - begun
    ready = min(messages.count, later + fresh + back)
    size = bodies.body_bytes - begun_bytes + share(begun_bytes, left + fresh, begun)
    return InRam(ready, left - back, min(messages.bytes + messages.out_bytes, size))


def status_row(services: Services, node: int, status: MemberStatus) -> Row:
    """Return what a node's member knows of its group, as a row."""
    return {"node": node_name(services, node), **status}
