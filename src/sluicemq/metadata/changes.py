"""The changes that can be proposed to the declared state. Each is an immutable value.

A change holds everything that the verdict and the effect depend on: anything that comes from
chance, a clock or the proposer (salts, generated names, rights) has been settled before it is made.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple, TypeAlias

from msgspec import Meta, Struct

from sluicemq.model.definitions import (
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
)
from sluicemq.model.record import DefinitionRecord, Key

Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""A number that fits into files, where it has 64 bits."""


LOCAL_QUEUE_IDS: Final = 1 << 62
"""The queue ids from here on are given by nodes of a cluster, each for itself, in RenumberQueue."""


class Life(NamedTuple):
    """One life of one node: its `incarnation` is higher at each start. Exclusive and transient
    definitions end with the life in which they were declared."""

    node: Number
    incarnation: Number


ONLY_LIFE: Final = Life(0, 0)
"""The life of a node that is alone: its restart leaves nothing that would have to be removed."""


class UpsertRecord(Struct, frozen=True):
    """Add or replace a user, a permission, a virtual host, a policy or a parameter. Refused when
    its user or virtual host does not exist."""

    record: DefinitionRecord


class DeleteRecord(Struct, frozen=True):
    """Delete the record of this kind with this key, and everything that depends on it; a missing
    one is fine. Refused for a virtual host that still has queues."""

    kind: str
    key: Key


class CloseVhost(Struct, frozen=True):
    """Refuse further declarations in this virtual host, which is about to be deleted; a missing one
    is fine. A restart of the whole broker before its deletion opens it again."""

    name: str


class DeclareExchange(Struct, frozen=True):
    """Declare this exchange. Refused when another one of that name exists. `life` counts for an
    exchange that is not durable."""

    definition: ExchangeDefinition
    life: Life = ONLY_LIFE


class DeleteExchange(Struct, frozen=True):
    """Delete an exchange with its bindings; a missing one is fine. With `if_unused` it is refused
    while something is bound to the exchange."""

    vhost: str
    name: str
    if_unused: bool = False


class Bind(Struct, frozen=True):
    """Add this binding. Refused when one of its ends does not exist."""

    binding: BindingDefinition


class Unbind(Struct, frozen=True):
    """Delete this binding; a missing one is fine."""

    binding: BindingDefinition


class UnbindSome(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Delete at most `most` of the bindings of something that is about to be deleted, the oldest
    first. `end` is SOURCE for those that lead away from an exchange; QUEUE or EXCHANGE for those
    that lead to what is called `name`."""

    vhost: str
    end: str
    name: str
    most: Number


SOURCE: Final = "source"


class DeclareQueue(Struct, frozen=True):
    """Declare this queue. Refused when another one of that name exists, or there is no room. With
    `is_free` a new name may have a reserved prefix, because the broker has made it. `queue_id` is 0
    when the machine should give one. `life` counts for a queue that is not durable. `home` is the
    number of the node that has its messages, chosen by the proposer; 0 on a node alone. A quorum
    queue has its messages at all `members`, which are numbers of nodes when its group is born; then
    `home` should lead it first. `leaving` are former members that may not have forgotten the queue
    yet, `born` are those that its group began with, () when these are its members: a new queue has
    neither."""

    definition: QueueDefinition
    is_free: bool = False
    queue_id: int = 0
    life: Life = ONLY_LIFE
    home: int = 0
    members: tuple[Number, ...] = ()
    leaving: tuple[Number, ...] = ()
    born: tuple[Number, ...] = ()


class DeleteQueue(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Delete the queue of this id with its bindings; a missing one is fine."""

    vhost: str
    name: str
    queue_id: Number


class RenumberQueue(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Give a queue that is not durable another id: it begins anew, with files of its own."""

    vhost: str
    name: str
    queue_id: Number
    new_id: Number


class AddMember(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Add a member of a quorum queue on one more node. The machine gives it an id that no member
    has had. Refused when the node has one already, or one that has still to forget the queue."""

    vhost: str
    name: str
    queue_id: Number
    node: Number


class RemoveMember(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Remove the member of a quorum queue on that node: it is `leaving` from then on. Refused when
    there is none, or it is the only one."""

    vhost: str
    name: str
    queue_id: Number
    node: Number


class MemberLeft(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Note that a removed member is out of its group, which is committed there, so that it can
    forget the queue. Repeating it is fine."""

    vhost: str
    name: str
    queue_id: Number
    member: Number


class PromoteMember(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Have the member on that node go on alone with what it has, by an id that no member has had,
    for the others cannot be reached: they are to forget the queue. Refused when the members are not
    these any more."""

    vhost: str
    name: str
    queue_id: Number
    node: Number
    members: tuple[Number, ...]


class MoveLeader(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Have the member on that node lead a quorum queue. Refused when the node has none. The present
    leader decides whether it hands over."""

    vhost: str
    name: str
    queue_id: Number
    node: Number


class NodeStarted(Struct, frozen=True):
    """A node begins a life: exclusive and transient definitions of its earlier lives are deleted.
    Refused when its incarnation is not higher than that of the life before."""

    life: Life


class LifeOver(Struct, frozen=True):
    """A node was not heard of for long in this life: its exclusive and transient definitions are
    deleted. Does nothing if it has begun another life meanwhile."""

    life: Life


class AddNode(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Add this node to the cluster. `number` is one that no node has had, `address` is where the
    others reach it, `home` the mark of its data directory, in hexadecimal. Refused when there is
    another one with that number or name; repeating it is fine."""

    number: Number
    name: str
    address: str
    home: str


class RemoveNode(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Remove the node of this number from the cluster for good: nothing that it says counts any
    more, and everything that was only on it is deleted. `name` and `home` identify it, so that it
    can be told. Repeating it is fine."""

    number: Number
    name: str
    home: str


class Bootstrap(Struct, frozen=True):
    """The first definitions of a cluster, as one change; does nothing when there is a user, a
    virtual host or a permission already."""

    changes: tuple[Change, ...]


class Together(Struct, frozen=True):
    """Several changes as one: all of them, or none when one is refused. They only add or replace
    things."""

    changes: tuple[Change, ...]


Change: TypeAlias = (
    UpsertRecord
    | DeleteRecord
    | CloseVhost
    | DeclareExchange
    | DeleteExchange
    | Bind
    | Unbind
    | UnbindSome
    | DeclareQueue
    | DeleteQueue
    | RenumberQueue
    | AddMember
    | RemoveMember
    | MemberLeft
    | PromoteMember
    | MoveLeader
    | NodeStarted
    | LifeOver
    | AddNode
    | RemoveNode
    | Bootstrap
    | Together
)
