"""The definitions that survive a restart: durable exchanges, durable queues, what binds them, and
the records: virtual hosts, users and what they may do.

Every change is one JSON object, which goes to the journal; all of them together are the JSON object
that goes to checkpoints:

    {"vhosts": [...], "users": [...], "permissions": [...], and so on for all RECORDS,
     "exchanges": [{"vhost", "name", "type", "auto_delete", "internal", "arguments"}],
     "queues": [{"id", "vhost", "name", "auto_delete", "arguments"}],
     "bindings": [{"vhost", "source", "destination", "destination_type", "routing_key",
                   "arguments"}]}

Where there is no `vhost`, an older version wrote it, and "/" is meant. `arguments` is the AMQP
table in base64: JSON would not tell its types apart. A change has "exchange", "queue", "binding" or
a record's KIND with such an object, or KIND + "_deleted" with the record's key, "exchange_deleted"
with [vhost, name], "unbinding" with a binding, "together" with a list of changes; that a queue is
deleted is an entry of the journal by itself. With a virtual host all goes that is in it, with a
user all it may do.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from sluicemq.amqp.types import decode_kept_table, encode_table
from sluicemq.errors import Corrupt
from sluicemq.model.definitions import (
    DEFAULT_VHOST,
    Arguments,
    BindingDefinition,
    ExchangeDefinition,
    Identity,
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
    from collections.abc import Callable, Iterable, Iterator

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
DELETED: Final = "_deleted"
SOURCE: Final = "source"
End: TypeAlias = tuple[str, str, str]
"""Of a binding: virtual host, SOURCE or what kind of thing it leads to, name."""
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


class DurableDefinitions:
    """All of them. The methods that change something return the change for the journal."""

    is_vital = True
    """A fault in here ends the node (kernel/containment.py)."""

    def __init__(self, encoded: bytes = b"") -> None:
        self.vhosts: dict[str, VhostDefinition] = {}
        self.users: dict[str, User] = {}
        self.permissions: dict[tuple[str, str], Permission] = {}
        self.topic_permissions: dict[tuple[str, str, str], TopicPermission] = {}
        self.policies: dict[tuple[str, str], Policy] = {}
        self.operator_policies: dict[tuple[str, str], OperatorPolicy] = {}
        self.parameters: dict[tuple[str, str, str], Parameter] = {}
        self.global_parameters: dict[str, GlobalParameter] = {}
        self.records: dict[str, dict[Any, Any]] = {
            each.KIND: getattr(self, each.TABLE) for each in RECORDS
        }
        """All above by their KIND."""
        self.exchanges: dict[tuple[str, str], ExchangeDefinition] = {}
        self.queues: dict[int, QueueDefinition] = {}
        self.bindings: dict[Identity, BindingDefinition] = {}
        self._ends: dict[End, dict[Identity, None]] = {}
        """The bindings that go with an exchange or a queue."""
        self._encoded = b""
        """All of them, if they have not changed since; b"" if they have."""
        self._changes = 0
        self.cut_off = 0
        """How often something was nested too deep, and was cut off in reading it."""
        if encoded:
            self._read(encoded)

    def _read(self, encoded: bytes) -> None:
        try:
            all_of_them, is_cut = read_kept(encoded)
            self.cut_off += is_cut
            for record in RECORDS:
                for each in all_of_them.get(record.TABLE, ()):
                    self.put(record.of(each))
            for each in all_of_them["exchanges"]:
                self.apply_one("exchange", each)
            for each in all_of_them["queues"]:
                self.apply_one("queue", each)
            for each in all_of_them["bindings"]:
                self.apply_one("binding", each)
        except BROKEN as error:
            raise Corrupt(f"definitions that do not parse: {error}") from error

    def encode(self) -> bytes:
        """For a checkpoint; it is kept until something changes."""
        deque(self.pieces(), 0)
        return self._encoded

    def pieces(self) -> Iterator[bytes]:
        """The same, a part after the other: as it is when the first one is asked for. Each has at
        most PIECE_RECORDS records."""
        if self._encoded:
            yield self._encoded
            return
        tables: list[tuple[str, list[Any], Callable[[Any], Any]]] = [
            (record.TABLE, [*self.records[record.KIND].values()], record.as_json)
            for record in RECORDS
        ]
        tables += [
            ("exchanges", [*self.exchanges.values()], exchange_fields),
            ("queues", [*self.queues.items()], lambda each: queue_fields(*each)),
            ("bindings", [*self.bindings.values()], binding_fields),
        ]
        changes = self._changes
        found: list[bytes] = []
        for piece in encoded_tables(tables):
            found.append(piece)
            yield piece
        if self._changes == changes:
            self._encoded = b"".join(found)

    def _forget(self) -> None:
        """Something has changed."""
        self._encoded = b""
        self._changes += 1

    def apply(self, change: bytes) -> None:
        """One change, from the journal. Corrupt when it is none."""
        try:
            changes, is_cut = read_kept(change, CHANGE_DEPTH)
            self.cut_off += is_cut
            for kind, value in changes.items():
                self.apply_one(kind, value)
        except BROKEN as error:
            raise Corrupt(f"a change of the definitions that does not parse: {error}") from error

    def apply_one(self, kind: str, value: Any) -> None:
        """KeyError, ValueError, TypeError when it makes no sense."""
        self._forget()
        if kind == "exchange":
            exchange = exchange_of(value)
            self.exchanges[exchange.vhost, exchange.name] = exchange
        elif kind == "queue":
            self.queues[int(value["id"])] = queue_of(value)
        elif kind == "binding":
            self._bind(binding_of(value))
        elif kind == "exchange_deleted":
            self._drop_exchange(*([DEFAULT_VHOST, value] if isinstance(value, str) else value))
        elif kind == "unbinding":
            self._unbind(binding_of(value).identity)
        elif kind == TOGETHER:
            for change in value:
                for each_kind, each in change.items():
                    self.apply_one(each_kind, each)
        elif kind in self.records:
            self.put(RECORD_OF[kind].of(value))
        elif kind.removesuffix(DELETED) in self.records:
            self.drop(kind.removesuffix(DELETED), cast(Key, plain(value)))
        else:
            raise ValueError(f"unknown kind {kind}")

    def put(self, *records: Record) -> bytes:
        """Records, new or changed, at most one of a kind: all or none will be found again."""
        self._forget()
        for record in records:
            self.records[record.KIND][record.key] = record
        return json.dumps({record.KIND: record.as_json() for record in records}).encode()

    def drop(self, kind: str, key: Key) -> bytes:
        """A record goes, with what hangs on it. Queues have been deleted before their host."""
        self.records[kind].pop(key, None)
        if kind == VhostDefinition.KIND:
            self._drop_with("vhost", key)
        elif kind == User.KIND:
            self._drop_with("user", key)
        return self._changed(f"{kind}{DELETED}", key)

    def _drop_with(self, field: str, name: Key) -> None:
        """All that names this virtual host, or this user."""
        tables: list[dict[Any, Any]] = [*self.records.values()]
        if field == "vhost":
            tables.append(self.exchanges)
            for identity in [key for key, each in self.bindings.items() if each.vhost == name]:
                self._unbind(identity)
        for table in tables:
            for key, each in [*table.items()]:
                if getattr(each, field, None) == name:
                    del table[key]

    def add_exchange(self, exchange: ExchangeDefinition) -> bytes:
        self.exchanges[exchange.vhost, exchange.name] = exchange
        return self._changed("exchange", exchange_fields(exchange))

    def delete_exchange(self, vhost: str, name: str) -> bytes:
        """With its bindings."""
        self._drop_exchange(vhost, name)
        return self._changed("exchange_deleted", [vhost, name])

    def add_queue(self, queue_id: int, queue: QueueDefinition) -> bytes:
        self.queues[queue_id] = queue
        return self._changed("queue", queue_fields(queue_id, queue))

    def delete_queue(self, queue_id: int) -> None:
        """With its bindings."""
        queue = self.queues.pop(queue_id, None)
        if queue is not None:
            self._forget()
            self._release((queue.vhost, "queue", queue.name))

    def add_binding(self, binding: BindingDefinition) -> bytes:
        self._bind(binding)
        return self._changed("binding", binding_fields(binding))

    def delete_binding(self, binding: BindingDefinition) -> bytes:
        self._unbind(binding.identity)
        return self._changed("unbinding", binding_fields(binding))

    def drop_loose_bindings(self) -> None:
        """Those of a queue that is not there. When a snapshot knows already that it was deleted,
        an older change of the journal may still bind it."""
        known = {(queue.vhost, queue.name) for queue in self.queues.values()}
        for identity, binding in [*self.bindings.items()]:
            place = binding.vhost, binding.destination
            if binding.destination_type == "queue" and place not in known:
                self._unbind(identity)
                self._forget()

    def _drop_exchange(self, vhost: str, name: str) -> None:
        self.exchanges.pop((vhost, name), None)
        self._release((vhost, SOURCE, name))
        self._release((vhost, "exchange", name))

    def _bind(self, binding: BindingDefinition) -> None:
        self.bindings[binding.identity] = binding
        for end in ends_of(binding):
            self._ends.setdefault(end, {})[binding.identity] = None

    def _unbind(self, identity: Identity) -> None:
        """It need not be there."""
        binding = self.bindings.pop(identity, None)
        for end in ends_of(binding) if binding is not None else ():
            others = self._ends[end]
            del others[identity]
            if not others:
                del self._ends[end]

    def _release(self, end: End) -> None:
        """The bindings of an exchange or a queue that is no more."""
        for identity in [*self._ends.get(end, ())]:
            self._unbind(identity)

    def _changed(self, kind: str, value: object) -> bytes:
        self._forget()
        return json.dumps({kind: value}).encode()


def encoded_tables(
    tables: list[tuple[str, list[Any], Callable[[Any], Any]]],
) -> Iterator[bytes]:
    """The parts of one JSON object: name, records and how one is JSON, for each of its members."""
    between = "{"
    for name, records, as_json in tables:
        yield f"{between}{json.dumps(name)}: [".encode()
        for start in range(0, len(records), PIECE_RECORDS):
            some = json.dumps([*map(as_json, records[start : start + PIECE_RECORDS])])
            yield (", " * (start > 0) + some[1:-1]).encode()
        between = "], "
    yield b"]}"


RECORD_OF: Final = {each.KIND: each for each in RECORDS}


def together(changes: Iterable[bytes]) -> bytes:
    """Several changes as one: all of them will be found again, or none."""
    return b'{"%s": [%s]}' % (TOGETHER.encode(), b", ".join(changes))


def ends_of(binding: BindingDefinition) -> tuple[End, End]:
    """What it goes with."""
    vhost = binding.vhost
    target = vhost, binding.destination_type, binding.destination
    return (vhost, SOURCE, binding.source), target


def packed(arguments: Arguments) -> str:
    """An AMQP table as text."""
    return b64encode(encode_table(cast("Table", arguments))).decode()


def unpacked(text: str) -> Arguments:
    """The table again."""
    return decode_kept_table(b64decode(text))


def exchange_fields(exchange: ExchangeDefinition) -> dict[str, Any]:
    return {
        "vhost": exchange.vhost,
        "name": exchange.name,
        "type": exchange.type,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": packed(exchange.arguments),
    }


def exchange_of(fields: dict[str, Any]) -> ExchangeDefinition:
    return ExchangeDefinition(
        fields["name"],
        fields["type"],
        True,
        fields["auto_delete"],
        fields["internal"],
        unpacked(fields["arguments"]),
        fields.get("vhost", DEFAULT_VHOST),
    )


def queue_fields(queue_id: int, queue: QueueDefinition) -> dict[str, Any]:
    return {
        "id": queue_id,
        "vhost": queue.vhost,
        "name": queue.name,
        "auto_delete": queue.auto_delete,
        "arguments": packed(queue.arguments),
    }


def queue_of(fields: dict[str, Any]) -> QueueDefinition:
    return QueueDefinition(
        fields["name"],
        True,
        False,
        fields["auto_delete"],
        unpacked(fields["arguments"]),
        None,
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
