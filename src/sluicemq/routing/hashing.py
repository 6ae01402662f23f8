"""Hashes that are the same in every process, and the consistent choice of a bucket.

`jump` is the algorithm of Lamping and Veach (A Fast, Minimal Memory, Consistent Hash Algorithm,
2014): when a bucket is added to n others, one of n + 1 keys moves, and it moves to the new bucket.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from sluicemq.text import octets

MULTIPLIER: Final = 2862933555777941757
MASK: Final = 2**64 - 1


def stable_hash(text: str) -> int:
    """Return a 64-bit hash of `text` that is the same in every process."""
    return int.from_bytes(blake2b(octets(text), digest_size=8).digest())


def jump(key: int, buckets: int) -> int:
    """Return the bucket, 0 <= n < `buckets`, of a 64-bit key. Takes about ln(buckets) rounds."""
    assert buckets > 0
    chosen, ahead = -1, 0
    while ahead < buckets:
        chosen = ahead
        key = (key * MULTIPLIER + 1) & MASK
        ahead = ((chosen + 1) << 31) // ((key >> 33) + 1)
    return chosen
