"""What a search in pieces comes to."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def result(pieces: Generator[int, None, T]) -> T:
    """Of all its pieces."""
    while True:
        try:
            assert next(pieces) >= 0
        except StopIteration as end:
            found: T = end.value
            return found
