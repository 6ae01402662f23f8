"""Cuts bytes into fields: a missing or malformed field is a ValueError."""

from __future__ import annotations


def cut(data: memoryview, at: int, length: int) -> memoryview:
    """Return data[at:at + length]. Raises ValueError when the data ends before that."""
    if len(data) - at < length:
        raise ValueError(f"wrong {length} bytes")
    return data[at : at + length]


def demand(holds: bool, what: str) -> None:
    """Raise ValueError, with a text that `what` is wrong, unless `holds` is true."""
    if not holds:
        raise ValueError(f"wrong {what}")
