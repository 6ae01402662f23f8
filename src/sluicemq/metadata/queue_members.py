"""The declared members of a quorum queue: those that it has, those that are leaving, and those that
are gone.

    added ---> member ---removed---> leaving ---left---> gone
    promoted: a member goes on alone by another id, and the others are gone

The definitions have the target. The leader of the queue's Raft group makes the group's members
agree with it, one by one; so a member that is leaving keeps its log and its vote until it is out of
the group, and is gone then. Its node may have a new one after that, with an id that none had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.errors import Refused
from sluicemq.kernel.address import member_name, node_of
from sluicemq.metadata.events import Applied, LeaderMoved, MembersChanged
from sluicemq.model.queue_types import TYPES
from sluicemq.routing.delayed import is_holding

if TYPE_CHECKING:
    from sluicemq.metadata.events import DeclaredQueue, Event


def add_member(queue: DeclaredQueue, node: int, number: int) -> Applied:
    """Add a member on that node, with a number that none had. Refused when it has one. The first
    member of a queue that is to be mirrored is at its home."""
    if not (queue.members or may_be_mirrored(queue, node)):
        check_has_members(queue)
    title = title_of(queue)
    if node in map(node_of, queue.members):
        raise Refused(f"{title} has a member on node {node} already")
    if node in map(node_of, queue.leaving):
        raise Refused(f"the member of {title} on node {node} is still being removed")
    assert all(member_name(number, 0) > each for each in (*queue.members, *queue.leaving)), (
        "the id of a member is given once"
    )
    is_first = not queue.members
    queue.members = (*queue.members, member_name(number, node))
    if is_first:
        queue.born = queue.members
    return Applied([MembersChanged(queue)], lasts=True)


def remove_member(queue: DeclaredQueue, node: int) -> Applied:
    """Remove the member on that node. Refused when it has none, or the only one."""
    check_has_members(queue)
    name = member_on(queue, node)
    if len(queue.members) == 1:
        raise Refused(f"the member on node {node} is the last one of {title_of(queue)}")
    queue.members = (*(each for each in queue.members if each != name),)
    queue.leaving = (*queue.leaving, name)
    if queue.home == node:
        queue.home = node_of(queue.members[0])
    return Applied([MembersChanged(queue)], lasts=True)


def member_left(queue: DeclaredQueue, name: int) -> Applied:
    """Forget a member that is out of its group."""
    if name not in queue.leaving:
        return Applied(lasts=True)
    queue.leaving = (*(each for each in queue.leaving if each != name),)
    return Applied([MembersChanged(queue)], lasts=True)


def node_gone(queue: DeclaredQueue, node: int) -> list[Event]:
    """Remove the member on a node that does not belong to the cluster any more; there are others.
    Returns what has happened."""
    return [*remove_member(queue, node).events] if node in map(node_of, queue.members) else []


def is_alone(queue: DeclaredQueue) -> bool:
    """Tell whether a queue has one member, and no other may know of it."""
    return len(queue.members) == 1 and not queue.leaving


def promote_member(
    queue: DeclaredQueue, node: int, members: tuple[int, ...], number: int
) -> Applied:
    """Have the member on that node be the only one, by a new id, which says that its group goes on
    with what it has: who is left behind is not waited for. Refused when the queue is not mirrored,
    its members are others than these, or none is on that node."""
    check_has_members(queue)
    title = title_of(queue)
    if not queue.is_mirrored or queue.members != members:
        raise Refused(f"{title} is not mirrored by these members any more")
    member_on(queue, node)
    queue.members, queue.leaving = (member_name(number, node),), ()
    queue.born = queue.members
    queue.home = node
    return Applied([MembersChanged(queue)], lasts=True)


def move_leader(queue: DeclaredQueue, node: int) -> Applied:
    """Have the member on that node lead. Refused when it has none."""
    check_has_members(queue)
    member_on(queue, node)
    queue.home = node
    return Applied([LeaderMoved(queue)], lasts=True)


def member_on(queue: DeclaredQueue, node: int) -> int:
    """Return the id of the member on that node. Refused when there is none."""
    for name in queue.members:
        if node_of(name) == node:
            return name
    raise Refused(f"{title_of(queue)} has no member on node {node}")


def may_be_mirrored(queue: DeclaredQueue, node: int) -> bool:
    """Tell whether a queue without members may have its first one on that node."""
    definition = queue.definition
    has_mirrors = TYPES[definition.type].has_mirrors and definition.durable
    return has_mirrors and node == queue.home and not is_holding(definition.name)


def check_has_members(queue: DeclaredQueue) -> None:
    """Refuse a change that only makes sense for a queue with members."""
    if not queue.members:
        raise Refused(
            f"{title_of(queue)} has no members: it is no quorum queue in a cluster, nor mirrored"
        )


def title_of(queue: DeclaredQueue) -> str:
    """Return the name by which users know the queue."""
    definition = queue.definition
    return f"queue '{definition.name}' in vhost '{definition.vhost}'"
