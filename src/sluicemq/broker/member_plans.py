"""Plans of changes that add or remove a node's members of quorum queues, or spread leaders evenly
over nodes, made from the definitions and from the leaders that this node knows.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from sluicemq.kernel.address import node_of
from sluicemq.metadata.changes import AddMember, MoveLeader, RemoveMember

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sluicemq.metadata.events import DeclaredQueue
    from sluicemq.metadata.state import DeclaredState


class MemberPlan(NamedTuple):
    """The change to be proposed for one queue, and how many members it has then. `change` is None
    where nothing can be done, and `problem` says why."""

    queue: DeclaredQueue
    size: int
    change: AddMember | RemoveMember | None
    problem: str = ""


def queues_with_members(state: DeclaredState) -> Iterator[DeclaredQueue]:
    """Yield the queues that have members."""
    for host in state.hosts.values():
        for queue in host.queues.values():
            if queue.members:
                yield queue


def quorum_queues(state: DeclaredState) -> Iterator[DeclaredQueue]:
    """Yield the queues whose members an operator chooses: a policy chooses those of mirrored
    queues."""
    return (queue for queue in queues_with_members(state) if not queue.is_mirrored)


def shrink_plan(queues: Iterable[DeclaredQueue], node: int) -> list[MemberPlan]:
    """Return the changes that remove these queues' members from a node. The last member of a queue
    stays, which is reported as a problem."""
    found: list[MemberPlan] = []
    for queue in queues:
        size = len(queue.members)
        if node not in map(node_of, queue.members):
            continue
        definition = queue.definition
        if size == 1:
            found.append(MemberPlan(queue, size, None, "it is the last member"))
        else:
            change = RemoveMember(definition.vhost, definition.name, queue.id, node)
            found.append(MemberPlan(queue, size - 1, change))
    return found


def grow_plan(
    queues: Iterable[DeclaredQueue], node: int, *, only_even: bool = False
) -> list[MemberPlan]:
    """Return the changes that give these queues a member on a node, where they have none; only
    those with an even number of members, if `only_even`. If an earlier member of the node is still
    to be removed, that is a problem."""
    found: list[MemberPlan] = []
    for queue in queues:
        size = len(queue.members)
        if node in map(node_of, queue.members) or (only_even and size % 2):
            continue
        definition = queue.definition
        if node in map(node_of, queue.leaving):
            found.append(MemberPlan(queue, size, None, "its former member is being removed"))
        else:
            change = AddMember(definition.vhost, definition.name, queue.id, node)
            found.append(MemberPlan(queue, size + 1, change))
    return found


def rebalance_plan(
    queues: Iterable[DeclaredQueue],
    leader_of: Callable[[int], int],
    is_up: Callable[[int], bool],
) -> tuple[list[MoveLeader], Counter[int]]:
    """Return which leaders have to move so that each node leads about as many of these queues, as
    far as they have members there; and how many each leads then. Queues without a known leader are
    left alone."""
    led = {queue.id: leader_of(queue.id) for queue in queues}
    known = [queue for queue in queues if led[queue.id]]
    counts = Counter(led[queue.id] for queue in known)
    for queue in known:
        counts.update({node_of(name): 0 for name in queue.members})
    moved: dict[int, MoveLeader] = {}
    is_better = True
    while is_better:
        is_better = False
        for queue in known:
            nodes = [node for node in map(node_of, queue.members) if is_up(node)]
            least = min(nodes, key=lambda node: (counts[node], node), default=0)
            if least and counts[led[queue.id]] - counts[least] > 1:
                counts[led[queue.id]] -= 1
                counts[least] += 1
                led[queue.id] = least
                definition = queue.definition
                moved[queue.id] = MoveLeader(definition.vhost, definition.name, queue.id, least)
                is_better = True
    return [*moved.values()], counts
