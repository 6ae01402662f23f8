"""Names rows by their content: the same in every attempt, in any order of rows.

A name is a digest of everything that is sent, with the row's number among equal rows. Equal rows
are interchangeable, so it does not matter which of them has which number. The place of a row (a row
number, a partition and a number in it) is no name: after a shuffle a task that runs again has its
rows in another order.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

DIGEST_SIZE: Final = 16
KEY_SIZE: Final = 8
"""This many octets of a digest distinguish rows for counting. Different rows that are equal in
these still have different names, but their numbers depend on their order."""

DIGITS: Final = 12
POWERS: Final = 10 ** np.arange(DIGITS - 1, -1, -1)
NAME_SIZE: Final = 2 * DIGEST_SIZE + 1 + DIGITS
MERGED_RATIO: Final = 2
HEX: Final = np.frombuffer(bytes(range(256)).hex().encode(), np.uint8).reshape(256, 2)
"""The two letters of each octet."""


class EqualCounter:
    """Numbers rows among those that are equal to them, from 0, in the order they come.

    It keeps KEY_SIZE octets of each row, in sorted arrays, each of them larger than the next.
    """

    def __init__(self) -> None:
        self._arrays: list[Array] = []

    def number(self, digests: Array) -> Array:
        """Return the numbers of the next rows. `digests` is a matrix with a row of octets for each
        of them, one at least."""
        keys = np.ascontiguousarray(digests[:, :KEY_SIZE]).view(np.uint64).ravel()
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        counts = np.diff(np.append(begins, len(keys)))
        before = np.zeros(len(begins), np.int64)
        for array in self._arrays:
            before += np.searchsorted(array, keys[begins], "right")
            before -= np.searchsorted(array, keys[begins], "left")
        numbers = np.empty(len(keys), np.int64)
        numbers[order] = np.arange(len(keys)) + np.repeat(before - begins, counts)
        self._keep(keys)
        return numbers

    def _keep(self, keys: Array) -> None:
        while self._arrays and len(self._arrays[-1]) <= MERGED_RATIO * len(keys):
            keys = np.sort(np.concatenate((self._arrays.pop(), keys)), kind="stable")
        self._arrays.append(keys)


def digest(octets: bytes, key: bytes = b"") -> bytes:
    """Return the digest of a row's octets, DIGEST_SIZE octets long. `key`, 64 octets at most,
    stands for the rest of the row."""
    return blake2b(octets, digest_size=DIGEST_SIZE, key=key).digest()


def names_of(digests: Iterable[bytes], counter: EqualCounter) -> Array:
    """Return the names of the next rows as a matrix of octets, with NAME_SIZE of them for each row:
    the digest in hexadecimal, a dash, and the row's number."""
    octets = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST_SIZE)
    numbers = counter.number(octets)
    names = np.empty((len(octets), NAME_SIZE), np.uint8)
    names[:, : 2 * DIGEST_SIZE] = HEX[octets].reshape(len(octets), -1)
    names[:, 2 * DIGEST_SIZE] = ord("-")
    names[:, -DIGITS:] = numbers[:, None] // POWERS % 10 + ord("0")
    return names
