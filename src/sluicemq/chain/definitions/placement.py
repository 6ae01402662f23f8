"""The choice of the nodes on which a declared quorum queue has its members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sluicemq.metadata.changes import DeclareQueue
from sluicemq.model.queue_types import QUORUM

if TYPE_CHECKING:
    from collections.abc import Sequence

MEMBERS: Final = 3
"""Unless the declaration says otherwise, as in RabbitMQ."""


def placed(change: DeclareQueue, own: int, nodes: Sequence[int], turn: int) -> DeclareQueue:
    """Return the declaration of a queue, which has a home, with the members of a quorum queue where
    it names none. Its home has one, and so has the node that declares it; the others are chosen in
    turn, by a number that grows with the queues."""
    if change.definition.type != QUORUM or change.members:
        return change
    size = change.definition.arguments.get("x-quorum-initial-group-size", MEMBERS)
    assert isinstance(size, int), "the size of a group is checked before"
    first = dict.fromkeys((change.home, own))
    others = [node for node in nodes if node not in first]
    start = turn % len(others) if others else 0
    members = [*first, *others[start:], *others[:start]]
    return replace(change, members=(*members[: max(1, size)],))
