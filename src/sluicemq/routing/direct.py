"""The direct exchange: the routing key equals the binding's key."""

from __future__ import annotations

from typing import ClassVar

from sluicemq.model.definitions import BindingDefinition, Destination, ExchangeDefinition
from sluicemq.routing.exchange import Exchange, Targets, distinct


class DirectExchange(Exchange):
    """The exchange type direct, which costs one dict look-up a message."""

    __slots__ = ("table",)
    goes_by_key: ClassVar[bool] = True

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self.table: dict[str, Targets] = {}

    def match(self, key: str) -> list[Destination]:
        targets = self.table.get(key)
        return distinct(targets) if targets else []

    def _insert(self, binding: BindingDefinition, number: int) -> None:
        self.table.setdefault(binding.routing_key, {})[number] = binding.target

    def _discard(self, binding: BindingDefinition, number: int) -> None:
        key = binding.routing_key
        targets = self.table[key]
        del targets[number]
        if not targets:
            del self.table[key]
