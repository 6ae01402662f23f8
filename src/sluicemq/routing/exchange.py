"""An exchange: its bindings, and which destinations a routing key matches.

A binding gets a number when it is added. Types keep `number -> destination` per key (or per
pattern); so the answer has the order of binding, a destination bound twice is still one answer,
and taking a binding away is one `pop`.
"""

from __future__ import annotations

from sluicemq.model.definitions import BindingDefinition, Destination, ExchangeDefinition, Identity

Targets = dict[int, Destination]


class Exchange:
    """Base of the exchange types, which implement `_insert`, `_discard` and `match`."""

    __slots__ = ("bindings", "definition", "numbers", "serial")

    def __init__(self, definition: ExchangeDefinition) -> None:
        self.definition = definition
        self.bindings: dict[Identity, BindingDefinition] = {}
        self.numbers: dict[Identity, int] = {}
        self.serial = 0

    @property
    def is_empty(self) -> bool:
        return not self.bindings

    def add(self, binding: BindingDefinition) -> bool:
        """True when the binding is new."""
        identity = binding.identity
        if identity in self.bindings:
            return False
        self.serial += 1
        self.bindings[identity] = binding
        self.numbers[identity] = self.serial
        self._insert(binding.routing_key, self.serial, binding.target)
        return True

    def remove(self, binding: BindingDefinition) -> bool:
        """True when there was such a binding."""
        identity = binding.identity
        if identity not in self.bindings:
            return False
        del self.bindings[identity]
        self._discard(binding.routing_key, self.numbers.pop(identity))
        return True

    def match(self, key: str) -> list[Destination]:
        """Destinations for `key`, in order of binding, none twice."""
        raise NotImplementedError

    def _insert(self, key: str, number: int, target: Destination) -> None:
        raise NotImplementedError

    def _discard(self, key: str, number: int) -> None:
        raise NotImplementedError


def distinct(targets: Targets) -> list[Destination]:
    """The destinations of `targets` in order, each once."""
    return list(dict.fromkeys(targets.values()))
