"""The exchanges that pick one destination: x-consistent-hash, x-modulus-hash, x-random.

The first gives each destination as many buckets as the key of its binding says:

    bound with "2", "1", "3"     |A A|B|C C C|      a bucket's number leads to its destination

In the other two each binding is one place, so a queue that is bound twice gets twice as much.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Final

from sluicemq.errors import ChannelViolation
from sluicemq.model.arguments import type_name
from sluicemq.model.definitions import (
    BindingDefinition,
    Destination,
    ExchangeDefinition,
    canonical,
)
from sluicemq.model.terms import term
from sluicemq.routing.exchange import Exchange, Targets
from sluicemq.routing.hashing import jump, stable_hash
from sluicemq.routing.message import Message

HASH_HEADER: Final = "hash-header"
HASH_PROPERTY: Final = "hash-property"
PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")


class SpreadingExchange(Exchange):
    """Base of the exchanges that pick one destination. It keeps destinations by number of binding,
    and as a list that is made on demand."""

    __slots__ = ("places", "targets")

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self.targets: Targets = {}
        self.places: list[Destination] = []

    def find(self, message: Message) -> list[Destination]:
        if not self.targets:
            return []
        if not self.places:
            self._lay_out()
        return [self.places[self._choose(message)]]

    def _choose(self, message: Message) -> int:
        """Return an index into `places`, which is not empty."""
        raise NotImplementedError

    def _lay_out(self) -> None:
        self.places = list(self.targets.values())

    def _insert(self, binding: BindingDefinition, number: int) -> None:
        self.targets[number] = binding.target
        self.places = []

    def _discard(self, binding: BindingDefinition, number: int) -> None:
        del self.targets[number]
        self.places = []


class RandomExchange(SpreadingExchange):
    """The exchange type x-random: each message goes to one destination chosen at random."""

    __slots__ = ()

    def _choose(self, message: Message) -> int:
        return message.below(len(self.places))


class ModulusHashExchange(SpreadingExchange):
    """The exchange type x-modulus-hash: the hash of the keys, modulo the number of bindings."""

    __slots__ = ()

    def _choose(self, message: Message) -> int:
        return stable_hash("\0".join(message.keys)) % len(self.places)


class ConsistentHashExchange(SpreadingExchange):
    """The exchange type x-consistent-hash: it uses the hash of the key, of a header or of a
    property; the key of a binding is its weight. A destination has the weight of the first of its
    bindings."""

    __slots__ = ("ends", "header", "property", "weights")

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self.header = self._text(HASH_HEADER)
        self.property = self._text(HASH_PROPERTY)
        self.weights: dict[int, int] = {}
        self.ends: list[int] = []
        if self.header is not None and self.property is not None:
            raise ChannelViolation(406, "hash-header and hash-property are mutually exclusive")
        if self.property is not None and self.property not in PROPERTIES:
            raise ChannelViolation(406, f"Unsupported property: {self.property}")

    def _text(self, name: str) -> str | None:
        value = self.definition.arguments.get(name)
        if name in self.definition.arguments and not isinstance(value, str):
            raise ChannelViolation(406, f"invalid type '{type_name(value)}' for arg '{name}'")
        return value if isinstance(value, str) else None

    def check_binding(self, binding: BindingDefinition) -> None:
        """Raise ChannelViolation (406) when the key is not a whole number above 0."""
        key = binding.routing_key
        digits = key[1:] if key.startswith(("+", "-")) else key
        if not (digits.isascii() and digits.isdigit()):
            raise ChannelViolation(406, f"The binding key must be an integer: {term(key)}")
        if int(key) < 1:
            raise ChannelViolation(406, "The binding key must be greater than 0")

    def _insert(self, binding: BindingDefinition, number: int) -> None:
        super()._insert(binding, number)
        self.weights[number] = int(binding.routing_key)

    def _discard(self, binding: BindingDefinition, number: int) -> None:
        super()._discard(binding, number)
        del self.weights[number]

    def _lay_out(self) -> None:
        weights: dict[Destination, int] = {}
        for number, target in self.targets.items():
            weights.setdefault(target, self.weights[number])
        self.places = list(weights)
        self.ends = list(accumulate(weights.values()))

    def _choose(self, message: Message) -> int:
        bucket = jump(stable_hash(self._hashed(message)), self.ends[-1])
        return bisect_right(self.ends, bucket)

    def _hashed(self, message: Message) -> str:
        """Return the text of a message that is hashed; messages that lack it share one value."""
        if self.header is not None:
            headers = message.properties.headers or {}
            return canonical(headers.get(self.header))
        if self.property is not None:
            return str(getattr(message.properties, self.property))
        return message.keys[0]
