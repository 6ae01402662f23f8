"""Sets of positions as one number: bit i is position `base` + i. Python's ints do the work in C.

Encoded, such a set is whichever is shorter of

    0 u8 | first u16, last u16: each maximal range, ascending
    1 u8 | the bits, eight a byte, lowest first, up to the last one set
"""

from __future__ import annotations

import re
import struct
from itertools import pairwise
from typing import Final

from sluicemq.errors import Corrupt

BITS_MAX: Final = 65_536
"""The number of entries of the largest segment."""

RANGES: Final = 0
BITMAP: Final = 1

ONES: Final = re.compile("1+")


def bits_of(positions: range, base: int) -> int:
    """Return a bit for each position of an ascending range; none is below `base`, which
    is bit 0.
    """
    count = len(positions)
    if not count:
        return 0
    assert positions.start >= base
    if positions.step == 1:
        return ((1 << count) - 1) << (positions.start - base)
    # 0…01 repeated, as the quotient of two rows of ones
    step = positions.step
    return ((1 << count * step) - 1) // ((1 << step) - 1) << (positions.start - base)


def ranges_of(bits: int, base: int) -> list[range]:
    """Return the positions of a set of bits as maximal ranges without gaps, ascending; bit 0 is the
    position `base`."""
    text = f"{bits:b}"[::-1] if bits else ""
    return [range(base + found.start(), base + found.end()) for found in ONES.finditer(text)]


def encode_bits(bits: int) -> bytes:
    """Return a set of bits below BITS_MAX in at most 8193 bytes."""
    assert bits.bit_length() <= BITS_MAX
    count = (bits & ~(bits << 1)).bit_count()
    size = (bits.bit_length() + 7) // 8
    if 4 * count > size:
        return bytes([BITMAP]) + bits.to_bytes(size, "little")
    numbers = [number for each in ranges_of(bits, 0) for number in (each.start, each.stop - 1)]
    return struct.pack(f"<B{2 * count}H", RANGES, *numbers)


def decode_bits(data: bytes) -> int:
    """Return the set of bits that encode_bits was given. Raises Corrupt for bytes that it never
    writes."""
    kind = data[0] if data else None
    if kind == BITMAP:
        if len(data) > 1 + BITS_MAX // 8:
            raise Corrupt(f"a bitmap of {len(data) - 1} bytes")
        return int.from_bytes(data[1:], "little")
    if kind != RANGES or len(data) % 4 != 1:
        raise Corrupt(f"a set of bits of kind {kind} in {len(data)} bytes")
    numbers = struct.unpack(f"<{len(data) // 2}H", data[1:])
    if any(low > high for low, high in pairwise(numbers)):
        raise Corrupt("ranges of bits out of order")
    bits = 0
    for first, last in zip(numbers[::2], numbers[1::2], strict=True):
        bits |= ((1 << (last - first + 1)) - 1) << first
    return bits
