"""What changes when something is declared or deleted: the topology, and the durable definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.chain.queue.home import BINDING_WORK, BINDINGS_MAX
from sluicemq.chain.queue.namespace import Namespace
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

    from sluicemq.chain.queue.queue import Queue


class Declarations(Namespace):
    """The half of a virtual host that knows exchanges and bindings; queues are made and forgotten
    in the other half (`vhost.py`)."""

    def hold_for(self, exchange: ExchangeDefinition) -> Queue:
        """Make the queue for the messages that an exchange keeps back."""
        raise NotImplementedError

    def stop_holding(self, exchange: str) -> None:
        """Delete that queue, if there is one: its exchange is gone."""
        raise NotImplementedError

    def declare_exchange(self, asked: ExchangeDefinition, passive: bool) -> list[bytes]:
        self.check_alive()
        if not self.topology.declare_exchange(asked, passive):
            return []
        definitions = self.services.definitions
        changes = [definitions.add_exchange(asked)] if asked.durable else []
        if asked.type == DELAYED:
            queue = self.hold_for(asked)
            if asked.durable:
                changes.append(definitions.add_queue(queue.id, queue.definition))
        return changes

    def delete_exchange(self, name: str, if_unused: bool) -> list[bytes]:
        return self.exchanges_gone(self.topology.delete_exchange(name, if_unused))

    def delete_in_pieces(self, name: str, then: Callable[[list[bytes]], None]) -> Iterator[int]:
        while self.topology.take_from(name, BINDINGS_MAX):
            yield BINDINGS_MAX * BINDING_WORK
        while self.unbind_from(Destination(EXCHANGE, name)):
            yield BINDINGS_MAX * BINDING_WORK
        then(self.delete_exchange(name, False))

    def unbind_from(self, target: Destination) -> bool:
        """Take away BINDINGS_MAX bindings to what is about to be deleted; it is forgotten with what
        binds it for good. Returns True when there are more."""
        for change in self.exchanges_gone(self.topology.take_to(target, BINDINGS_MAX)):
            self.store.post(StoreDefinition(change, None))
        return target in self.topology.inbound

    def bind(self, binding: BindingDefinition) -> list[bytes]:
        self.check_alive()
        if self.topology.bind(binding) and self.is_durable(binding):
            return [self.services.definitions.add_binding(binding)]
        return []

    def unbind(self, binding: BindingDefinition) -> list[bytes]:
        gone = self.topology.unbind(binding)
        changes = []
        if binding.identity in self.services.definitions.bindings:
            changes.append(self.services.definitions.delete_binding(binding))
        return changes + self.exchanges_gone(gone)

    def exchanges_gone(self, names: Iterable[str]) -> list[bytes]:
        """Those that were durable are to be forgotten; what they have kept back goes."""
        names = list(names)
        for name in names:
            self.stop_holding(name)
        definitions = self.services.definitions
        durable = [name for name in names if (self.name, name) in definitions.exchanges]
        return [definitions.delete_exchange(self.name, name) for name in durable]

    def is_durable(self, binding: BindingDefinition) -> bool:
        """A binding is, if both of its ends are."""
        if not self.is_durable_exchange(binding.source):
            return False
        if binding.destination_type == EXCHANGE:
            return self.is_durable_exchange(binding.destination)
        return self.queues[binding.destination].definition.durable

    def is_durable_exchange(self, name: str) -> bool:
        """Is it there after a restart? Those that every virtual host has are."""
        declared = (self.name, name) in self.services.definitions.exchanges
        return declared or name.startswith(RESERVED_PREFIX)
