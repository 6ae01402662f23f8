"""Quorum queues as lists and `quorum_status` show them.

RabbitMQ's words where it has them: rabbitmq-queues quorum_status, and columns of list_queues.
"""

from __future__ import annotations

from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.kernel.address import node_of
from sluicemq.manage.backing_view import share
from sluicemq.queues.quorum.snapshot import MACHINE_VERSION

if TYPE_CHECKING:
    from sluicemq.chain.queue.queue import Queue

Row = dict[str, Any]


def node_name(number: int) -> str:
    """Return how people know a node by the number that members of groups have."""
    return f"node{number}"


def leader(queue: Queue) -> str:
    """Return the node that leads the queue's group; "" when none is known, or after a fault, and
    for queues of other types."""
    if not isinstance(queue, QuorumShell) or queue.crash is not None:
        return ""
    name = queue.replicator.raft.member.leader
    return node_name(node_of(name)) if name else ""


def members(queue: Queue) -> list[str]:
    """Return the nodes that have a member of the queue's group; none for queues of other types."""
    if not isinstance(queue, QuorumShell):
        return []
    return [node_name(node_of(name)) for name in queue.replicator.raft.configuration.members]


def online(queue: Queue) -> list[str]:
    """Return the nodes whose members take part, as far as this one reaches them: none after a fault
    of the queue."""
    if not isinstance(queue, QuorumShell) or queue.crash is not None:
        return []
    member = queue.replicator.raft.member
    names = queue.replicator.raft.configuration.members
    return [node_name(node_of(name)) for name in names if name not in member.lost]


class InRam(NamedTuple):
    """What of a queue's messages is kept in RAM: how many that are ready, how many others, and
    about how many bytes their bodies have together. What was read for deliveries is not in it."""

    ready: int
    unacked: int
    body_bytes: int


def in_ram(queue: QuorumShell) -> InRam:
    """Count the messages in RAM. It looks at each entry there of which something was delivered;
    what of the later ones was refused counts, too."""
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


def status_row(queue: QuorumShell) -> Row:
    """Return what the member of this node knows of its group."""
    replicator = queue.replicator
    figures = replicator.figures()
    return {
        "node": node_name(node_of(replicator.raft.member.name)),
        "raft_state": replicator.role() if queue.crash is None else queue.crash.state,
        "log_index": figures["last_index"],
        "commit_index": figures["commit_index"],
        "snapshot_index": figures["snapshot_index"],
        "term": figures["term"],
        "machine_version": MACHINE_VERSION,
        "pending": figures["pending"],
    }
