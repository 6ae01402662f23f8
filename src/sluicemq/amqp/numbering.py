"""Contents of one length, each behind frames that differ in a number, which grows by one."""

from __future__ import annotations

from io import BytesIO
from typing import Final

NUMBER_SIZE: Final = 8

OCTETS: Final = [bytes((value,)) for value in range(256)]
"""All single octets: Python has each of them once."""

LOW_OCTETS: Final = b"".join(OCTETS) * 2
"""The last octets of 512 consecutive numbers, of which the first is a multiple of 256."""


def octets_of(first: int, count: int, shift: int) -> bytes:
    """Return, for each of `count` numbers from `first` on, its octet above the lowest `shift`
    bits."""
    number, end = first, first + count
    octets = b""
    while number < end:
        following = min(((number >> shift) + 1) << shift, end)
        octets += OCTETS[number >> shift & 255] * (following - number)
        number = following
    return octets


def numbered(before: bytes, contents: list[bytes], numbers: list[tuple[int, int]]) -> bytes:
    """Return contents of one length, each behind `before`, in which there are `numbers`: each is
    given by its place and its value before the first content, and is one more before each further
    one.

    The octets are joined with the first values everywhere, and the others are written over these,
    all with a few calls: objects for them would cost more than the copy of a kibibyte."""
    store = BytesIO(before.join([b"", *contents]))  # which takes it over: nobody else has it
    view = store.getbuffer()
    stride = len(before) + len(contents[0])
    count = len(contents)
    for at, first in numbers:
        low = first & 255
        octets = LOW_OCTETS if low + count <= 512 else LOW_OCTETS * (low + count >> 8)
        view[at + NUMBER_SIZE - 1 :: stride] = octets[low : low + count]
        last = first + count - 1
        shift = 8
        while first >> shift != last >> shift:
            view[at + NUMBER_SIZE - 1 - shift // 8 :: stride] = octets_of(first, count, shift)
            shift += 8
    view.release()
    return store.getvalue()
