"""What can be asked of the declared state. Each change is an immutable value.

A change holds all that its verdict and its effect need: whatever is up to chance, to a clock or to
who asks (salts, generated names, rights) has been settled before it is made.
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
    """One life of one node: its `incarnation` is higher at each start. What is exclusive or not
    durable ends with the life in which it was declared."""

    node: Number
    incarnation: Number


ONLY_LIFE: Final = Life(0, 0)
"""The life of a node that is alone: its restart leaves nothing that would have to be removed."""


class UpsertRecord(Struct, frozen=True):
    """Have a user, a permission, a virtual host, a policy or a parameter as this record says,
    whether it is new or replaces the one with the same key. Refused when it belongs to a user or a
    virtual host that there is not."""

    record: DefinitionRecord


class DeleteRecord(Struct, frozen=True):
    """Delete the record of this kind with this key, and what hangs on it; that there is none is
    fine. Refused for a virtual host that still has queues."""

    kind: str
    key: Key


class CloseVhost(Struct, frozen=True):
    """Declare nothing more in this virtual host, for it is about to be deleted. That there is none
    is fine. A restart of the whole broker before it is deleted opens it again."""

    name: str


class DeclareExchange(Struct, frozen=True):
    """Have this exchange. Refused when there is another one of that name. `life` counts for an
    exchange that is not durable."""

    definition: ExchangeDefinition
    life: Life = ONLY_LIFE


class DeleteExchange(Struct, frozen=True):
    """Delete an exchange with its bindings; that there is none is fine. With `if_unused` it is
    refused while something is bound to the exchange."""

    vhost: str
    name: str
    if_unused: bool = False


class Bind(Struct, frozen=True):
    """Have this binding. Refused when one of its ends is missing."""

    binding: BindingDefinition


class Unbind(Struct, frozen=True):
    """Delete this binding; that there is none is fine."""

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
    """Have this queue. Refused when there is another one of that name, or no room. With `is_free`
    a new name may be in the broker's own part of the name space, because the broker has given it.
    `queue_id` is 0 where it is for the machine to give one. `life` counts for a queue that is not
    durable. `home` is the number of the node that has its messages, chosen by who proposes it; 0: a
    node that is alone. A quorum queue has its messages at all `members`, which are numbers of nodes
    as its group is born; then `home` is who should lead it first. `leaving` are members that are
    none any more, but may not have forgotten the queue yet: a new queue has none."""

    definition: QueueDefinition
    is_free: bool = False
    queue_id: int = 0
    life: Life = ONLY_LIFE
    home: int = 0
    members: tuple[Number, ...] = ()
    leaving: tuple[Number, ...] = ()


class DeleteQueue(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Delete the queue of this id with its bindings; that there is none is fine."""

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
    """Have a member of a quorum queue on one more node. The machine gives it an id that no member
    has had. Refused when the node has one already, or one that has still to forget the queue."""

    vhost: str
    name: str
    queue_id: Number
    node: Number


class RemoveMember(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Have no member of a quorum queue on that node any more: it is `leaving` from then on. Refused
    when it has none, or the only one."""

    vhost: str
    name: str
    queue_id: Number
    node: Number


class MemberLeft(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A member that was to be removed is none of its group any more, which is committed there: it
    can forget the queue. That it has is fine."""

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
    """Have the member on that node lead a quorum queue. Refused when the node has none. Whether it
    comes to that is up to who leads now."""

    vhost: str
    name: str
    queue_id: Number
    node: Number


class NodeStarted(Struct, frozen=True):
    """A node begins a life: what its earlier lives have left goes, that is what was exclusive or
    not durable. Refused when its incarnation is not higher than that of the life before."""

    life: Life


class LifeOver(Struct, frozen=True):
    """A node was not heard of for long in this life: what was exclusive or not durable and belongs
    to it goes. If it has begun another life meanwhile, nothing happens."""

    life: Life


class AddNode(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Have this node in the cluster, beside those that founded it. `number` is one that no node has
    had, `address` is where the others reach it, `home` the mark of its data directory, in
    hexadecimal. Refused when there is another one with that number or name; that there is this one
    is fine."""

    number: Number
    name: str
    address: str
    home: str


class RemoveNode(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Have the node of this number in the cluster no more, and never again: nothing that it says
    counts, and what lived there alone is deleted. `name` and `home` are what it was known by, so
    that it can be told. That it is removed already is fine."""

    number: Number
    name: str
    home: str


class Bootstrap(Struct, frozen=True):
    """What a cluster begins with, as one change; nothing happens when there is a user, a virtual
    host or a permission already."""

    changes: tuple[Change, ...]


class Together(Struct, frozen=True):
    """Several changes as one: all of them, or none when one is refused. They only add or replace
    something."""

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
