"""The fanout exchange: every destination, whatever the key."""

from __future__ import annotations

from sluicemq.model.definitions import BindingDefinition, Destination, ExchangeDefinition
from sluicemq.routing.exchange import (
    VAST,
    Exchange,
    Search,
    Targets,
    distinct,
    distinct_in_pieces,
)
from sluicemq.routing.message import Message


class FanoutExchange(Exchange):
    """The exchange type fanout. The keys of its bindings only distinguish them."""

    __slots__ = ("targets",)

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self.targets: Targets = {}

    @property
    def is_vast(self) -> bool:
        return len(self.targets) > VAST

    def search(self, message: Message) -> Search:
        return distinct_in_pieces(self.targets)

    def match(self, key: str) -> list[Destination]:
        return distinct(self.targets)

    def _insert(self, binding: BindingDefinition, number: int) -> None:
        self.targets[number] = binding.target

    def _discard(self, binding: BindingDefinition, number: int) -> None:
        del self.targets[number]
