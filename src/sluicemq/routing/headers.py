"""The headers exchange, which compares the arguments of bindings with the headers of a message.

A binding asks for pairs of name and value; a void value asks for the name alone. `x-match`:

    all, any                  do all pairs fit, or at least one; names with `x-` are left out
    all-with-x, any-with-x    the same with those names, only `x-match` itself is left out

A binding is filed under each of its pairs when one is enough, and under the pair with the fewest
bindings when all must fit. So a message costs one or two look-ups a header, and a comparison for
each binding found by one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from decimal import Decimal
from typing import Final

from sluicemq.amqp.types import Timestamp
from sluicemq.errors import ChannelViolation
from sluicemq.model.arguments import type_name
from sluicemq.model.definitions import (
    BindingDefinition,
    Destination,
    ExchangeDefinition,
    canonical,
)
from sluicemq.model.terms import term
from sluicemq.routing.exchange import (
    PIECE,
    VAST,
    Exchange,
    Search,
    Targets,
    distinct,
    distinct_in_pieces,
)
from sluicemq.routing.message import Message
from sluicemq.text import text_of

MATCH: Final = "x-match"
ALL: Final = ("all", "all-with-x")
ANY: Final = ("any", "any-with-x")
WITH_X: Final = ("all-with-x", "any-with-x")

Pair = tuple[str, Hashable]
PRESENT: Final = None
"""The value of a pair that asks for the name alone; no value is compared as this."""


class HeadersPattern:
    """What a binding asks for. With `needs_all` False one of the pairs is enough."""

    __slots__ = ("needs_all", "pairs", "required", "target")

    def __init__(self, binding: BindingDefinition) -> None:
        kind = binding.arguments.get(MATCH, "all")
        self.needs_all = kind in ALL
        self.pairs = pairs_of(binding.arguments, kind in WITH_X)
        self.required = frozenset(self.pairs if self.needs_all else ())
        self.target = binding.target


NOTHING: Final[Mapping[int, HeadersPattern]] = {}


class HeadersExchange(Exchange):
    """The exchange type headers: it matches by the headers of messages; keys only distinguish
    bindings."""

    __slots__ = ("files", "undemanding")

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self.files: dict[Pair, dict[int, HeadersPattern]] = {}
        self.undemanding: Targets = {}

    def check_binding(self, binding: BindingDefinition) -> None:
        """Raise ChannelViolation (406) when `x-match` is none of its four words."""
        kind = binding.arguments.get(MATCH, "all")
        words = "expected all, any, all-with-x, or any-with-x"
        if not isinstance(kind, str):
            flaw = f"type {type_name(kind)} (value {term(kind)}); expected longstr"
        elif kind not in ALL + ANY:
            flaw = f"value {term(kind)}; {words}"
        else:
            return
        raise ChannelViolation(406, f"Invalid x-match field {flaw}")

    @property
    def is_vast(self) -> bool:
        return len(self.bindings) > VAST

    def find(self, message: Message) -> list[Destination]:
        pairs = offered_by(message)
        offered = set(pairs)
        found = dict(self.undemanding)
        for pair in pairs:
            filed = self.files.get(pair, NOTHING)
            message.work += len(filed)
            compare(filed.items(), offered, found)
        return distinct(dict(sorted(found.items())))

    def search(self, message: Message) -> Search:
        pairs = offered_by(message)
        offered = set(pairs)
        found = dict(self.undemanding)
        for pair in pairs:
            filed = self.files.get(pair, NOTHING)
            numbers = [*filed]
            for at in range(0, len(numbers), PIECE):
                some = [(each, filed[each]) for each in numbers[at : at + PIECE] if each in filed]
                compare(some, offered, found)
                yield PIECE
        return (yield from distinct_in_pieces(found))

    def _insert(self, binding: BindingDefinition, number: int) -> None:
        pattern = HeadersPattern(binding)
        pairs = pattern.pairs
        if pattern.needs_all:
            if not pairs:
                self.undemanding[number] = pattern.target
                return
            pairs = [min(pairs, key=lambda pair: len(self.files.get(pair, NOTHING)))]
        for pair in pairs:
            self.files.setdefault(pair, {})[number] = pattern

    def _discard(self, binding: BindingDefinition, number: int) -> None:
        self.undemanding.pop(number, None)
        for pair in HeadersPattern(binding).pairs:
            filed = self.files.get(pair)
            if filed is not None and number in filed:
                del filed[number]
                if not filed:
                    del self.files[pair]


def offered_by(message: Message) -> list[Pair]:
    """Return the pairs that a message offers: each header with its value, and each without."""
    headers = message.properties.headers or {}
    pairs: list[Pair] = [(name, comparable(value)) for name, value in headers.items()]
    return pairs + [(name, PRESENT) for name in headers]


def compare(
    filed: Iterable[tuple[int, HeadersPattern]], offered: set[Pair], found: Targets
) -> None:
    """Add to `found` the destinations of the bindings that accept what is offered."""
    for number, pattern in filed:
        if pattern.required <= offered:
            found[number] = pattern.target


def pairs_of(arguments: Mapping[str, object], with_x: bool) -> list[Pair]:
    """Return the pairs that a binding with these arguments asks for."""
    return [
        (name, PRESENT if value is None else comparable(value))
        for name, value in arguments.items()
        if name != MATCH and (with_x or not name.startswith("x-"))
    ]


def comparable(value: object) -> Hashable:
    """Return a value that is equal for values that RabbitMQ considers equal: the width of a number
    does not count, nor whether it is a timestamp, nor whether text is binary; but a number equals
    no boolean and no text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return text_of(value)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int | float):
        return value
    if isinstance(value, Timestamp):
        return value.seconds
    if isinstance(value, Decimal):
        return ("decimal", value.as_tuple())
    return ("nested", canonical(value))
