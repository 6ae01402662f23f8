"""Changes of what is declared as JSON: in the journal, in checkpoints, and in a cluster's log.

A change is an object with one member, or with several for changes that are made together:

    "exchange": {"vhost", "name", "type", "auto_delete", "internal", "arguments"}
    "queue": {"id", "vhost", "name", "auto_delete", "arguments"}, and of a node in a cluster "home",
              "members", "leaving", "born"}
    "binding", "unbinding": {"vhost", "source", "destination", "destination_type", "routing_key",
                             "arguments"}
    "exchange_deleted": [vhost, name]
    a record's KIND: its fields; KIND + "_deleted": its key
    "together": a list of changes

Those are what journals hold. `arguments` is the AMQP table in base64: JSON would not tell its types
apart. Where there is no `vhost`, an older version wrote it, and "/" is meant. Types are checked and
unknown fields are refused, so that what has been read can be used, and all of it is there when it
is written again. Whatever is exclusive or not durable is in no journal; for it there are besides

    "durable": false, "exclusive", "owner", "life": [node, incarnation]    in exchanges and queues
    "free": true in queues; "exchange_deleted_if_unused", "queue_deleted", "queue_renumbered",
    "member_added", "member_removed", "member_left", "leader_moved",
    "vhost_closed", "unbind_some", "node_started", "life_over", "node_added", "node_removed",
    "bootstrap": a list of changes
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from msgspec import Struct, convert
from msgspec.structs import asdict, astuple

from sluicemq.amqp.types import decode_kept_table, encode_table
from sluicemq.errors import Corrupt
from sluicemq.metadata.changes import (
    ONLY_LIFE,
    AddMember,
    AddNode,
    Bind,
    Bootstrap,
    Change,
    CloseVhost,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DeleteRecord,
    Life,
    LifeOver,
    MemberLeft,
    MoveLeader,
    NodeStarted,
    Number,
    PromoteMember,
    RemoveMember,
    RemoveNode,
    RenumberQueue,
    Together,
    Unbind,
    UnbindSome,
    UpsertRecord,
)
from sluicemq.model.definitions import (
    DEFAULT_VHOST,
    Arguments,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
)
from sluicemq.model.nesting import CHANGE_DEPTH, read_kept
from sluicemq.model.parameters import GlobalParameter, Parameter
from sluicemq.model.permissions import Permission, TopicPermission
from sluicemq.model.policies import OperatorPolicy, Policy
from sluicemq.model.record import DefinitionRecord, Key
from sluicemq.model.users import User
from sluicemq.model.vhosts import VhostDefinition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.amqp.types import Table

Fields = dict[str, Any]
D = TypeVar("D", ExchangeDefinition, QueueDefinition, BindingDefinition)
B = TypeVar("B", bound="BesideBinding")
RECORDS: Final[tuple[type[DefinitionRecord], ...]] = (
    VhostDefinition,
    User,
    Permission,
    TopicPermission,
    Policy,
    OperatorPolicy,
    Parameter,
    GlobalParameter,
)
"""The classes of records, which are plain JSON, in the order of the checkpoint."""
RECORD_OF: Final = {each.KIND: each for each in RECORDS}
DELETED: Final = "_deleted"
TOGETHER: Final = "together"
KEY: Final[Any] = Key
"""The type of a record's key, as a value."""
IMPLIED: Final[Fields] = {"durable": True, "exclusive": False, "owner": None}
"""The values that a definition has where nothing is written."""
MEANT: Final[dict[type, Fields]] = {
    kind: {
        "vhost": DEFAULT_VHOST,
        **{name: IMPLIED[name] for name in kind.__struct_fields__ if name in IMPLIED},
    }
    for kind in (ExchangeDefinition, QueueDefinition, BindingDefinition)
}
"""The same by what it is a definition of, with what older versions did not write."""
MISSING: Final = object()
"""Stands for a field without a value."""
PIECE_RECORDS: Final = 30
"""The number of definitions that are encoded in a piece."""
BROKEN: Final = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""The errors that JSON raises which is none, or which says something else."""


def encode(change: Change) -> bytes:
    """Return the change as bytes for a journal or a log."""
    return json.dumps(as_json(change)).encode()


def as_json(change: Change) -> dict[str, Any]:
    """Return the change as an object of JSON, with one member."""
    return ENCODERS[type(change)](change)


def decode(data: bytes) -> tuple[list[Change], bool]:
    """Return the changes that an encoded one consists of, and whether something in it was nested
    too deep and was cut off. Raises Corrupt when it is not one."""
    try:
        members, is_cut = read_kept(data, CHANGE_DEPTH)
        return [change_of(kind, value) for kind, value in members.items()], is_cut
    except BROKEN as error:
        raise Corrupt(f"a change of the definitions that does not parse: {error}") from error


def change_of(kind: str, value: Any) -> Change:
    """Return the change in one member of an encoded change. Raises one of BROKEN when it makes no
    sense."""
    decoder = DECODERS.get(kind)
    if decoder is not None:
        return decoder(value)
    if kind in RECORD_OF:
        return UpsertRecord(RECORD_OF[kind].of(value))
    gone = kind.removesuffix(DELETED)
    if gone in RECORD_OF:
        return DeleteRecord(gone, convert(value, KEY))
    raise ValueError(f"unknown kind {kind}")


def changes_of(changes: list[Fields]) -> tuple[Change, ...]:
    """Return the changes that are objects in a list."""
    return tuple(change_of(*each) for change in changes for each in change.items())


def together_of(changes: list[Fields]) -> Together:
    """Return the changes as one that makes them together."""
    return Together(changes_of(changes))


def exchange_deleted_of(value: Any, *, if_unused: bool = False) -> DeleteExchange:
    """Return the deletion of an exchange; the oldest journals have only its name."""
    place = [DEFAULT_VHOST, value] if isinstance(value, str) else value
    return DeleteExchange(*convert(place, tuple[str, str]), if_unused)


def packed(arguments: Arguments) -> str:
    """Return an AMQP table as text."""
    return b64encode(encode_table(cast("Table", arguments))).decode()


def unpacked(text: str) -> Arguments:
    """Return the table from a text that `packed` has made."""
    return decode_kept_table(b64decode(text))


class BesideBinding(Struct, frozen=True, kw_only=True):
    """The fields of a binding whose form on disk differs from its definition."""

    arguments: str


class BesideExchange(BesideBinding, frozen=True, kw_only=True):
    """The fields of an exchange that its definition lacks, or whose form on disk differs."""

    life: Life = ONLY_LIFE


class BesideQueue(BesideExchange, frozen=True, kw_only=True):
    """The fields of a queue that its definition lacks, or whose form on disk differs."""

    id: Number
    free: bool = False
    home: Number = 0
    members: tuple[Number, ...] = ()
    leaving: tuple[Number, ...] = ()
    born: tuple[Number, ...] = ()


def fields_of(definition: ExchangeDefinition | QueueDefinition | BindingDefinition) -> Fields:
    """Return the definition as JSON: all its fields, but for those that are as IMPLIED says."""
    fields = asdict(definition)
    fields["arguments"] = packed(definition.arguments)
    for name, value in IMPLIED.items():
        if fields.get(name, MISSING) == value:
            del fields[name]
    return fields


def definition_of(fields: object, kind: type[D], beside: type[B]) -> tuple[D, B]:
    """Return the definition that has these fields, and what is written beside it. Raises
    msgspec.ValidationError or another of BROKEN when they are not what such a definition has."""
    also = convert(fields, beside)
    values: Fields = {**MEANT[kind], **cast(Fields, fields)}
    for name in beside.__struct_fields__:
        values.pop(name, None)
    if len(values) < len(kind.__struct_fields__) - len(BesideBinding.__struct_fields__):
        missing = [name for name in kind.__struct_fields__ if name not in values]
        raise ValueError(f"there is no {missing[0]}")
    definition = convert(values, kind)
    definition.arguments = unpacked(also.arguments)
    return definition, also


def declared_exchange_of(fields: object) -> DeclareExchange:
    exchange, beside = definition_of(fields, ExchangeDefinition, BesideExchange)
    return DeclareExchange(exchange, beside.life)


def declared_queue_of(fields: object) -> DeclareQueue:
    queue, beside = definition_of(fields, QueueDefinition, BesideQueue)
    places = beside.home, beside.members, beside.leaving, beside.born
    return DeclareQueue(queue, beside.free, beside.id, beside.life, *places)


def binding_of(fields: object) -> BindingDefinition:
    return definition_of(fields, BindingDefinition, BesideBinding)[0]


def queue_fields(
    queue_id: int,
    queue: QueueDefinition,
    home: int,
    members: tuple[int, ...],
    leaving: tuple[int, ...],
    born: tuple[int, ...],
) -> Fields:
    """Return a queue as JSON, without what only its declaration has. `home`, `members` and
    `leaving` are written only if the queue has some, `born` only if these are others than its
    members."""
    fields = {"id": queue_id, **fields_of(queue)}
    others = born if born != members else ()
    beside = {"home": home, "members": members, "leaving": leaving, "born": others}
    fields.update((name, value) for name, value in beside.items() if value)
    return fields


def with_life(fields: Fields, life: Life) -> Fields:
    """Return the fields with the life that the definition belongs to, unless that is
    the only one.
    """
    return fields if life == ONLY_LIFE else {**fields, "life": life}


def declared_queue_fields(change: DeclareQueue) -> Fields:
    places = change.home, change.members, change.leaving, change.born
    fields = queue_fields(change.queue_id, change.definition, *places)
    fields = with_life(fields, change.life)
    return {**fields, "free": True} if change.is_free else fields


def deleted_exchange_json(change: DeleteExchange) -> dict[str, Any]:
    kind = "exchange_deleted_if_unused" if change.if_unused else "exchange_deleted"
    return {kind: [change.vhost, change.name]}


ENCODERS: Final[dict[type, Callable[[Any], dict[str, Any]]]] = {
    UpsertRecord: lambda c: {c.record.KIND: c.record.as_json()},
    DeleteRecord: lambda c: {f"{c.kind}{DELETED}": c.key},
    CloseVhost: lambda c: {"vhost_closed": c.name},
    DeclareExchange: lambda c: {"exchange": with_life(fields_of(c.definition), c.life)},
    DeleteExchange: deleted_exchange_json,
    Bind: lambda c: {"binding": fields_of(c.binding)},
    Unbind: lambda c: {"unbinding": fields_of(c.binding)},
    UnbindSome: lambda c: {"unbind_some": astuple(c)},
    DeclareQueue: lambda c: {"queue": declared_queue_fields(c)},
    DeleteQueue: lambda c: {"queue_deleted": astuple(c)},
    RenumberQueue: lambda c: {"queue_renumbered": astuple(c)},
    AddMember: lambda c: {"member_added": astuple(c)},
    RemoveMember: lambda c: {"member_removed": astuple(c)},
    MemberLeft: lambda c: {"member_left": astuple(c)},
    PromoteMember: lambda c: {"member_promoted": astuple(c)},
    MoveLeader: lambda c: {"leader_moved": astuple(c)},
    NodeStarted: lambda c: {"node_started": c.life},
    LifeOver: lambda c: {"life_over": c.life},
    AddNode: lambda c: {"node_added": astuple(c)},
    RemoveNode: lambda c: {"node_removed": astuple(c)},
    Bootstrap: lambda c: {"bootstrap": [*map(as_json, c.changes)]},
    Together: lambda c: {TOGETHER: [*map(as_json, c.changes)]},
}
DECODERS: Final[dict[str, Callable[[Any], Change]]] = {
    "vhost_closed": lambda value: CloseVhost(convert(value, str)),
    "exchange": declared_exchange_of,
    "exchange_deleted": exchange_deleted_of,
    "exchange_deleted_if_unused": partial(exchange_deleted_of, if_unused=True),
    "binding": lambda value: Bind(binding_of(value)),
    "unbinding": lambda value: Unbind(binding_of(value)),
    "unbind_some": partial(convert, type=UnbindSome),
    "queue": declared_queue_of,
    "queue_deleted": partial(convert, type=DeleteQueue),
    "queue_renumbered": partial(convert, type=RenumberQueue),
    "member_added": partial(convert, type=AddMember),
    "member_removed": partial(convert, type=RemoveMember),
    "member_left": partial(convert, type=MemberLeft),
    "member_promoted": partial(convert, type=PromoteMember),
    "leader_moved": partial(convert, type=MoveLeader),
    "node_started": lambda value: NodeStarted(convert(value, Life)),
    "life_over": lambda value: LifeOver(convert(value, Life)),
    "node_added": partial(convert, type=AddNode),
    "node_removed": partial(convert, type=RemoveNode),
    "bootstrap": lambda value: Bootstrap(changes_of(value)),
    TOGETHER: together_of,
}


def encoded_tables(
    tables: list[tuple[str, list[Any], Callable[[Any], Any]]],
    others: dict[str, Any] | None = None,
) -> Iterator[bytes]:
    """The parts of one JSON object: name, records and how one is JSON, for each of its members; at
    the end the members of `others`, if there are any. Each part has at most PIECE_RECORDS
    records."""
    between = "{"
    for name, records, encoded in tables:
        yield f"{between}{json.dumps(name)}: [".encode()
        for start in range(0, len(records), PIECE_RECORDS):
            some = json.dumps([*map(encoded, records[start : start + PIECE_RECORDS])])
            yield (", " * (start > 0) + some[1:-1]).encode()
        between = "], "
    yield b"]}" if others is None else f"], {json.dumps(others)[1:]}".encode()
