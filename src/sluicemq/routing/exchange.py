"""Exchanges: their bindings, and which destinations a routing key matches.

A binding gets a number when it is added. Types keep `number -> destination` per key (or per
pattern); so the answer is in the order of binding, a destination bound twice appears once, and
removing a binding is one `pop`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar, Final

from sluicemq.compiling import mypyc_attr
from sluicemq.model.definitions import BindingDefinition, Destination, ExchangeDefinition, Identity
from sluicemq.routing.message import Message

Targets = dict[int, Destination]
Search = Generator[int, None, list[Destination]]
"""Finds destinations in pieces; says after each the units of work that it has cost."""

VAST: Final = 1000
"""More bindings than this are not looked at in one go, where it can be in pieces."""
PIECE: Final = 500
"""The number of bindings in a piece."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Exchange:
    """Base of the exchange types.

    They implement `_insert` and `_discard`, and either `match`, when they look at the key only, or
    `find`. The constructor of a type with required arguments checks them.
    """

    __slots__ = ("alternate", "bindings", "definition", "numbers", "serial")

    goes_by_key: ClassVar[bool] = False
    """Does `match` say all, at little cost?"""

    def __init__(self, definition: ExchangeDefinition) -> None:
        self.definition = definition
        self.alternate = definition.alternate
        """Where messages go that it cannot route: by its arguments, or else by a policy."""
        self.bindings: dict[Identity, BindingDefinition] = {}
        self.numbers: dict[Identity, int] = {}
        self.serial = 0

    @property
    def is_empty(self) -> bool:
        return not self.bindings

    @property
    def is_vast(self) -> bool:
        """Tell whether a message may have to look at so many bindings that `search` should route it
        rather than `find`."""
        return False

    def add(self, binding: BindingDefinition) -> bool:
        """Add a binding. Returns True when it is new."""
        identity = binding.identity
        if identity in self.bindings:
            return False
        self.serial += 1
        self.bindings[identity] = binding
        self.numbers[identity] = self.serial
        self._insert(binding, self.serial)
        return True

    def remove(self, binding: BindingDefinition) -> bool:
        """Remove a binding. Returns True when there was one."""
        identity = binding.identity
        if identity not in self.bindings:
            return False
        del self.bindings[identity]
        self._discard(binding, self.numbers.pop(identity))
        return True

    def check_binding(self, binding: BindingDefinition) -> None:
        """Raise ChannelViolation (406) for a binding that makes no sense here; called before every
        `add`."""

    def find(self, message: Message) -> list[Destination]:
        """Return the destinations of `message`, none twice, in order of binding for each of its
        keys."""
        keys = message.keys
        if len(keys) == 1:
            return self.match(keys[0])
        return list(dict.fromkeys(found for key in keys for found in self.match(key)))

    def search(self, message: Message) -> Search:
        """Find the same as `find`, in pieces. Bindings that are added or removed meanwhile may
        count or not."""
        found = self.find(message)
        yield len(found) // 4
        return found

    def match(self, key: str) -> list[Destination]:
        """Return the destinations of `key`, in order of binding, none twice. The list is not to be
        changed: an exchange may remember it."""
        raise NotImplementedError

    def _insert(self, binding: BindingDefinition, number: int) -> None:
        raise NotImplementedError

    def _discard(self, binding: BindingDefinition, number: int) -> None:
        raise NotImplementedError


def distinct(targets: Targets) -> list[Destination]:
    """Return the destinations of `targets` in order, each once."""
    if len(targets) == 1:
        return [*targets.values()]
    return list(dict.fromkeys(targets.values()))


def distinct_in_pieces(targets: Targets) -> Search:
    """Find the destinations of `targets` in order of number, each once, in pieces."""
    found: dict[Destination, None] = {}
    numbers = sorted(targets)
    for at in range(0, len(numbers), PIECE):
        some = [targets[number] for number in numbers[at : at + PIECE] if number in targets]
        found.update(dict.fromkeys(some))
        yield PIECE // 4
    return [*found]
