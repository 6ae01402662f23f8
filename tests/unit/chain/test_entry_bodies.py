"""Goal: whatever the sizes of entries, what somebody waits for is there when it has been read, and
what was read takes no more room than it may; nothing is let go that the disk has not. Method: the
bodies of a queue, told what was read, and what is on the disk.
"""

from __future__ import annotations

import pytest

from sluicemq.chain.queue.quorum.entry_bodies import BodyLimits, EntryBodies
from sluicemq.kernel.address import ActorAddress
from sluicemq.queues.quorum.command_codec import enqueue_of
from sluicemq.queues.quorum.commands import Enqueue, PurgeQueue
from sluicemq.queues.quorum.entry_content import EntryContent, FifoCodec
from support.batches import batch_of

SIZE = 100
MANY = 1 << 40
ANYBODY = ActorAddress(1, 1, 1)


def content(count: int, size: int = 10, sizes: list[int] | None = None) -> EntryContent:
    """An entry that enqueues so many messages."""
    command = Enqueue(ANYBODY, 1, count, size, sizes, None, 0)
    entry = EntryContent(bytes(SIZE), [command])
    entry.was_written()
    return entry


def kept(bodies: EntryBodies) -> list[int]:
    return [*bodies.stored, *bodies.fresh]


@pytest.fixture
def bodies() -> EntryBodies:
    """Entries 1 to 6, of 1 to 6 messages, of which 1 to 4 are on the disk, too."""
    bodies = EntryBodies()
    for index in range(1, 7):
        bodies.add(index, content(index))
    bodies.were_stored(4)
    return bodies


def read(bodies: EntryBodies, *indexes: int, bytes_max: int = 2 * SIZE) -> list[int]:
    """Which entries are there afterwards."""
    bodies.were_read({index: bytes(SIZE) for index in indexes}, bytes_max)
    return [*bodies.read_back]


def test_what_is_needed_last_goes_when_too_much_was_read() -> None:
    bodies = EntryBodies()
    assert bodies.find(1) is None
    assert read(bodies, 1, 2, 3, 4) == [1, 2]
    assert not bodies.wanted


def test_what_somebody_waits_for_is_kept_before_what_is_older() -> None:
    bodies = EntryBodies()
    assert bodies.find(7) is None
    assert read(bodies, 1, 2, 3, 7) == [7, 1]


def test_what_alone_is_too_large_is_kept() -> None:
    bodies = EntryBodies()
    assert bodies.find(1) is None
    assert read(bodies, 1, 2, bytes_max=SIZE // 2) == [1]


def test_what_was_read_before_goes_first() -> None:
    bodies = EntryBodies()
    read(bodies, 1, 2)
    assert bodies.find(3) is None
    assert read(bodies, 3) == [2, 3]
    assert bodies.ram_bytes == 2 * SIZE


def test_what_is_counted() -> None:
    bodies = EntryBodies()
    bodies.add(1, content(2, 30))
    bodies.add(2, content(3, sizes=[1, 2, 3]))
    assert (bodies.messages, bodies.body_bytes, bodies.ram_bytes) == (5, 66, 2 * SIZE)
    bodies.release(1)
    assert (bodies.messages, bodies.body_bytes, bodies.ram_bytes) == (3, 6, SIZE)
    bodies.release(2)
    assert (bodies.messages, bodies.body_bytes, bodies.ram_bytes) == (0, 0, 0)


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        (BodyLimits(MANY), [1, 2, 3, 4, 5, 6]),
        (BodyLimits(MANY, messages=21), [1, 2, 3, 4, 5, 6]),
        (BodyLimits(MANY, messages=20), [1, 2, 3, 5, 6]),
        (BodyLimits(MANY, messages=14), [1, 2, 5, 6]),
        (BodyLimits(MANY, messages=0), [5, 6]),
        (BodyLimits(MANY, body_bytes=170), [1, 2, 3, 5, 6]),
        (BodyLimits(MANY, body_bytes=0), [5, 6]),
        (BodyLimits(5 * SIZE), [1, 2, 3, 5, 6]),
        (BodyLimits(MANY, messages=17, body_bytes=140), [1, 2, 5, 6]),
    ],
)
def test_what_is_needed_last_goes_if_the_disk_has_it(
    bodies: EntryBodies, limits: BodyLimits, left: list[int]
) -> None:
    gone = {index: bodies.stored[index] for index in range(1, 5)}
    bodies.shrink(limits)
    assert kept(bodies) == left
    for index, each in gone.items():
        assert each.is_there is (index in left)
        assert bodies.has(index) is (index in left)


def test_what_comes_on_the_disk_later_goes_then(bodies: EntryBodies) -> None:
    bodies.shrink(BodyLimits(MANY, messages=0))
    bodies.were_stored(5)
    bodies.shrink(BodyLimits(MANY, messages=0))
    assert kept(bodies) == [6]
    assert bodies.messages == 6


def test_what_is_dead_goes_if_the_disk_has_it(bodies: EntryBodies) -> None:
    bodies.forget_dead(before=6, needed={2})
    assert kept(bodies) == [2, 5, 6]
    bodies.were_stored(6)
    bodies.forget_dead(before=6, needed={2})
    assert kept(bodies) == [2, 6]


def test_what_is_on_the_disk_when_it_comes_may_go() -> None:
    bodies = EntryBodies()
    bodies.were_stored(2)
    for index in range(1, 4):
        bodies.add(index, content(1))
    bodies.shrink(BodyLimits(0))
    assert kept(bodies) == [3]


def test_what_has_left_the_queue_is_let_go_of_and_makes_the_same_state() -> None:
    raw = (bytes(11) + (SIZE - 20).to_bytes(8)).ljust(SIZE)
    command = enqueue_of(batch_of([raw, raw]), ANYBODY, 1, 1)
    entry = FifoCodec().encode([command, PurgeQueue(ANYBODY)], 5)
    entry.was_written()
    whole = len(entry)
    bodies = EntryBodies()
    bodies.add(1, entry)
    assert bodies.ram_bytes == whole > 2 * SIZE
    bodies.release(1)
    assert bodies.ram_bytes == 0
    assert len(entry) == len(bytes(entry)) < whole - 2 * SIZE
    stamp_ms, found = EntryContent(bytes(entry)).decoded()
    assert stamp_ms == 5
    assert [type(each) for each in found] == [Enqueue, PurgeQueue]


def test_what_is_proposed_has_its_bodies() -> None:
    with pytest.raises(AssertionError, match="bodies"):
        FifoCodec().encode([Enqueue(ANYBODY, 1, 1, 10, None, None, 0)], 5)
