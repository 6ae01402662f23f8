"""Goal: sets of positions as numbers are the sets they stand for.

Method: hypothesis against sets.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Corrupt
from sluicemq.storage.bits import BITS_MAX, bits_of, decode_bits, encode_bits, ranges_of

SETS = st.sets(st.integers(0, 300))


def as_set(bits: int, base: int = 0) -> set[int]:
    return {base + i for i in range(bits.bit_length()) if bits >> i & 1}


@given(st.integers(0, 500), st.integers(0, 40), st.integers(0, 40), st.integers(1, 50))
def test_a_range_has_its_bits(base: int, start: int, count: int, step: int) -> None:
    positions = range(base + start, base + start + count * step, step)
    assert as_set(bits_of(positions, base), base) == set(positions)


@given(SETS, st.integers(0, 10**9))
def test_bits_are_maximal_ranges(numbers: set[int], base: int) -> None:
    bits = sum(1 << number for number in numbers)
    ranges = ranges_of(bits, base)
    assert [p for each in ranges for p in each] == sorted(base + n for n in numbers)
    assert all(a.stop < b.start for a, b in pairwise(ranges))
    assert sum(bits_of(each, base) for each in ranges) == bits


@given(SETS | st.integers(0, 2**400 - 1).map(as_set))
def test_bits_come_back_in_the_shorter_form(numbers: set[int]) -> None:
    bits = sum(1 << number for number in numbers)
    data = encode_bits(bits)
    assert decode_bits(data) == bits
    assert len(data) <= 1 + (bits.bit_length() + 7) // 8
    assert len(data) <= 1 + 4 * len(ranges_of(bits, 0))


def test_large_sets_are_small() -> None:
    assert len(encode_bits((1 << BITS_MAX) - 1)) == 5
    assert len(encode_bits(0)) == 1
    alternating = bits_of(range(0, 16384, 2), 0)
    assert len(encode_bits(alternating)) == 2049
    assert decode_bits(encode_bits(alternating)) == alternating


@given(st.binary(max_size=40))
def test_any_bytes_are_bits_or_corrupt(data: bytes) -> None:
    try:
        assert decode_bits(data) >= 0
    except Corrupt:
        return


@pytest.mark.parametrize(
    "data", [b"", b"\x02", b"\x00\x01", b"\x00\x05\x00\x04\x00", b"\x01" + bytes(8193)]
)
def test_what_nobody_writes_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_bits(data)
