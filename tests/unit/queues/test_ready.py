"""Goal: ready messages come out by position, whatever returns. Method: hypothesis puts in, takes
out and gives back; a sorted list of positions says what must come.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sluicemq.kernel.actor import Actor
from sluicemq.limits import CHUNK_BYTES, CHUNK_MESSAGES, TRIM_MESSAGES
from sluicemq.model.batch import Batch, footprint
from sluicemq.queues.lots import Lot
from sluicemq.queues.ready import Chunk, Ready

from ..fakes import bystander

COUNTS = st.one_of(st.integers(1, 5), st.integers(200, 300))


def batch(
    contents: list[bytes], address: bytes = b"a", persistent: bool = False, number: int = 1
) -> Batch:
    even = len(set(map(len, contents))) == 1
    return Batch(address, contents, sum(map(len, contents)), even, persistent, number, 1)


def numbered(first: int, count: int, size: int = 8) -> list[bytes]:
    return [n.to_bytes(8).ljust(size, b".") for n in range(first, first + count)]


def take(ready: Ready, count: int) -> tuple[Chunk, list[bytes], int]:
    """Up to `count` messages of the head chunk: what they came from, they, and the position."""
    chunk = ready.head()
    assert chunk is not None
    count = min(count, chunk.left())
    contents = chunk.contents[chunk.start : chunk.start + count]
    position = chunk.position + chunk.start
    ready.took(chunk, count)
    return chunk, contents, position


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("publish"), COUNTS, st.sampled_from([8, 8, 9])),
            st.tuples(st.just("take"), COUNTS, st.integers(1, 3)),
            st.tuples(st.just("return"), st.integers(0, 99), st.integers(0, 99)),
        ),
        max_size=25,
    )
)
def test_messages_come_out_by_position(steps: list[tuple[str, int, int]]) -> None:
    """Dealt to one, two or three consumers; each lot returns in pieces from either end."""
    ready = Ready()
    expected: list[int] = []
    lots: list[tuple[Lot, list[int]]] = []
    published = 0
    channel: Actor = bystander()
    for what, n, m in steps:
        if what == "publish":
            ready.publish(batch(numbered(published, n, m)))
            expected += range(published, published + n)
            published += n
        elif what == "take" and expected:
            chunk, contents, position = take(ready, n)
            numbers = [int.from_bytes(content[:8]) for content in contents]
            assert numbers == expected[: len(numbers)]
            assert numbers[0] == position, "positions are counted from 0, like our numbers"
            del expected[: len(numbers)]
            for index in range(min(m, len(numbers))):
                positions = range(position + index, position + len(numbers), m)
                lots.append((Lot(channel, None, chunk, contents[index::m], positions), [0]))
        elif what == "return" and lots:
            lot, done = lots[n % len(lots)]
            start = done[0]
            end = min(len(lot.contents), start + 1 + m)
            if start < end:
                ready.give_back(lot.give_back(start, end))
                expected = sorted([*expected, *lot.positions[start:end]])
                done[0] = end
        assert ready.measure()[0] == len(expected)
    while expected:
        chunk, contents, position = take(ready, 10**6)
        numbers = [int.from_bytes(content[:8]) for content in contents]
        assert numbers == expected[: len(numbers)]
        del expected[: len(numbers)]
    assert ready.head() is None


def test_batches_of_one_kind_are_joined_and_others_are_not() -> None:
    ready = Ready()
    ready.publish(batch(numbered(0, 2)))
    ready.publish(batch(numbered(2, 3)))
    assert [chunk.left() for chunk in ready.chunks] == [5]
    for other in (
        batch(numbered(5, 2), address=b"b"),
        batch(numbered(7, 2), address=b"b", persistent=True),
        batch(numbered(9, 2), address=b"b", persistent=True, number=2),
        batch(numbered(11, 2, size=9), address=b"b", persistent=True, number=2),
    ):
        ready.publish(other)
    assert [chunk.left() for chunk in ready.chunks] == [5, 2, 2, 2, 2]


def test_joining_leaves_the_list_of_the_batch_alone() -> None:
    """The same list may lie in other queues."""
    ready = Ready()
    first = numbered(0, 2)
    ready.publish(batch(first))
    ready.publish(batch(numbered(2, 2)))
    assert first == numbered(0, 2)
    assert take(ready, 9)[1] == numbered(0, 4)
    assert first == numbered(0, 2)


def test_joining_to_a_chunk_of_which_some_was_taken_keeps_positions() -> None:
    ready = Ready()
    ready.publish(batch(numbered(0, 5)))
    take(ready, 3)
    ready.publish(batch(numbered(5, 2)))
    _, contents, position = take(ready, 9)
    assert contents == numbered(3, 4)
    assert position == 3


def test_joining_ends_at_so_many_messages_or_bytes() -> None:
    ready = Ready()
    for number in range(2 * CHUNK_MESSAGES):
        ready.publish(batch(numbered(number, 1)))
    assert [chunk.left() for chunk in ready.chunks] == [CHUNK_MESSAGES] * 2
    ready = Ready()
    quarter = CHUNK_BYTES // 4
    for number in range(8):
        ready.publish(batch(numbered(number, 1, quarter)))
    assert [chunk.left() for chunk in ready.chunks] == [4, 4]


def test_what_was_taken_does_not_stay_in_memory() -> None:
    """Little may linger before the cut, neither many messages nor large ones."""
    for size in (8, 100_000):
        ready = Ready()
        for number in range(600):
            ready.publish(batch(numbered(number, 1, size)))
        for _ in range(590):
            take(ready, 1)
            lingering = [c for chunk in ready.chunks for c in chunk.contents[: chunk.start]]
            assert len(lingering) < TRIM_MESSAGES
            assert sum(map(len, lingering)) < 2 * CHUNK_BYTES


def test_empty_chunk_lets_go_of_its_messages() -> None:
    """A lot remembers the chunk for its kind."""
    ready = Ready()
    ready.publish(batch(numbered(0, 3)))
    chunk, _, _ = take(ready, 3)
    assert chunk.contents == []
    assert ready.head() is None


def test_measure_counts_what_is_left() -> None:
    ready = Ready()
    ready.publish(batch(numbered(0, 5)))
    ready.publish(batch([b"x" * 7, b"y" * 3]))
    take(ready, 2)
    rest = [*numbered(2, 3), b"x" * 7, b"y" * 3]
    assert ready.measure() == (5, 34, footprint(rest, False, 1))
    ready.clear()
    assert ready.measure() == (0, 0, 0)
    ready.publish(batch(numbered(7, 1)))
    assert take(ready, 1)[2] == 7, "positions go on"
