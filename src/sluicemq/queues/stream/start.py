"""The place where a consumer of a stream begins: its argument x-stream-offset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from sluicemq.amqp.types import Timestamp
from sluicemq.model.arguments import type_name
from sluicemq.queues.settings import AGE_UNITS_S

ARGUMENT: Final = "x-stream-offset"

FIRST: Final = "first"
LAST: Final = "last"
NEXT: Final = "next"
OFFSET: Final = "offset"
TIME: Final = "time"
AGO: Final = "ago"
DIGITS_MAX: Final = 20
"""The most digits of an age: with so many it is older than anything, and further ones make no
difference."""
WORDS: Final = (FIRST, LAST, NEXT)


class Start(NamedTuple):
    """The place where a consumer begins. `kind` is one of FIRST, LAST, NEXT, OFFSET, TIME and AGO;
    `value` is the offset for OFFSET, milliseconds since the epoch for TIME, milliseconds before now
    for AGO, 0 for the others."""

    kind: str
    value: int = 0


def start_of(arguments: Mapping[str, object]) -> Start | None:
    """Return where a consumer with these arguments of basic.consume begins: with the next message,
    if they do not say. None when they are invalid."""
    value = arguments.get(ARGUMENT, NEXT)
    if isinstance(value, Timestamp):
        return Start(TIME, value.seconds * 1000)
    if isinstance(value, int) and not isinstance(value, bool):
        return Start(OFFSET, max(0, value))
    if not isinstance(value, str):
        return None
    if value in WORDS:
        return Start(value)
    number, unit = value[:-1], value[-1:]
    if unit in AGE_UNITS_S and number.isascii() and number.isdecimal():
        count = int(number.lstrip("0")[:DIGITS_MAX] or 0)
        return Start(AGO, count * AGE_UNITS_S[unit] * 1000) if count else None
    return None


def complaint(arguments: Mapping[str, object]) -> str:
    """Return RabbitMQ's error text for an invalid argument x-stream-offset."""
    value = arguments[ARGUMENT]
    shown = f'<<"{value}">>' if isinstance(value, str) else str(value)
    return f"{{invalid_stream_offset_arg,{{{type_name(value)},{shown}}}}}"
