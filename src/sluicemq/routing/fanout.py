"""The fanout exchange: every destination, whatever the key."""

from __future__ import annotations

from sluicemq.model.definitions import BindingDefinition, Destination, ExchangeDefinition
from sluicemq.routing.exchange import Exchange, Targets, distinct


class FanoutExchange(Exchange):
    """The keys of its bindings only tell them apart."""

    __slots__ = ("targets",)

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self.targets: Targets = {}

    def match(self, key: str) -> list[Destination]:
        return distinct(self.targets)

    def _insert(self, binding: BindingDefinition, number: int) -> None:
        self.targets[number] = binding.target

    def _discard(self, binding: BindingDefinition, number: int) -> None:
        del self.targets[number]
