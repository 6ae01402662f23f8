"""What changes when a client declares or deletes: the topology, and the durable definitions.

Each function returns the changes that must be in the journal before the client is told; there is
none when nothing durable has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.model.definitions import (
    EXCHANGE,
    RESERVED_PREFIX,
    BindingDefinition,
    ExchangeDefinition,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.chain.broker import Broker


def declare_exchange(broker: Broker, asked: ExchangeDefinition, passive: bool) -> list[bytes]:
    """exchange.declare."""
    if broker.topology.declare_exchange(asked, passive) and asked.durable:
        return [broker.definitions.add_exchange(asked)]
    return []


def delete_exchange(broker: Broker, name: str, if_unused: bool) -> list[bytes]:
    """exchange.delete; auto-delete exchanges may go with it."""
    return exchanges_gone(broker, broker.topology.delete_exchange(name, if_unused))


def bind(broker: Broker, binding: BindingDefinition) -> list[bytes]:
    """queue.bind, exchange.bind."""
    if broker.topology.bind(binding) and is_durable(broker, binding):
        return [broker.definitions.add_binding(binding)]
    return []


def unbind(broker: Broker, binding: BindingDefinition) -> list[bytes]:
    """queue.unbind, exchange.unbind; auto-delete exchanges may go with their last binding."""
    gone = broker.topology.unbind(binding)
    changes = []
    if binding.identity in broker.definitions.bindings:
        changes.append(broker.definitions.delete_binding(binding))
    return changes + exchanges_gone(broker, gone)


def exchanges_gone(broker: Broker, names: Iterable[str]) -> list[bytes]:
    """Those that were durable are to be forgotten."""
    definitions = broker.definitions
    durable = [name for name in names if name in definitions.exchanges]
    return [definitions.delete_exchange(name) for name in durable]


def is_durable(broker: Broker, binding: BindingDefinition) -> bool:
    """A binding is, if both of its ends are."""
    if not is_durable_exchange(broker, binding.source):
        return False
    if binding.destination_type == EXCHANGE:
        return is_durable_exchange(broker, binding.destination)
    return broker.queues[binding.destination].definition.durable


def is_durable_exchange(broker: Broker, name: str) -> bool:
    return name in broker.definitions.exchanges or name.startswith(RESERVED_PREFIX)
