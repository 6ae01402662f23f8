"""The exchanges, bindings and queue names of one virtual host, and the way from a key to queues.

Nothing here holds a message. `epoch` rises with every change that can alter a route, so that caches
of routes know when to ask again.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import Final

from sluicemq.errors import ChannelViolation, ConnectionViolation
from sluicemq.model.definitions import (
    ALTERNATE_EXCHANGE,
    EXCHANGE,
    QUEUE,
    RESERVED_PREFIX,
    BindingDefinition,
    Destination,
    ExchangeDefinition,
    Identity,
    check_equivalent_exchange,
    check_name,
    validate_exchange,
)
from sluicemq.model.policies import Policies
from sluicemq.routing.delayed import DELAYED, DelayedExchange
from sluicemq.routing.exchange import PIECE, VAST, Exchange
from sluicemq.routing.message import Message, TakesLong
from sluicemq.routing.types import PLAIN_TYPES

DEFAULT: Final = ""
TYPES: Final[dict[str, type[Exchange]]] = {**PLAIN_TYPES, DELAYED: DelayedExchange}
PREDECLARED: Final[dict[str, str]] = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.topic": "topic",
}


class Topology:
    """Which queues and exchanges are bound to which exchanges in one virtual host."""

    __slots__ = (
        "durable_bindings",
        "epoch",
        "exchanges",
        "inbound",
        "policies",
        "queues",
        "serial",
        "vhost",
    )

    def __init__(self, vhost: str = "/") -> None:
        self.vhost = vhost
        self.policies = Policies()
        self.epoch = 0
        self.serial = 0
        """The number of the last binding: numbers rise over all exchanges, so they tell the order
        of bindings."""
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, bool] = {}
        """For each queue, by name, whether it is durable."""
        self.durable_bindings: dict[Identity, BindingDefinition] = {}
        """The bindings that are there after a restart, because both of their ends are."""
        self.inbound: dict[Destination, dict[Identity, BindingDefinition]] = {}
        for name, kind in PREDECLARED.items():
            self.exchanges[name] = TYPES[kind](ExchangeDefinition(name, kind, durable=True))

    def become(self, other: Topology) -> None:
        """Take over everything in another topology of the same virtual host, which is not used any
        more, except for the policies object."""
        self.exchanges, self.queues = other.exchanges, other.queues
        self.durable_bindings, self.inbound = other.durable_bindings, other.inbound
        self.serial = max(self.serial, other.serial)
        self.policies.become(other.policies)
        self.epoch += 1

    def has_changed(self) -> None:
        """Note that a name may stand for something else, so that routes have to be found again."""
        self.epoch += 1

    def route(self, exchange_name: str, routing_key: str) -> tuple[str, ...]:
        """Return the queues that a message with that key and no properties goes to."""
        return self.route_message(exchange_name, Message((routing_key,)))

    def route_message(self, exchange_name: str, message: Message) -> tuple[str, ...]:
        """Return the queues that a message goes to, each once, in order of binding. Raises
        TakesLong for a hasty message with very many bindings on its way; `search` routes such a
        message."""
        if exchange_name == DEFAULT:
            return tuple(dict.fromkeys(key for key in message.keys if key in self.queues))
        found = self._found(self.existing(exchange_name), message)
        if len(found) == 1 and found[0].kind == QUEUE:
            return (found[0].name,)
        visited = {exchange_name: None}
        queues: dict[str, None] = {}
        ahead = [found]
        for some in ahead:
            message.work += len(some)
            for kind, name in some:
                if kind == QUEUE:
                    queues[name] = None
                elif name not in visited:
                    visited[name] = None
                    ahead.append(self._found(self.exchanges[name], message))
        return tuple(queues)

    def queues_by_key(self, exchange_name: str, key: str) -> tuple[str, ...] | None:
        """Return what `route_message` does for every message with that key and no other, if the
        exchange goes by the key alone and sends it to queues; None if more has to be asked."""
        if exchange_name == DEFAULT:
            return (key,) if key in self.queues else ()
        exchange = self.existing(exchange_name)
        if not exchange.goes_by_key:
            return None
        found = exchange.match(key)
        if len(found) == 1:
            kind, name = found[0]
            return (name,) if kind == QUEUE else None
        if not found or len(found) > VAST:
            return None
        names: list[str] = []
        for kind, name in found:
            if kind != QUEUE:
                return None
            names.append(name)
        return tuple(names)

    def _found(self, exchange: Exchange, message: Message) -> list[Destination]:
        """Return the destinations that an exchange finds for a message or, if there are none, those
        that its alternate exchange finds."""
        if message.is_hasty and exchange.is_vast:
            raise TakesLong
        found = exchange.find(message)
        if message.is_hasty and len(found) > VAST:
            raise TakesLong
        return found or self._found_by_alternate(exchange, message)

    def search(self, exchange_name: str, message: Message) -> Generator[int, None, tuple[str, ...]]:
        """Find the same as `route_message`, in pieces; each yields its cost in units of work.
        Changes made meanwhile may count or not; deleted exchanges and queues are skipped."""
        visited = {exchange_name: None}
        queues: dict[str, None] = {}
        ahead = [exchange_name]
        for passed in ahead:
            exchange = self.exchanges.get(passed)
            if exchange is None:
                continue
            found = yield from exchange.search(message)
            found = found or self._found_by_alternate(exchange, message)
            for at in range(0, len(found), PIECE):
                for kind, name in found[at : at + PIECE]:
                    if kind == QUEUE:
                        queues[name] = None
                    elif name not in visited:
                        visited[name] = None
                        ahead.append(name)
                yield PIECE // 4
        return tuple(queues)

    def _found_by_alternate(self, exchange: Exchange, message: Message) -> list[Destination]:
        """Return the destinations that the alternate exchange finds for a message for which the
        exchange found none."""
        alternate = exchange.alternate
        if alternate == DEFAULT:
            return [Destination(QUEUE, key) for key in message.keys if key in self.queues]
        if alternate in self.exchanges:
            return [Destination(EXCHANGE, alternate)]
        return []

    def policies_changed(self) -> None:
        """Apply the policies for exchanges again, because they have changed."""
        for exchange in self.exchanges.values():
            self._apply_policy(exchange)
        self.epoch += 1

    def check_publish(self, exchange_name: str) -> None:
        """Raise ChannelViolation when a client may not publish to the exchange, because it is
        missing or internal."""
        if exchange_name != DEFAULT and self.existing(exchange_name).definition.internal:
            text = f"cannot publish to internal exchange {self._place(exchange_name)}"
            raise ChannelViolation(403, text)

    def existing(self, name: str) -> Exchange:
        """Return the exchange of that name. Raises ChannelViolation (404) when there is none."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise ChannelViolation(404, f"no exchange {self._place(name)}")
        return exchange

    def check_declared(self, name: str) -> None:
        """Raise ChannelViolation (404) when a client passively declares an exchange that does not
        exist."""
        check_not_default(name)
        self.existing(name)

    def declare_exchange(self, asked: ExchangeDefinition) -> bool:
        """Create the exchange, or check that the existing one is equivalent. Returns True when it
        is new."""
        check_type(asked.type)
        check_not_default(asked.name)
        exchange = self.exchanges.get(asked.name)
        if exchange is not None:
            check_equivalent_exchange(exchange.definition, asked, self.vhost)
            return False
        check_name(EXCHANGE, asked.name)
        validate_exchange(asked, self.vhost)
        exchange = self.exchanges[asked.name] = TYPES[asked.type](asked)
        self._apply_policy(exchange)
        self.epoch += 1
        return True

    def delete_exchange(self, name: str, if_unused: bool) -> tuple[ExchangeDefinition, ...]:
        """Delete an exchange and its bindings; a missing one is fine.

        Returns all deleted exchanges, the auto-delete ones included.
        """
        self.check_deletion(name)
        exchange = self.exchanges.get(name)
        if exchange is None:
            return ()
        if if_unused and not exchange.is_empty:
            raise ChannelViolation(406, f"exchange {self._place(name)} in use")
        return self._drop([name])

    def take_from(self, name: str, most: int) -> int:
        """Remove some bindings of an exchange that is about to be deleted. Returns how many."""
        exchange = self.exchanges.get(name)
        some = [] if exchange is None else [*islice(exchange.bindings.values(), most)]
        for binding in some:
            self._forget(binding)
            self.exchanges[name].remove(binding)
        self.epoch += 1
        return len(some)

    def take_to(self, target: Destination, most: int) -> tuple[ExchangeDefinition, ...]:
        """Remove some bindings to something that is about to be deleted. Returns the auto-delete
        exchanges that were deleted with their last one."""
        some = [*islice(self.inbound.get(target, {}).values(), most)]
        return self._drop(self._detach(some))

    def check_deletion(self, name: str) -> None:
        """Raise ChannelViolation when the exchange was not declared by a client."""
        check_not_default(name)
        if name.startswith(RESERVED_PREFIX):
            text = f"deletion of system exchange {self._place(name)} not allowed"
            raise ChannelViolation(403, text)

    def bind(self, binding: BindingDefinition) -> bool:
        """Add a binding. Returns True when it is new."""
        _check_binding_ends(binding)
        source = self.existing(binding.source)
        target = binding.target
        if target.kind == EXCHANGE:
            self.existing(target.name)
        elif target.name not in self.queues:
            raise ChannelViolation(404, f"no queue {self._place(target.name)}")
        source.check_binding(binding)
        source.serial = self.serial
        if not source.add(binding):
            return False
        self.serial = source.serial
        identity = binding.identity
        self.inbound.setdefault(target, {})[identity] = binding
        if self.is_durable(binding):
            self.durable_bindings[identity] = binding
        self.epoch += 1
        return True

    def withdraw(self, binding: BindingDefinition) -> None:
        """Take back a binding that is new, as if it had never been: no exchange is
        deleted with it."""
        self._forget(binding)
        self.exchanges[binding.source].remove(binding)
        self.epoch += 1

    def all_bindings(self) -> list[BindingDefinition]:
        """Return the bindings of all exchanges, the oldest first."""
        found: list[tuple[int, BindingDefinition]] = []
        for exchange in self.exchanges.values():
            found += zip(exchange.numbers.values(), exchange.bindings.values(), strict=True)
        return [binding for _, binding in sorted(found, key=lambda each: each[0])]

    def is_durable(self, binding: BindingDefinition) -> bool:
        """Tell whether both ends of this binding are durable. False when one of them does not
        exist."""
        source = self.exchanges.get(binding.source)
        if source is None or not source.definition.durable:
            return False
        if binding.destination_type == QUEUE:
            return self.queues.get(binding.destination, False)
        destination = self.exchanges.get(binding.destination)
        return destination is not None and destination.definition.durable

    def has_binding(self, binding: BindingDefinition) -> bool:
        """Tell whether there is a binding with the same source, destination, key and arguments."""
        source = self.exchanges.get(binding.source)
        return source is not None and binding.identity in source.bindings

    def unbind(self, binding: BindingDefinition) -> tuple[ExchangeDefinition, ...]:
        """Remove a binding, if it exists. Returns the auto-delete exchanges that were deleted with
        their last binding."""
        _check_binding_ends(binding)
        if not self.has_binding(binding):
            return ()
        return self._drop(self._detach([binding]))

    def add_queue(self, name: str, durable: bool = False) -> None:
        """Note a new queue, which the default exchange reaches at once."""
        assert name not in self.queues
        self.queues[name] = durable
        self.epoch += 1

    def remove_queue(self, name: str) -> tuple[ExchangeDefinition, ...]:
        """Forget a queue and its bindings. Returns the auto-delete exchanges that were deleted with
        their last binding."""
        del self.queues[name]
        self.epoch += 1
        return self._drop(self._detach(self._leading_to(Destination(QUEUE, name))))

    def list_exchanges(self) -> list[ExchangeDefinition]:
        """Return all exchanges, the default one first."""
        default = ExchangeDefinition(DEFAULT, "direct", durable=True)
        return [default, *(exchange.definition for exchange in self.exchanges.values())]

    def list_bindings(self) -> list[BindingDefinition]:
        """Return all bindings, those of the default exchange first."""
        implicit = [BindingDefinition(DEFAULT, name, QUEUE, name) for name in self.queues]
        for exchange in self.exchanges.values():
            implicit.extend(exchange.bindings.values())
        return implicit

    def _apply_policy(self, exchange: Exchange) -> None:
        """Set the alternate exchange that a policy names; an exchange's own argument takes
        precedence."""
        definition = exchange.definition
        exchange.alternate = definition.alternate
        if definition.alternate is None:
            policy = self.policies.for_exchange(definition.name)
            name = policy.definition.get(ALTERNATE_EXCHANGE) if policy is not None else None
            exchange.alternate = name

    def _drop(self, doomed: list[str]) -> tuple[ExchangeDefinition, ...]:
        """Delete exchanges, and auto-delete ones that lose their last binding by that. Returns all
        that are deleted."""
        gone: list[ExchangeDefinition] = []
        for name in doomed:
            exchange = self.exchanges.pop(name)
            gone.append(exchange.definition)
            for binding in exchange.bindings.values():
                self._forget(binding)
            doomed.extend(self._detach(self._leading_to(Destination(EXCHANGE, name))))
            self.epoch += 1
        return tuple(gone)

    def _detach(self, bindings: list[BindingDefinition]) -> list[str]:
        """Remove bindings from their sources. Returns the auto-delete exchanges that are left
        without any."""
        touched: dict[str, None] = {}
        for binding in bindings:
            self._forget(binding)
            if binding.source in self.exchanges:
                self.exchanges[binding.source].remove(binding)
                touched[binding.source] = None
                self.epoch += 1
        return [name for name in touched if self._is_spent(self.exchanges[name])]

    def _forget(self, binding: BindingDefinition) -> None:
        others = self.inbound[binding.target]
        identity = binding.identity
        del others[identity]
        self.durable_bindings.pop(identity, None)
        if not others:
            del self.inbound[binding.target]

    def _leading_to(self, target: Destination) -> list[BindingDefinition]:
        return list(self.inbound.get(target, {}).values())

    def _is_spent(self, exchange: Exchange) -> bool:
        return exchange.definition.auto_delete and exchange.is_empty

    def _place(self, name: str) -> str:
        return f"'{name}' in vhost '{self.vhost}'"


def check_type(kind: str) -> None:
    """Raise ConnectionViolation (503) for an unknown exchange type."""
    if kind not in TYPES:
        flaw = "unknown" if kind else "invalid"
        raise ConnectionViolation(503, f"{flaw} exchange type '{kind}'")


def check_not_default(name: str) -> None:
    """Raise ChannelViolation (403) for an operation that nobody may perform on the default
    exchange."""
    if name == DEFAULT:
        raise ChannelViolation(403, "operation not permitted on the default exchange")


def _check_binding_ends(binding: BindingDefinition) -> None:
    check_not_default(binding.source)
    if binding.destination_type == EXCHANGE:
        check_not_default(binding.destination)
