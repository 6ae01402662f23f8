"""Field values as Erlang prints them: RabbitMQ's error texts quote them so."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from sluicemq.amqp.types import Timestamp
from sluicemq.model.arguments import type_name
from sluicemq.text import octets

PRINTABLE: Final = frozenset((*range(32, 127), *range(160, 256)))


def term(value: object) -> str:
    """Return a decoded field value as Erlang prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return binary(octets(value))
    if isinstance(value, bytes):
        return binary(value)
    if value is None:
        return "undefined"
    if isinstance(value, Timestamp):
        return str(value.seconds)
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        return f"{{{-int(exponent)},{int(''.join(map(str, digits)))}}}"
    if isinstance(value, Mapping):
        fields = (f"{{{term(k)},{type_name(v)},{term(v)}}}" for k, v in value.items())
        return f"[{','.join(fields)}]"
    if isinstance(value, list):
        return f"[{','.join(f'{{{type_name(v)},{term(v)}}}' for v in value)}]"
    return str(value)


def binary(raw: bytes) -> str:
    """Return bytes as Erlang prints them: as text when all of them are printable in Latin-1, else
    as their numbers."""
    if not PRINTABLE.issuperset(raw):
        return f"<<{','.join(map(str, raw))}>>"
    if not raw:
        return "<<>>"
    text = raw.decode("utf-8", "replace").replace("\\", "\\\\").replace('"', '\\"')
    return f'<<"{text}">>'
