"""Quorum queues as lists and `quorum_status` show them.

RabbitMQ's words where it has them: rabbitmq-queues quorum_status, and columns of list_queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.manage.backing_view import all_bytes, share
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
    number = queue.replicator.raft.member.leader
    return node_name(number) if number else ""


def members(queue: Queue) -> list[str]:
    """Return the nodes that have a member of the queue's group; none for queues of other types."""
    if not isinstance(queue, QuorumShell):
        return []
    return [node_name(number) for number in queue.replicator.raft.configuration.members]


def online(queue: Queue) -> list[str]:
    """Return the nodes whose members take part: none after a fault of the queue."""
    return members(queue) if queue.crash is None else []


def ram_bytes(queue: QuorumShell) -> int:
    """Return the bytes of the messages in RAM, at most those of all messages: what is acknowledged
    may still be there, with the entry that it came in."""
    return min(all_bytes(queue.machine.depth), queue.bodies.ram_bytes)


def in_ram(queue: QuorumShell, count: int) -> int:
    """Estimate, from the bytes, how many of `count` of its messages are in RAM."""
    return share(count, ram_bytes(queue), all_bytes(queue.machine.depth))


def status_row(queue: QuorumShell) -> Row:
    """Return what the member of this node knows of its group."""
    replicator = queue.replicator
    figures = replicator.figures()
    return {
        "node": node_name(replicator.raft.member.name),
        "raft_state": replicator.role() if queue.crash is None else queue.crash.state,
        "log_index": figures["last_index"],
        "commit_index": figures["commit_index"],
        "snapshot_index": figures["snapshot_index"],
        "term": figures["term"],
        "machine_version": MACHINE_VERSION,
        "pending": figures["pending"],
    }
