"""x-delayed-message: an exchange of another type that keeps some messages back for a while.

The header `x-delay` says how long, in milliseconds. Such a message is routed to a queue of the
exchange that no client sees (`holding_queue`), whatever is bound; when its time has come the broker
publishes it to the exchange again, with a negative delay, which counts as none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.errors import ChannelViolation, ConnectionViolation
from sluicemq.model.definitions import QUEUE, Destination
from sluicemq.routing.exchange import Exchange, Search
from sluicemq.routing.types import PLAIN_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluicemq.model.definitions import BindingDefinition, ExchangeDefinition
    from sluicemq.routing.message import Message

DELAYED: Final = "x-delayed-message"
DELAYED_TYPE: Final = "x-delayed-type"
DELAY: Final = "x-delay"
DELAY_MAX_MS: Final = 2**32 - 1
"""RabbitMQ's longest timer; a message with a longer delay is not kept back at all."""
DIGITS_MAX: Final = 10
"""The most digits of a delay that is written as text."""
HOLDING_PREFIX: Final = "amq.delayed."
"""No client may declare such a name, and none can reach it: it is not among the names of queues."""


def holding_queue(exchange: str) -> str:
    """Return the name of the queue that keeps the delayed messages of an exchange."""
    return HOLDING_PREFIX + exchange


def is_holding(queue: str) -> bool:
    """Tell whether a queue of this name keeps the messages of a delayed exchange."""
    return queue.startswith(HOLDING_PREFIX)


def delay_ms(headers: Mapping[str, object] | None) -> int:
    """Return how many milliseconds a message with these headers is kept back; 0 when it is not."""
    value = (headers or {}).get(DELAY)
    if isinstance(value, str):
        digits = value.removeprefix("+")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= DIGITS_MAX):
            return 0
        value = int(digits)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 1 <= value <= DELAY_MAX_MS else 0


class DelayedExchange(Exchange):
    """The exchange type x-delayed-message. It has no bindings of its own, only those of `inner`."""

    __slots__ = ("holding", "inner")

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self.inner = inner_type(definition)(definition)
        self.holding = [Destination(QUEUE, holding_queue(definition.name))]

    @property
    def is_empty(self) -> bool:
        return self.inner.is_empty

    def check_binding(self, binding: BindingDefinition) -> None:
        self.inner.check_binding(binding)

    def find(self, message: Message) -> list[Destination]:
        if delay_ms(message.properties.headers):
            return self.holding
        return self.inner.find(message)

    @property
    def is_vast(self) -> bool:
        return self.inner.is_vast

    def search(self, message: Message) -> Search:
        if delay_ms(message.properties.headers):
            yield 0
            return self.holding
        return (yield from self.inner.search(message))

    def _insert(self, binding: BindingDefinition, number: int) -> None:
        self.inner.add(binding)

    def _discard(self, binding: BindingDefinition, number: int) -> None:
        self.inner.remove(binding)


def inner_type(definition: ExchangeDefinition) -> type[Exchange]:
    """Return the exchange type that `x-delayed-type` names. Raises ChannelViolation in the words of
    RabbitMQ's plug-in."""
    kind = definition.arguments.get(DELAYED_TYPE)
    if kind == DELAYED:
        text = f"'{DELAYED}' can't be used for '{DELAYED_TYPE}'"
        raise ChannelViolation(406, f"Invalid argument, {text}")
    if not isinstance(kind, str):
        text = f"'{DELAYED_TYPE}' must be an existing exchange type"
        raise ChannelViolation(406, f"Invalid argument, {text}")
    if kind not in PLAIN_TYPES:
        flaw = "unknown" if kind else "invalid"
        raise ConnectionViolation(503, f"{flaw} exchange type '{kind}'")
    return PLAIN_TYPES[kind]
