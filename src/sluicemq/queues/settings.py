"""The settings of a queue, from its arguments and its policy.

Where both set something RabbitMQ's rules apply: the smaller of two numbers, otherwise the argument,
except for the size of a stream's segments, where the policy's applies. `max-priority` and
`single-active-consumer` can be asked for by argument only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

DROP_HEAD: Final = "drop-head"
REJECT_PUBLISH: Final = "reject-publish"
REJECT_PUBLISH_DLX: Final = "reject-publish-dlx"
AT_MOST_ONCE: Final = "at-most-once"
AT_LEAST_ONCE: Final = "at-least-once"

AGE_UNITS_S: Final = {
    "Y": 365 * 86400,
    "M": 30 * 86400,
    "D": 86400,
    "h": 3600,
    "m": 60,
    "s": 1,
}
"""Of `max-age`: "7D" are seven days."""


class QueueSettings(NamedTuple):
    """Says how one queue behaves. A number is None where there is no limit; times are in
    milliseconds, sizes in bytes."""

    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: str = DROP_HEAD
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    dead_letter_strategy: str = AT_MOST_ONCE
    max_priority: int | None = None
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    lazy: bool = False
    max_age_ms: int | None = None
    max_segment_bytes: int | None = None
    max_in_memory_length: int | None = None
    max_in_memory_bytes: int | None = None

    @property
    def has_limit(self) -> bool:
        """Tell whether the number or the size of the ready messages is limited."""
        return self.max_length is not None or self.max_length_bytes is not None


NO_SETTINGS: Final = QueueSettings()


def settings_of(arguments: Mapping[str, object], policy: Mapping[str, object]) -> QueueSettings:
    """Combine the arguments of a declaration (x-...) and the definition of the policy that applies.
    A value of the wrong type counts as not given."""
    if not arguments and not policy:
        return NO_SETTINGS
    overflow = _either(arguments, policy, "overflow")
    strategy = _either(arguments, policy, "dead-letter-strategy")
    return QueueSettings(
        message_ttl_ms=_smaller(arguments, policy, "message-ttl"),
        expires_ms=_smaller(arguments, policy, "expires"),
        max_length=_smaller(arguments, policy, "max-length"),
        max_length_bytes=_smaller(arguments, policy, "max-length-bytes"),
        overflow=DROP_HEAD if overflow is None else overflow,
        dead_letter_exchange=_either(arguments, policy, "dead-letter-exchange"),
        dead_letter_routing_key=_either(arguments, policy, "dead-letter-routing-key"),
        dead_letter_strategy=AT_MOST_ONCE if strategy is None else strategy,
        max_priority=_number(arguments.get("x-max-priority")),
        single_active_consumer=arguments.get("x-single-active-consumer") is True,
        delivery_limit=_least(
            _not_negative(arguments.get("x-delivery-limit")),
            _not_negative(policy.get("delivery-limit")),
        ),
        lazy=_either(arguments, policy, "queue-mode") == "lazy",
        max_age_ms=_least(
            _age_ms(arguments.get("x-max-age")),
            _age_ms(policy.get("max-age")),
        ),
        max_segment_bytes=_first(
            _number(policy.get("stream-max-segment-size-bytes")),
            _number(arguments.get("x-stream-max-segment-size-bytes")),
        ),
        max_in_memory_length=_smaller(arguments, policy, "max-in-memory-length"),
        max_in_memory_bytes=_smaller(arguments, policy, "max-in-memory-bytes"),
    )


def _smaller(arguments: Mapping[str, object], policy: Mapping[str, object], key: str) -> int | None:
    return _least(_number(arguments.get(f"x-{key}")), _number(policy.get(key)))


def _either(arguments: Mapping[str, object], policy: Mapping[str, object], key: str) -> str | None:
    value = arguments.get(f"x-{key}", policy.get(key))
    return value if isinstance(value, str) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _not_negative(value: object) -> int | None:
    """Return a number that is not negative, else None: clients write a negative one for
    no limit.
    """
    number = _number(value)
    return None if number is not None and number < 0 else number


def _least(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return _first(one, other)
    return min(one, other)


def _first(one: int | None, other: int | None) -> int | None:
    return other if one is None else one


def _age_ms(value: object) -> int | None:
    """None for what is no age: that was refused when it was declared."""
    if not isinstance(value, str) or value[-1:] not in AGE_UNITS_S or not value[:-1].isdecimal():
        return None
    return int(value[:-1]) * AGE_UNITS_S[value[-1]] * 1000
