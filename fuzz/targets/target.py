"""What a target is, and the invariant that all of them share: memory follows what came in."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """`check` raises when an invariant does not hold for some input; whatever it raises is a fault.

    `decode` is the part of it whose memory is measured: at its worst it may hold `base_bytes` and
    `factor` bytes for each byte of input. What the product refuses is no error there.
    """

    name: str
    check: Callable[[bytes], None]
    decode: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    base_bytes: int
    factor: int
    input_max: int = 4096

    def check_memory(self, data: bytes) -> None:
        """The most that `decode` had in use at a time is bounded by what it was given."""
        allowed = self.base_bytes + self.factor * len(data)
        peak = peak_of(self.decode, data)
        assert peak <= allowed, f"{peak} bytes in use for an input of {len(data)}"


def peak_of(decode: Callable[[bytes], object], data: bytes) -> int:
    """The most memory that decoding had in use, in bytes."""
    tracemalloc.start()
    try:
        decode(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
