"""Goal: what was requeued is there in the order of its positions, joined where it may be. Method:
hypothesis puts chunks in, in any order, and takes them out at both ends; a list of positions says
what must be there. Rows are short, so that there are many.
"""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.limits import CHUNK_BYTES, CHUNK_MESSAGES
from sluicemq.model.traits import message_traits
from sluicemq.queues.classic.chunk import Chunk
from sluicemq.queues.classic.requeued import Requeued

ROW = 4


def requeued(first: int, count: int, number: int = 1, size: int = 8) -> Chunk:
    contents = [at.to_bytes(8).ljust(size, b".") for at in range(first, first + count)]
    return Chunk(message_traits(b"envelope", number, False), contents, True, first, True)


def positions(there: Requeued) -> list[int]:
    for chunk in there:
        numbers = [int.from_bytes(content[:8]) for content in chunk.rest()]
        assert numbers == [*chunk.positions()]
    return [position for chunk in there for position in chunk.positions()]


@pytest.fixture(autouse=True)
def short_rows() -> Iterator[None]:
    with patch("sluicemq.queues.classic.requeued.ROW_MAX", ROW):
        yield


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2)), max_size=60).flatmap(
        lambda chunks: st.tuples(st.just(chunks), st.permutations(range(len(chunks))))
    ),
    st.lists(st.booleans(), max_size=20),
)
def test_chunks_are_in_order_whatever_order_they_come_in(
    given: tuple[list[tuple[int, int]], list[int]], ends: list[bool]
) -> None:
    """Those with another number are not joined."""
    chunks, order = given
    firsts = [2 * sum(count for count, _ in chunks[:each]) for each in range(len(chunks))]
    there = Requeued()
    expected: list[int] = []
    for each in order:
        count, number = chunks[each]
        first = firsts[each] if number == 1 else firsts[each] + 1
        there.add(requeued(first, count, number))
        expected += range(first, first + count)
    expected.sort()
    assert positions(there) == expected
    assert all(0 < len(row) <= ROW for row in there.rows)
    for is_first in ends:
        if not there:
            break
        chunk = there.popleft() if is_first else there.pop()
        assert chunk not in there
        taken = [*chunk.positions()]
        assert (expected[: len(taken)] if is_first else expected[-len(taken) :]) == taken
        expected = expected[len(taken) :] if is_first else expected[: -len(taken)]
        assert positions(there) == expected
    assert bool(there) == bool(expected)


@given(st.permutations(range(40)))
def test_neighbours_are_one_chunk_in_the_end(order: list[int]) -> None:
    there = Requeued()
    for position in order:
        there.add(requeued(position, 1))
    assert len([*there]) == 1
    assert positions(there) == [*range(40)]


@pytest.mark.parametrize("step", [1, -1])
def test_no_chunk_grows_beyond_its_bounds(step: int) -> None:
    there = Requeued()
    for first in range(0, 3000, 300)[::step]:
        there.add(requeued(first, 300))
    assert [chunk.left() for chunk in there] == [900, 900, 900, 300][::step]
    assert max(chunk.left() for chunk in there) <= CHUNK_MESSAGES
    large = Requeued()
    for first in range(0, 12, 3)[::step]:
        large.add(requeued(first, 3, size=CHUNK_BYTES // 8))
    assert [chunk.left() for chunk in large] == [6, 6]


def test_what_is_there_is_found_by_identity() -> None:
    there = Requeued()
    chunks = [requeued(10 * each, 2) for each in range(3 * ROW)]
    for chunk in chunks:
        there.add(chunk)
    assert all(chunk in there for chunk in chunks)
    assert requeued(10, 2) not in there
    assert requeued(10**6, 1) not in there


def test_a_chunk_gives_way_to_what_has_become_of_it() -> None:
    """Its first message has been lost, and its third."""
    there = Requeued()
    chunks = [requeued(10 * each, 4) for each in range(2 * ROW)]
    for chunk in chunks:
        there.add(chunk)
    there.replace(chunks[3], [requeued(31, 1), requeued(33, 1)])
    there.replace(chunks[0], [])
    expected = [at for each in range(1, 2 * ROW) for at in range(10 * each, 10 * each + 4)]
    assert positions(there) == [at for at in expected if at not in (30, 32)]


@pytest.mark.parametrize("again", [(0, 2), (1, 1), (1, 2), (5, 1), (4, 2), (6, 1)])
def test_what_comes_back_twice_is_a_fault(again: tuple[int, int]) -> None:
    there = Requeued()
    there.add(requeued(0, 2))
    there.add(requeued(5, 2))
    with pytest.raises(AssertionError, match="twice"):
        there.add(requeued(*again))
