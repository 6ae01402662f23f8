"""Goal: ready messages in RAM come out by position, whatever returns. Method: hypothesis puts in,
takes out and gives back; a sorted list of positions says what must come.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.kernel.actor import Actor
from sluicemq.limits import CHUNK_BYTES, CHUNK_MESSAGES, TRIM_MESSAGES
from sluicemq.model.batch import Batch, footprint
from sluicemq.queues.classic.chunk import Chunk
from sluicemq.queues.classic.paging import PlainBacking
from sluicemq.queues.classic.unacked_runs import UnackedRun
from sluicemq.queues.commands import LinkId
from sluicemq.queues.machine import Depth
from support.batches import batch_of
from support.fakes import bystander
from support.thorough import examples

from .indices import new_index

COUNTS = st.one_of(st.integers(1, 5), st.integers(1, 5), st.integers(200, 300))


def batch(contents: list[bytes]) -> Batch:
    same_size = len(set(map(len, contents))) == 1
    return batch_of(contents, same_size=same_size)


def numbered(first: int, count: int, size: int = 8) -> list[bytes]:
    return [n.to_bytes(8).ljust(size, b".") for n in range(first, first + count)]


def new_backing() -> PlainBacking:
    return PlainBacking(Depth(), new_index(), 4096, True)


def take(ready: PlainBacking, count: int) -> tuple[Chunk, list[bytes], int]:
    """Up to `count` messages of the head chunk: what they came from, they, and the position."""
    chunk = ready.head()
    assert chunk is not None
    count = min(count, chunk.left())
    contents = chunk.contents[chunk.start : chunk.start + count]
    position = chunk.position + chunk.start
    ready.took(chunk, count)
    return chunk, contents, position


def measured(ready: PlainBacking) -> tuple[int, int, int]:
    """Messages, their bytes, and their bytes of RAM, recounted."""
    chunks = [*ready.in_ram()]
    count = sum(chunk.left() for chunk in chunks)
    assert count == ready.length() == ready.depth.ram_messages
    size = sum(chunk.size() for chunk in chunks)
    return count, size, sum(chunk.footprint() for chunk in chunks)


class Bench:
    """Ready messages 0, 1, 2 ..., where each that is out can be given back, and what must come."""

    def __init__(self) -> None:
        self.ready = new_backing()
        self.channel: Actor = bystander()
        self.expected: list[int] = []
        self.out: dict[int, tuple[UnackedRun, int]] = {}
        self.published = 0

    def publish(self, count: int, size: int) -> None:
        self.ready.publish(batch(numbered(self.published, count, size)))
        self.expected += range(self.published, self.published + count)
        self.published += count

    def take(self, count: int, consumers: int) -> None:
        """Up to `count` of the head chunk, dealt to so many."""
        chunk, contents, position = take(self.ready, count)
        numbers = [int.from_bytes(content[:8]) for content in contents]
        assert numbers == self.expected[: len(numbers)]
        assert numbers[0] == position, "positions are counted from 0, like our numbers"
        del self.expected[: len(numbers)]
        for index in range(min(consumers, len(numbers))):
            positions = range(position + index, position + len(numbers), consumers)
            some = contents[index::consumers]
            run = UnackedRun(
                LinkId(1, 1), self.channel, None, chunk, some, position + index, consumers
            )
            self.out |= {number: (run, i) for i, number in enumerate(positions)}

    def give_back(self, pick: int, count: int) -> None:
        """Some message that is out and the ones behind it in its run."""
        if self.out:
            run, start = self.out[sorted(self.out)[pick % len(self.out)]]
            end = start
            while end < min(start + count, len(run.contents)) and run.contents[end] is not None:
                end += 1
            self.ready.give_back(run.give_back(start, end))
            for number in run.positions[start:end]:
                del self.out[number]
            self.expected = sorted([*self.expected, *run.positions[start:end]])

    def check_all(self) -> None:
        assert measured(self.ready)[0] == len(self.expected)
        while self.expected:
            self.take(10**6, 1)
        assert self.ready.head() is None


@examples(40)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("publish"), COUNTS, st.sampled_from([8, 8, 9])),
            st.tuples(st.just("take"), COUNTS, st.integers(1, 3)),
            st.tuples(st.just("give back"), st.integers(0, 300), st.integers(1, 300)),
        ),
        max_size=30,
    )
)
def test_messages_come_out_by_position(steps: list[tuple[str, int, int]]) -> None:
    """Dealt to one, two or three consumers; many and few, of several kinds."""
    bench = Bench()
    for what, n, m in steps:
        if what == "publish":
            bench.publish(n, m)
        elif what == "take" and bench.expected:
            bench.take(n, m)
        elif what == "give back":
            bench.give_back(n, m)
    bench.check_all()


@examples(100)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.integers(1, 3)),
            st.tuples(st.integers(0, 5), st.integers(1, 3)),
        ),
        max_size=15,
    )
)
def test_six_messages_taken_and_given_back_in_every_way(
    steps: list[tuple[str | int, int]],
) -> None:
    """So few that pieces meet again: before, behind and between what is partly taken."""
    bench = Bench()
    bench.publish(6, 8)
    bench.take(6, 1)
    for what, count in steps:
        if isinstance(what, int):
            bench.give_back(what, count)
        elif bench.expected:
            bench.take(count, 1)
    bench.check_all()


def test_batches_with_the_same_traits_are_joined() -> None:
    ready = new_backing()
    ready.publish(batch(numbered(0, 2)))
    ready.publish(batch(numbered(2, 3)))
    assert [chunk.left() for chunk in ready.q4.chunks] == [5]


@pytest.mark.parametrize(
    "other",
    [
        batch_of(numbered(2, 2), b"b"),
        batch_of(numbered(2, 2, 9)),
        batch_of(numbered(2, 2), same_size=False),
        batch_of(numbered(2, 2), persistent=True),
        batch_of(numbered(2, 2), channel_number=2),
        batch_of(numbered(2, 2), copies=2),
    ],
    ids=["envelope", "size", "sizes", "persistent", "channel number", "copies"],
)
def test_batches_that_differ_in_anything_are_not_joined(other: Batch) -> None:
    ready = new_backing()
    ready.publish(batch(numbered(0, 2)))
    ready.publish(other)
    assert [chunk.left() for chunk in ready.q4.chunks] == [2, 2]


def test_joining_leaves_the_list_of_the_batch_alone() -> None:
    """The same list may lie in other queues."""
    ready = new_backing()
    first = numbered(0, 2)
    ready.publish(batch(first))
    ready.publish(batch(numbered(2, 2)))
    assert first == numbered(0, 2)
    assert take(ready, 9)[1] == numbered(0, 4)
    assert first == numbered(0, 2)


def test_joining_to_a_chunk_of_which_some_was_taken_keeps_positions() -> None:
    ready = new_backing()
    ready.publish(batch(numbered(0, 5)))
    take(ready, 3)
    ready.publish(batch(numbered(5, 2)))
    _, contents, position = take(ready, 9)
    assert contents == numbered(3, 4)
    assert position == 3


def test_joining_ends_at_so_many_messages_or_bytes() -> None:
    ready = new_backing()
    for number in range(2 * CHUNK_MESSAGES):
        ready.publish(batch(numbered(number, 1)))
    assert [chunk.left() for chunk in ready.q4.chunks] == [CHUNK_MESSAGES] * 2
    ready = new_backing()
    quarter = CHUNK_BYTES // 4
    for number in range(8):
        ready.publish(batch(numbered(number, 1, quarter)))
    assert [chunk.left() for chunk in ready.q4.chunks] == [4, 4]


def test_what_was_taken_does_not_stay_in_memory() -> None:
    """Little may linger before the cut, neither many messages nor large ones."""
    for size in (8, 100_000):
        ready = new_backing()
        for number in range(600):
            ready.publish(batch(numbered(number, 1, size)))
        for _ in range(590):
            take(ready, 1)
            lingering = [c for chunk in ready.q4.chunks for c in chunk.contents[: chunk.start]]
            assert len(lingering) < TRIM_MESSAGES
            assert sum(map(len, lingering)) < 2 * CHUNK_BYTES


def test_empty_chunk_lets_go_of_its_messages() -> None:
    """A run remembers the chunk for its kind."""
    ready = new_backing()
    ready.publish(batch(numbered(0, 3)))
    chunk, _, _ = take(ready, 3)
    assert chunk.contents == []
    assert ready.head() is None


def test_measure_counts_what_is_left() -> None:
    ready = new_backing()
    ready.publish(batch(numbered(0, 5)))
    ready.publish(batch([b"x" * 7, b"y" * 3]))
    take(ready, 2)
    rest = [*numbered(2, 3), b"x" * 7, b"y" * 3]
    assert measured(ready) == (5, 34, footprint(rest, False, 1))
    ready.clear(lambda start, end: [])  # noqa: ARG005
    ready.depth.ram_messages = 0
    assert measured(ready) == (0, 0, 0)
    ready.publish(batch(numbered(7, 1)))
    assert take(ready, 1)[2] == 7, "positions go on"


def test_what_was_dealt_to_several_joins_again_when_it_returns() -> None:
    """Else a queue whose consumers died would deliver message by message for ever."""
    bench = Bench()
    bench.publish(300, 8)
    bench.take(300, 3)
    for number in range(0, 300, 2):
        bench.give_back(number // 2, 1)
    chunk = bench.ready.head()
    assert chunk is not None
    assert chunk.left() == 1, "every other one is still out"
    for _ in range(150):
        bench.give_back(0, 1)
    chunk = bench.ready.head()
    assert chunk is not None
    assert chunk.left() == 300
    bench.check_all()


def test_chunks_out_of_order_are_a_fault() -> None:
    """In the middle of a sub-queue they would be delivered out of order."""
    ready = new_backing()
    ready.publish(batch(numbered(0, 3)))
    older, newer = ready.q4.take_first(1), ready.q4.take_first(1)
    ready.q3.add(older)
    with pytest.raises(AssertionError, match="before an older one"):
        ready.q3.add_first(newer)
    ready.q2.add(newer)
    with pytest.raises(AssertionError, match="behind a newer one"):
        ready.q2.add(older)
