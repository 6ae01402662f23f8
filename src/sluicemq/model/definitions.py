"""What a client declares: exchanges, queues, bindings; and when two declarations are the same.

A client may declare again what exists if it asks for the same thing (`check_equivalent_queue`);
arguments must make sense (`validate_queue`). The texts are RabbitMQ 3.10's, because people search
the web for them. Errors carry no class and method ids: the channel fills them in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field

from sluicemq.errors import ChannelViolation
from sluicemq.model.arguments import (
    check_queue_arguments,
    same_value,
    show,
    type_name,
)
from sluicemq.model.queue_types import CLASSIC, TYPES

Arguments = Mapping[str, object]

QUEUE: Final = "queue"
EXCHANGE: Final = "exchange"
ALTERNATE_EXCHANGE: Final = "alternate-exchange"
RESERVED_PREFIX: Final = "amq."

Identity = tuple[str, str, str, str, str, str]
DEFAULT_VHOST: Final = "/"


class Destination(NamedTuple):
    """Where a binding leads: to the queue or the exchange `name`, depending on `kind` (QUEUE or
    EXCHANGE)."""

    kind: str
    name: str


class ExchangeDefinition(Struct, forbid_unknown_fields=True):
    """An exchange as a client declared it, and its virtual host."""

    name: str
    type: str = "direct"
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    arguments: Arguments = field(default_factory=dict)
    vhost: str = DEFAULT_VHOST

    @property
    def alternate(self) -> str | None:
        """Return the exchange that gets the messages which this one cannot route; None when there
        is none."""
        name = self.arguments.get(ALTERNATE_EXCHANGE)
        return name if isinstance(name, str) else None


class QueueDefinition(Struct, forbid_unknown_fields=True):
    """A queue as a client declared it. `owner` is the connection that an exclusive queue lives and
    dies with, None for other queues."""

    name: str
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Arguments = field(default_factory=dict)
    owner: str | None = None
    vhost: str = DEFAULT_VHOST

    def __post_init__(self) -> None:
        if self.exclusive:
            self.durable = False  # it cannot outlive its connection, even if declared durable

    @property
    def type(self) -> str:
        """Return the name of the queue's type: classic unless the arguments say otherwise."""
        return str(self.arguments.get("x-queue-type", CLASSIC))


class BindingDefinition(Struct, forbid_unknown_fields=True):
    """A binding from the exchange `source` to a queue or an exchange."""

    source: str
    destination: str
    destination_type: str = QUEUE
    routing_key: str = ""
    arguments: Arguments = field(default_factory=dict)
    vhost: str = DEFAULT_VHOST

    @property
    def target(self) -> Destination:
        return Destination(self.destination_type, self.destination)

    @property
    def identity(self) -> Identity:
        """Return a key that is equal for two declarations of the same binding; the order of
        arguments does not count."""
        arguments = canonical(self.arguments) if self.arguments else ""
        kind, name = self.destination_type, self.destination
        return self.vhost, self.source, kind, name, self.routing_key, arguments


def canonical(value: object) -> str:
    """Return a text that is equal for equal field values; the order in a table does not count."""
    if isinstance(value, Mapping):
        parts = (f"{key!r}:{canonical(item)}" for key, item in sorted(value.items()))
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return repr(value)


def check_name(kind: str, name: str) -> None:
    """Raise ChannelViolation (403) for a new queue or exchange (`kind`) whose name begins with
    amq., which is reserved for the broker."""
    if name.startswith(RESERVED_PREFIX):
        raise ChannelViolation(403, f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def check_unnamed(kind: object) -> None:
    """Raise ChannelViolation (406) for a queue without a name when the broker does not make names
    for its type `kind`, which is the value that the client sent."""
    row = TYPES.get(kind) if isinstance(kind, str) else None
    if row is not None and not row.is_server_named:
        text = f"Cannot declare a server-named queue for type rabbit_{row.name}_queue"
        raise ChannelViolation(406, text)


def check_access(queue: QueueDefinition, owner: str | None, vhost: str) -> None:
    """Raise ChannelViolation (405) when the queue is exclusive and `owner` is not the connection
    that declared it."""
    if queue.owner is not None and queue.owner != owner:
        raise locked(queue.name, vhost)


def locked(name: str, vhost: str) -> ChannelViolation:
    """Return the error 405 for a client that uses an exclusive queue of another connection."""
    return ChannelViolation(
        405,
        f"cannot obtain exclusive access to locked queue '{name}' in vhost '{vhost}'. "
        "It could be originally declared on another connection or the exclusive property "
        "value does not match that of the original declaration.",
    )


def validate_queue(queue: QueueDefinition, vhost: str) -> None:
    """Raise ChannelViolation (406) for arguments and properties that make no sense for the queue's
    type, and for a type that this broker does not have."""
    where = f"queue '{queue.name}' in vhost '{vhost}'"
    check_queue_arguments(queue.arguments, where)
    row = TYPES[queue.type]
    for wrong, what in (
        (queue.exclusive, "exclusive-owner"),
        (queue.auto_delete, "auto-delete"),
        (not queue.durable, "non-durable"),
    ):
        if wrong and row.lasts:
            raise ChannelViolation(406, f"invalid property '{what}' for {where}")
    if not row.is_there:
        text = f"queue type '{row.name}' is not supported yet"
        raise ChannelViolation(406, f"invalid arg 'x-queue-type' for {where}: \"{text}\"")


def validate_exchange(exchange: ExchangeDefinition, vhost: str) -> None:
    """Raise ChannelViolation (406) when the name of the alternate exchange is no text."""
    alternate = exchange.arguments.get(ALTERNATE_EXCHANGE, "")
    if not isinstance(alternate, str):
        raise ChannelViolation(
            406,
            f"invalid type '{type_name(alternate)}' for arg '{ALTERNATE_EXCHANGE}' "
            f"in exchange '{exchange.name}' in vhost '{vhost}'",
        )


def check_equivalent_queue(existing: QueueDefinition, asked: QueueDefinition, vhost: str) -> None:
    """Raise ChannelViolation when a declaration differs from the existing queue: 405 when that is
    exclusive to another connection, 406 when a property or an argument differs."""
    if existing.owner != asked.owner:
        raise locked(existing.name, vhost)
    where = f"queue '{existing.name}' in vhost '{vhost}'"
    _check_property("durable", existing.durable, asked.durable, where)
    _check_property("auto_delete", existing.auto_delete, asked.auto_delete, where)
    for key in TYPES[existing.type].compared_arguments:
        if key != "x-queue-type" or existing.type != asked.type:
            _check_argument(key, existing.arguments, asked.arguments, where)


def check_equivalent_exchange(
    existing: ExchangeDefinition, asked: ExchangeDefinition, vhost: str
) -> None:
    """Raise ChannelViolation (406) when a declaration differs from the existing exchange in its
    type, a property or the alternate exchange."""
    where = f"exchange '{existing.name}' in vhost '{vhost}'"
    _check_property("type", existing.type, asked.type, where)
    _check_property("durable", existing.durable, asked.durable, where)
    _check_property("auto_delete", existing.auto_delete, asked.auto_delete, where)
    _check_property("internal", existing.internal, asked.internal, where)
    _check_argument(ALTERNATE_EXCHANGE, existing.arguments, asked.arguments, where)


def _check_property(key: str, current: object, received: object, where: str) -> None:
    if current != received:
        raise _inequivalent(key, where, f"'{show(received)}'", f"'{show(current)}'")


def _check_argument(key: str, existing: Arguments, asked: Arguments, where: str) -> None:
    if key in existing and key in asked:
        if not same_value(existing[key], asked[key]):
            raise _inequivalent(key, where, f"'{show(asked[key])}'", f"'{show(existing[key])}'")
    elif key in existing or key in asked:
        raise _inequivalent(key, where, _described(key, asked), _described(key, existing))


def _described(key: str, arguments: Arguments) -> str:
    if key not in arguments:
        return "none"
    value = arguments[key]
    return f"the value '{show(value)}' of type '{type_name(value)}'"


def _inequivalent(key: str, where: str, received: str, current: str) -> ChannelViolation:
    return ChannelViolation(
        406, f"inequivalent arg '{key}' for {where}: received {received} but current is {current}"
    )
