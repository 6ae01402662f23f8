"""Formats numbers for people: always with their unit, never with more digits than they carry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

NOTHING: Final = "–"
"""Stands for a figure that was not measured or is not defined."""

SPACE: Final = "\u00a0"
"""The space between a number and its unit, at which no line is broken."""

MINUS: Final = "\u2212"
"""A minus sign that is as wide as the plus sign."""

PERCENT: Final = f"{SPACE}%"

MINUTE_MS: Final = 60_000.0


def duration(value_ms: float | None) -> str:
    """Format milliseconds in the unit that suits them, as 0.34 ms, 34 ms, 1.2 s or 2.1 min; None as
    a dash."""
    if value_ms is None:
        return NOTHING
    if value_ms >= MINUTE_MS:
        return f"{value_ms / MINUTE_MS:,.1f}{SPACE}min"
    if value_ms >= 999.5:
        return f"{value_ms / 1000:,.1f}{SPACE}s"
    digits = 0 if value_ms >= 9.95 else 1 if value_ms >= 0.995 else 2
    return f"{value_ms:,.{digits}f}{SPACE}ms"


def rate(value: float | None) -> str:
    """Format messages per second as a whole number; None as a dash."""
    return NOTHING if value is None else f"{value:,.0f}/s"


def count(value: float | None) -> str:
    """Format a number of things as a whole number; None as a dash."""
    return NOTHING if value is None else f"{value:,.0f}"


def share(value: float | None) -> str:
    """Format a share of 1 in percent, 0.123 as 12.3 % and 0.05 as 5 %; None as a dash."""
    if value is None:
        return NOTHING
    return f"{round(value * 100, 1):,g}{PERCENT}"


def ratio(value: float | None) -> str:
    """Format a ratio around 1 with two digits behind the point; None as a dash."""
    return NOTHING if value is None else f"{value:,.2f}"


def variation(value: float | None) -> str:
    """Format a coefficient of variation with three digits behind the point; None as a dash."""
    return NOTHING if value is None else f"{value:.3f}"


def signed(value: float) -> str:
    """Format a change as a whole number with its sign; one that rounds to 0 has none."""
    return "0" if round(value) == 0 else f"{value:+,.0f}".replace("-", MINUS)


def mebibytes(value: float | None) -> str:
    """Format octets of memory in whole MiB; None as a dash."""
    return NOTHING if value is None else f"{value / 2**20:,.0f}{SPACE}MiB"


def gibibytes(value: float) -> str:
    """Format octets of a machine's memory in whole GiB."""
    return f"{value / 2**30:,.0f}{SPACE}GiB"


def microseconds(value: float | None) -> str:
    """Format microseconds of CPU time a message; None as a dash."""
    if value is None:
        return NOTHING
    return f"{value:,.{0 if value >= 99.95 else 1}f}{SPACE}µs"


def limit(messages: int | None, percent: float | None) -> str:
    """Format an in-flight limit in messages, with its share of the rate in percent if there is one;
    None messages as "none"."""
    if messages is None:
        return "none"
    return f"{messages:,}" if percent is None else f"{messages:,} ({percent:g}{PERCENT})"


def limit_name(messages: int | None, percent: float | None = None) -> str:
    """Name an in-flight limit as "limit 10 (1 %)", and None messages as "no limit"."""
    return "no limit" if messages is None else f"limit {limit(messages, percent)}"


def unbroken(words: str) -> str:
    """Keep numbers and their units on one line, as in "1 s"."""
    return re.sub(r"(\d) (s|ms|min|%)(?!\w)", rf"\1{SPACE}\2", words)


def listed(words: Sequence[str]) -> str:
    """Join words as a sentence does, with an "and" before the last."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""


def without_password(uri: str) -> str:
    """Return a broker's address without its user name and password."""
    parts = urlsplit(uri)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    path = parts.path if parts.path != "/" else ""
    return f"{parts.scheme}://{host}{port}{path}"
