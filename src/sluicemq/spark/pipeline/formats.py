"""Numbers as people read them: always with their unit, never with more digits than they carry."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

NOTHING: Final = "–"
"""Not measured, or not defined."""

SPACE: Final = "\u00a0"
"""Between a number and its unit; no line breaks there."""

MINUS: Final = "\u2212"
"""As wide as the plus sign."""

PERCENT: Final = f"{SPACE}%"

MINUTE_MS: Final = 60_000.0


def duration(value_ms: float | None) -> str:
    """0.34 ms, 3.4 ms, 34 ms, 1.2 s, 2.1 min."""
    if value_ms is None:
        return NOTHING
    if value_ms >= MINUTE_MS:
        return f"{value_ms / MINUTE_MS:,.1f}{SPACE}min"
    if value_ms >= 999.5:
        return f"{value_ms / 1000:,.1f}{SPACE}s"
    digits = 0 if value_ms >= 9.95 else 1 if value_ms >= 0.995 else 2
    return f"{value_ms:,.{digits}f}{SPACE}ms"


def rate(value: float | None) -> str:
    """Messages per second."""
    return NOTHING if value is None else f"{value:,.0f}/s"


def count(value: float | None) -> str:
    """Whole things."""
    return NOTHING if value is None else f"{value:,.0f}"


def share(value: float | None) -> str:
    """0.123 as 12.3 %; 0.05 as 5 %."""
    if value is None:
        return NOTHING
    return f"{round(value * 100, 1):,g}{PERCENT}"


def ratio(value: float | None) -> str:
    """A figure around 1 or below."""
    return NOTHING if value is None else f"{value:,.2f}"


def variation(value: float | None) -> str:
    """A coefficient of variation."""
    return NOTHING if value is None else f"{value:.3f}"


def signed(value: float) -> str:
    """A change."""
    return "0" if round(value) == 0 else f"{value:+,.0f}".replace("-", MINUS)


def mebibytes(value: float | None) -> str:
    """Memory."""
    return NOTHING if value is None else f"{value / 2**20:,.0f}{SPACE}MiB"


def gibibytes(value: float) -> str:
    """A machine's memory."""
    return f"{value / 2**30:,.0f}{SPACE}GiB"


def microseconds(value: float | None) -> str:
    """CPU time a message."""
    return NOTHING if value is None else f"{value:,.1f}{SPACE}µs"


def limit(messages: int | None, percent: float | None) -> str:
    """An in-flight limit."""
    if messages is None:
        return "none"
    return f"{messages:,}" if percent is None else f"{messages:,} ({percent:g}{PERCENT})"


def without_password(uri: str) -> str:
    """A broker's address without what follows the user's name."""
    parts = urlsplit(uri)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    path = parts.path if parts.path != "/" else ""
    return f"{parts.scheme}://{host}{port}{path}"
