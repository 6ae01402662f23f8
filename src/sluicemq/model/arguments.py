"""The x-arguments of a queue: their names, the values they take, and the errors for wrong values.

One row an argument, in the order in which RabbitMQ checks them (its error names the first wrong
one), followed by those that are refused whatever their value. Unknown arguments are accepted and
kept, as RabbitMQ does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Final

from sluicemq.amqp.types import Timestamp
from sluicemq.errors import ChannelViolation
from sluicemq.model.queue_types import CLASSIC, TYPES

TIMER_MAX_MS: Final = 315_360_000_000
"""RabbitMQ's longest timer: ten years of 365 days."""
PRIORITY_MAX: Final = 255
SIGNEDINT_MIN: Final = -(2**31)
SIGNEDINT_MAX: Final = 2**31 - 1
SEGMENT_BYTES_MAX: Final = 3_000_000_000
AGE: Final = re.compile(r"\d{1,12}[YMDhms]", re.ASCII)
LEADER_LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders")
TOO_LARGE: Final = "too large"
"""In place of a complaint: RabbitMQ has other words for it."""

TYPE_NAMES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "bool"),
    (float, "double"),
    (str, "longstr"),
    (bytes, "binary"),
    (dict, "table"),
    (list, "array"),
    (datetime, "timestamp"),
    (Timestamp, "timestamp"),
    (Decimal, "decimal"),
    (type(None), "void"),
)

Check = Callable[[object, Mapping[str, object]], str | None]
"""A function of the value and all arguments that returns RabbitMQ's complaint, or None."""


def type_name(value: object) -> str:
    """Return RabbitMQ's word for the field type of `value`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "signedint" if SIGNEDINT_MIN <= value <= SIGNEDINT_MAX else "long"
    for python_type, name in TYPE_NAMES:
        if isinstance(value, python_type):
            return name
    return type(value).__name__


def show(value: object) -> str:
    """Return a value as error texts show it: texts unchanged, everything else as Erlang
    writes it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else _term(value)


def _term(value: object) -> str:
    """Return a field value as Erlang writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "undefined"
    if isinstance(value, Timestamp):
        return str(value.seconds)
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        return f"{{{-int(exponent)},{''.join(map(str, digits))}}}"
    if isinstance(value, list):
        return f"[{','.join(f'{{{type_name(each)},{_term(each)}}}' for each in value)}]"
    if isinstance(value, Mapping):
        fields = [f'{{<<"{key}">>,{type_name(each)},{_term(each)}}}' for key, each in value.items()]
        return f"[{','.join(fields)}]"
    return f'<<"{value}">>' if isinstance(value, str) else str(value)


def same_value(one: object, other: object) -> bool:
    """Tell whether two values are equal and of the same class of types: 5 is 5 in every width, but
    never 5.0 or true."""
    return type(one) is type(other) and one == other


def check_queue_arguments(arguments: Mapping[str, object], where: str) -> None:
    """Raise ChannelViolation (406) for the first argument that does not fit a queue of its type;
    `where` names the queue in the text."""
    if not arguments:
        return
    kind = arguments.get("x-queue-type", CLASSIC)
    known = TYPES.get(kind) if isinstance(kind, str) else None
    refused = () if known is None else known.refused_arguments
    for key, check in QUEUE_ARGUMENTS.items():
        if key in arguments and key not in refused:
            complaint = check(arguments[key], arguments)
            if complaint is not None:
                raise ChannelViolation(406, _refusal(key, arguments[key], complaint, where))
    for key in arguments:  # in the client's order, which decides what RabbitMQ finds first
        if key in refused:
            text = f"invalid arg '{key}' for {where} of queue type rabbit_{kind}_queue"
            raise ChannelViolation(406, text)


def _refusal(key: str, value: object, complaint: str, where: str) -> str:
    if key == "x-dead-letter-exchange":
        return f"invalid type '{type_name(value)}' for arg '{key}' in {where}"
    if complaint == TOO_LARGE:
        return f"Exceeded max value for {key}"
    return f"invalid arg '{key}' for {where}: {complaint}"


def _integer(value: object, _: Mapping[str, object]) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return None
    return f'"expected integer, got {type_name(value)}"'


def _non_negative(value: object, arguments: Mapping[str, object]) -> str | None:
    complaint = _integer(value, arguments)
    if complaint is None and isinstance(value, int) and value < 0:
        return f"{{value_negative,{value}}}"
    return complaint


def _timer(value: object, arguments: Mapping[str, object]) -> str | None:
    complaint = _non_negative(value, arguments)
    if complaint is None and isinstance(value, int) and value > TIMER_MAX_MS:
        return f"{{value_too_large,{value}}}"
    return complaint


def _expires(value: object, arguments: Mapping[str, object]) -> str | None:
    if type(value) is int and value == 0:
        return "{value_zero,0}"
    return _timer(value, arguments)


def _priorities(value: object, arguments: Mapping[str, object]) -> str | None:
    complaint = _non_negative(value, arguments)
    if complaint is None and isinstance(value, int) and value > PRIORITY_MAX:
        return f"{{max_value_exceeded,{value}}}"
    return complaint


def _text(value: object, _: Mapping[str, object]) -> str | None:
    return None if isinstance(value, str) else f"{{unacceptable_type,{type_name(value)}}}"


def _boolean(value: object, _: Mapping[str, object]) -> str | None:
    return None if isinstance(value, bool) else f"{{unacceptable_type,{type_name(value)}}}"


def _dead_letter_key(value: object, arguments: Mapping[str, object]) -> str | None:
    complaint = _text(value, arguments)
    if complaint is None and "x-dead-letter-exchange" not in arguments:
        return "routing_key_but_no_dlx_defined"
    return complaint


def _dead_letter_strategy(value: object, arguments: Mapping[str, object]) -> str | None:
    complaint = _text(value, arguments)
    if complaint is None and value not in ("at-most-once", "at-least-once"):
        return "invalid_dlx_strategy"
    return complaint


def _overflow(value: object, arguments: Mapping[str, object]) -> str | None:
    complaint = _text(value, arguments)
    if complaint is None and value not in ("drop-head", "reject-publish", "reject-publish-dlx"):
        return "invalid_overflow"
    return complaint


def _queue_mode(value: object, arguments: Mapping[str, object]) -> str | None:
    complaint = _text(value, arguments)
    if complaint is None and value not in ("default", "lazy"):
        return f"\"unsupported queue mode '{value}'\""
    return complaint


def _queue_version(value: object, arguments: Mapping[str, object]) -> str | None:
    complaint = _integer(value, arguments)
    if complaint is None and value not in (1, 2):
        return f"\"unsupported queue version '{value}'\""
    return complaint


def _queue_type(value: object, arguments: Mapping[str, object]) -> str | None:
    complaint = _text(value, arguments)
    if complaint is None and value not in TYPES:
        return f"\"unsupported queue type '{value}'\""
    return complaint


def _age(value: object, arguments: Mapping[str, object]) -> str | None:
    complaint = _text(value, arguments)
    if complaint is None and isinstance(value, str):
        fits = AGE.fullmatch(value) is not None and int(value[:-1]) > 0
        return None if fits else "invalid_max_age"
    return complaint


def _segment_bytes(value: object, arguments: Mapping[str, object]) -> str | None:
    complaint = _non_negative(value, arguments)
    if complaint is None and isinstance(value, int) and value > SEGMENT_BYTES_MAX:
        return TOO_LARGE
    return complaint


def _not_zero(value: object, arguments: Mapping[str, object]) -> str | None:
    complaint = _non_negative(value, arguments)
    return "{value_zero,0}" if complaint is None and value == 0 else complaint


def _leader_locator(value: object, arguments: Mapping[str, object]) -> str | None:
    complaint = _text(value, arguments)
    if complaint is None and value not in LEADER_LOCATORS:
        return "invalid_queue_locator_arg"
    return complaint


QUEUE_ARGUMENTS: Final[dict[str, Check]] = {
    "x-expires": _expires,
    "x-message-ttl": _timer,
    "x-dead-letter-exchange": _text,
    "x-dead-letter-routing-key": _dead_letter_key,
    "x-dead-letter-strategy": _dead_letter_strategy,
    "x-max-length": _non_negative,
    "x-max-length-bytes": _non_negative,
    "x-max-in-memory-length": _non_negative,
    "x-max-in-memory-bytes": _non_negative,
    "x-max-priority": _priorities,
    "x-overflow": _overflow,
    "x-delivery-limit": _integer,
    "x-queue-mode": _queue_mode,
    "x-queue-version": _queue_version,
    "x-single-active-consumer": _boolean,
    "x-queue-type": _queue_type,
    "x-quorum-initial-group-size": _not_zero,
    "x-queue-master-locator": _text,
    "x-max-age": _age,
    "x-stream-max-segment-size-bytes": _segment_bytes,
    "x-initial-cluster-size": _not_zero,
    "x-queue-leader-locator": _leader_locator,
    "x-message-deduplication": _boolean,
    "x-cache-size": _not_zero,
    "x-cache-ttl": _timer,
}
