"""The events of an applied change, for its followers: one object for each thing that
has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from sluicemq.model.queue_types import TYPES

if TYPE_CHECKING:
    from sluicemq.metadata.changes import AddNode, Change, Life, RemoveNode
    from sluicemq.model.definitions import ExchangeDefinition, QueueDefinition
    from sluicemq.model.record import DefinitionRecord


class DeclaredQueue(Struct):
    """A queue as the machine knows it. `id` is given once and names it in files; `life` is that of
    the node that has to be alive for it, and counts only if it is not durable. `home` is the number
    of the node that has its messages, 0 for a node that is alone; `members` are those that a quorum
    queue in a cluster, or a mirrored one, is to have, `leaving` those that it had and that may know
    of it still, and `born` those that its group began with."""

    id: int
    definition: QueueDefinition
    life: Life
    home: int = 0
    members: tuple[int, ...] = ()
    leaving: tuple[int, ...] = ()
    born: tuple[int, ...] = ()

    @property
    def is_mirrored(self) -> bool:
        """Tell whether it is a queue with a master, which its members are mirrors of."""
        return bool(self.members) and TYPES[self.definition.type].has_mirrors


class QueueAdded(Struct, frozen=True):
    """A queue was declared that did not exist before."""

    queue: DeclaredQueue


class QueueRemoved(Struct, frozen=True):
    """A queue was deleted, with its bindings."""

    queue: DeclaredQueue


class MembersChanged(Struct, frozen=True):
    """A quorum queue has other members, or other members that are leaving."""

    queue: DeclaredQueue


class LeaderMoved(Struct, frozen=True):
    """The member at its home should lead a quorum queue, at somebody's request."""

    queue: DeclaredQueue


class ExchangeRemoved(Struct, frozen=True):
    """An exchange was deleted, or lost its last binding; its bindings are gone with it."""

    exchange: ExchangeDefinition


class RecordUpserted(Struct, frozen=True):
    """A record is new, or replaces the one with the same key."""

    record: DefinitionRecord


class RecordDeleted(Struct, frozen=True):
    """A record was deleted, with those that depend on it."""

    record: DefinitionRecord


class VhostClosed(Struct, frozen=True):
    """Nothing more is declared in this virtual host, which is about to be deleted."""

    name: str


class NodeAdded(Struct, frozen=True):
    """A node that did not found the cluster belongs to it now."""

    node: AddNode


class NodeRemoved(Struct, frozen=True):
    """A node does not belong to the cluster any more."""

    node: RemoveNode


Event: TypeAlias = (
    QueueAdded
    | QueueRemoved
    | MembersChanged
    | LeaderMoved
    | ExchangeRemoved
    | RecordUpserted
    | RecordDeleted
    | VhostClosed
    | NodeAdded
    | NodeRemoved
)


class Applied(Struct):
    """The result of a change. `durable` are the changes that a journal needs to recover it; none
    when nothing has changed that outlasts the process. `lasts` tells whether the wanted state is
    durable, even if it existed before."""

    events: list[Event] = []
    durable: list[Change] = []
    lasts: bool = False
