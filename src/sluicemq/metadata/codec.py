"""Changes of what is declared as JSON: in the journal, in checkpoints, and in a cluster's log.

A change is an object with one member, or with several for changes that are made together:

    "exchange": {"vhost", "name", "type", "auto_delete", "internal", "arguments"}
    "queue": {"id", "vhost", "name", "auto_delete", "arguments"}
    "binding", "unbinding": {"vhost", "source", "destination", "destination_type", "routing_key",
                             "arguments"}
    "exchange_deleted": [vhost, name]
    a record's KIND: its fields; KIND + "_deleted": its key
    "together": a list of changes

Those are what journals hold. `arguments` is the AMQP table in base64: JSON would not tell its types
apart. Where there is no `vhost`, an older version wrote it, and "/" is meant. Whatever is exclusive
or not durable is in no journal; for it there are besides

    "durable": false, "exclusive", "owner", "life": [node, incarnation]    in exchanges and queues
    "free": true in queues; "exchange_deleted_if_unused", "queue_deleted", "queue_renumbered",
    "vhost_closed", "unbind_some", "node_started"
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from sluicemq.amqp.types import decode_kept_table, encode_table
from sluicemq.errors import Corrupt
from sluicemq.metadata.changes import (
    ONLY_LIFE,
    Bind,
    Change,
    CloseVhost,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DropRecord,
    Life,
    NodeStarted,
    PutRecord,
    RenumberQueue,
    Together,
    Unbind,
    UnbindSome,
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
from sluicemq.model.record import Key, Record, plain
from sluicemq.model.users import User
from sluicemq.model.vhosts import VhostDefinition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.amqp.types import Table

RECORDS: Final[tuple[type[Record], ...]] = (
    VhostDefinition,
    User,
    Permission,
    TopicPermission,
    Policy,
    OperatorPolicy,
    Parameter,
    GlobalParameter,
)
"""What is plain JSON, in the order of the checkpoint."""
RECORD_OF: Final = {each.KIND: each for each in RECORDS}
DELETED: Final = "_deleted"
TOGETHER: Final = "together"
PIECE_RECORDS: Final = 30
"""What is encoded at a time of many definitions."""
BROKEN: Final = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""What becomes of JSON that is none, or that says something else."""


def encode(change: Change) -> bytes:
    """The change for a journal or a log."""
    return json.dumps(as_json(change)).encode()


def as_json(change: Change) -> dict[str, Any]:
    """The change as an object of JSON, with one member."""
    return ENCODERS[type(change)](change)


def decode(data: bytes) -> tuple[list[Change], bool]:
    """The changes that an encoded one consists of, and whether something in it was nested too deep
    and was cut off. Corrupt when it is none."""
    try:
        members, is_cut = read_kept(data, CHANGE_DEPTH)
        return [change_of(kind, value) for kind, value in members.items()], is_cut
    except BROKEN as error:
        raise Corrupt(f"a change of the definitions that does not parse: {error}") from error


def change_of(kind: str, value: Any) -> Change:
    """One member of an encoded change. Raises one of BROKEN when it makes no sense."""
    decoder = DECODERS.get(kind)
    if decoder is not None:
        return decoder(value)
    if kind in RECORD_OF:
        return PutRecord(RECORD_OF[kind].of(value))
    gone = kind.removesuffix(DELETED)
    if gone in RECORD_OF:
        return DropRecord(gone, cast(Key, plain(value)))
    raise ValueError(f"unknown kind {kind}")


def together_of(changes: list[dict[str, Any]]) -> Together:
    """Changes that are made as one."""
    return Together(tuple(change_of(*each) for change in changes for each in change.items()))


def exchange_deleted_of(value: Any) -> DeleteExchange:
    """The oldest journals have the name alone."""
    return DeleteExchange(*([DEFAULT_VHOST, value] if isinstance(value, str) else value))


def packed(arguments: Arguments) -> str:
    """An AMQP table as text."""
    return b64encode(encode_table(cast("Table", arguments))).decode()


def unpacked(text: str) -> Arguments:
    """The table that `packed` has made this text of."""
    return decode_kept_table(b64decode(text))


def exchange_fields(exchange: ExchangeDefinition) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "vhost": exchange.vhost,
        "name": exchange.name,
        "type": exchange.type,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": packed(exchange.arguments),
    }
    if not exchange.durable:
        fields["durable"] = False
    return fields


def exchange_of(fields: dict[str, Any]) -> ExchangeDefinition:
    return ExchangeDefinition(
        fields["name"],
        fields["type"],
        fields.get("durable", True),
        fields["auto_delete"],
        fields["internal"],
        unpacked(fields["arguments"]),
        fields.get("vhost", DEFAULT_VHOST),
    )


def queue_fields(queue_id: int, queue: QueueDefinition) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": queue_id,
        "vhost": queue.vhost,
        "name": queue.name,
        "auto_delete": queue.auto_delete,
        "arguments": packed(queue.arguments),
    }
    if not queue.durable:
        fields["durable"] = False
    if queue.exclusive:
        fields |= {"exclusive": True, "owner": queue.owner}
    return fields


def queue_of(fields: dict[str, Any]) -> QueueDefinition:
    return QueueDefinition(
        fields["name"],
        fields.get("durable", True),
        fields.get("exclusive", False),
        fields["auto_delete"],
        unpacked(fields["arguments"]),
        fields.get("owner"),
        fields.get("vhost", DEFAULT_VHOST),
    )


def binding_fields(binding: BindingDefinition) -> dict[str, Any]:
    return {
        "vhost": binding.vhost,
        "source": binding.source,
        "destination": binding.destination,
        "destination_type": binding.destination_type,
        "routing_key": binding.routing_key,
        "arguments": packed(binding.arguments),
    }


def binding_of(fields: dict[str, Any]) -> BindingDefinition:
    return BindingDefinition(
        fields["source"],
        fields["destination"],
        fields["destination_type"],
        fields["routing_key"],
        unpacked(fields["arguments"]),
        fields.get("vhost", DEFAULT_VHOST),
    )


def with_life(fields: dict[str, Any], life: Life) -> dict[str, Any]:
    """The fields with the life that what they describe belongs to, unless that is the only one."""
    return fields if life == ONLY_LIFE else {**fields, "life": list(life)}


def life_of(fields: dict[str, Any]) -> Life:
    return Life(*fields["life"]) if "life" in fields else ONLY_LIFE


def declared_queue_fields(change: DeclareQueue) -> dict[str, Any]:
    fields = with_life(queue_fields(change.queue_id, change.definition), change.life)
    return {**fields, "free": True} if change.is_free else fields


def declared_queue_of(fields: dict[str, Any]) -> DeclareQueue:
    is_free = bool(fields.get("free", False))
    return DeclareQueue(queue_of(fields), is_free, int(fields["id"]), life_of(fields))


def deleted_exchange_json(change: DeleteExchange) -> dict[str, Any]:
    kind = "exchange_deleted_if_unused" if change.if_unused else "exchange_deleted"
    return {kind: [change.vhost, change.name]}


ENCODERS: Final[dict[type, Callable[[Any], dict[str, Any]]]] = {
    PutRecord: lambda c: {c.record.KIND: c.record.as_json()},
    DropRecord: lambda c: {f"{c.kind}{DELETED}": c.key},
    CloseVhost: lambda c: {"vhost_closed": c.name},
    DeclareExchange: lambda c: {"exchange": with_life(exchange_fields(c.definition), c.life)},
    DeleteExchange: deleted_exchange_json,
    Bind: lambda c: {"binding": binding_fields(c.binding)},
    Unbind: lambda c: {"unbinding": binding_fields(c.binding)},
    UnbindSome: lambda c: {"unbind_some": [c.vhost, c.end, c.name, c.most]},
    DeclareQueue: lambda c: {"queue": declared_queue_fields(c)},
    DeleteQueue: lambda c: {"queue_deleted": [c.vhost, c.name, c.queue_id]},
    RenumberQueue: lambda c: {"queue_renumbered": [c.vhost, c.name, c.queue_id, c.new_id]},
    NodeStarted: lambda c: {"node_started": list(c.life)},
    Together: lambda c: {TOGETHER: [*map(as_json, c.changes)]},
}
DECODERS: Final[dict[str, Callable[[Any], Change]]] = {
    "vhost_closed": CloseVhost,
    "exchange": lambda value: DeclareExchange(exchange_of(value), life_of(value)),
    "exchange_deleted": exchange_deleted_of,
    "exchange_deleted_if_unused": lambda value: DeleteExchange(value[0], value[1], if_unused=True),
    "binding": lambda value: Bind(binding_of(value)),
    "unbinding": lambda value: Unbind(binding_of(value)),
    "unbind_some": lambda value: UnbindSome(*value),
    "queue": declared_queue_of,
    "queue_deleted": lambda value: DeleteQueue(*value),
    "queue_renumbered": lambda value: RenumberQueue(*value),
    "node_started": lambda value: NodeStarted(Life(*value)),
    TOGETHER: together_of,
}


def encoded_tables(
    tables: list[tuple[str, list[Any], Callable[[Any], Any]]],
) -> Iterator[bytes]:
    """The parts of one JSON object: name, records and how one is JSON, for each of its members.
    Each part has at most PIECE_RECORDS records."""
    between = "{"
    for name, records, encoded in tables:
        yield f"{between}{json.dumps(name)}: [".encode()
        for start in range(0, len(records), PIECE_RECORDS):
            some = json.dumps([*map(encoded, records[start : start + PIECE_RECORDS])])
            yield (", " * (start > 0) + some[1:-1]).encode()
        between = "], "
    yield b"]}"
