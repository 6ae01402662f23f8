"""Goal: whatever the sizes of entries, what somebody waits for is there when it has been read, and
what was read takes no more room than it may. Method: the bodies of a queue, told what was read.
"""

from __future__ import annotations

from sluicemq.chain.queue.quorum.entry_bodies import EntryBodies

SIZE = 100


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
