"""What changes when a client declares or deletes: the topology, and the durable definitions.

Each function returns the changes that must be in the journal before the client is told; there is
none when nothing durable has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.store.messages import StoreDefinition
from sluicemq.model.definitions import (
    EXCHANGE,
    RESERVED_PREFIX,
    BindingDefinition,
    Destination,
    ExchangeDefinition,
)
from sluicemq.routing.delayed import DELAYED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sluicemq.broker.vhost import VirtualHost


BINDINGS_MAX: Final = 100
"""Bindings that are taken away in a piece."""

BINDING_WORK: Final = 10
"""Units of work of one."""


def declare_exchange(vhost: VirtualHost, asked: ExchangeDefinition, passive: bool) -> list[bytes]:
    """exchange.declare."""
    vhost.check_alive()
    if not vhost.topology.declare_exchange(asked, passive):
        return []
    definitions = vhost.broker.definitions
    changes = [definitions.add_exchange(asked)] if asked.durable else []
    if asked.type == DELAYED:
        queue = vhost.hold_for(asked)
        if asked.durable:
            changes.append(definitions.add_queue(queue.id, queue.definition))
    return changes


def delete_exchange(vhost: VirtualHost, name: str, if_unused: bool) -> list[bytes]:
    """exchange.delete; auto-delete exchanges may go with it."""
    return exchanges_gone(vhost, vhost.topology.delete_exchange(name, if_unused))


def delete_in_pieces(
    vhost: VirtualHost, name: str, then: Callable[[list[bytes]], None]
) -> Iterator[int]:
    """exchange.delete without a condition, of one with very many bindings perhaps; `then` gets the
    changes."""
    while vhost.topology.take_from(name, BINDINGS_MAX):
        yield BINDINGS_MAX * BINDING_WORK
    while unbind_some(vhost, Destination(EXCHANGE, name)):
        yield BINDINGS_MAX * BINDING_WORK
    then(delete_exchange(vhost, name, False))


def unbind_some(vhost: VirtualHost, target: Destination) -> bool:
    """Take away BINDINGS_MAX bindings to what is about to be deleted; it is forgotten with what
    binds it for good. True when there are more."""
    for change in exchanges_gone(vhost, vhost.topology.take_to(target, BINDINGS_MAX)):
        vhost.broker.store.post(StoreDefinition(change, None))
    return target in vhost.topology.inbound


def bind(vhost: VirtualHost, binding: BindingDefinition) -> list[bytes]:
    """queue.bind, exchange.bind."""
    vhost.check_alive()
    if vhost.topology.bind(binding) and is_durable(vhost, binding):
        return [vhost.broker.definitions.add_binding(binding)]
    return []


def unbind(vhost: VirtualHost, binding: BindingDefinition) -> list[bytes]:
    """queue.unbind, exchange.unbind; auto-delete exchanges may go with their last binding."""
    gone = vhost.topology.unbind(binding)
    changes = []
    if binding.identity in vhost.broker.definitions.bindings:
        changes.append(vhost.broker.definitions.delete_binding(binding))
    return changes + exchanges_gone(vhost, gone)


def exchanges_gone(vhost: VirtualHost, names: Iterable[str]) -> list[bytes]:
    """Those that were durable are to be forgotten; what they have kept back goes."""
    names = list(names)
    for name in names:
        vhost.stop_holding(name)
    definitions = vhost.broker.definitions
    durable = [name for name in names if (vhost.name, name) in definitions.exchanges]
    return [definitions.delete_exchange(vhost.name, name) for name in durable]


def is_durable(vhost: VirtualHost, binding: BindingDefinition) -> bool:
    """A binding is, if both of its ends are."""
    if not is_durable_exchange(vhost, binding.source):
        return False
    if binding.destination_type == EXCHANGE:
        return is_durable_exchange(vhost, binding.destination)
    return vhost.queues[binding.destination].definition.durable


def is_durable_exchange(vhost: VirtualHost, name: str) -> bool:
    declared = (vhost.name, name) in vhost.broker.definitions.exchanges
    return declared or name.startswith(RESERVED_PREFIX)
