"""Goal: levels come when they are needed, a checkpoint waits for what was there when it began, and
what is shown is the sum. (What a queue with priorities does: test_paging, test_classic_model.)
"""

from __future__ import annotations

from sluicemq.queues.classic.priorities import PriorityBacking
from sluicemq.queues.machine import Depth
from sluicemq.storage.positions import Mark, first_of_priority, priority_at
from support.batches import batch_of

from .indices import new_index


def backing(highest: int = 5) -> PriorityBacking:
    return PriorityBacking(Depth(), new_index(), 4096, True, highest)


def publish(queue: PriorityBacking, priority: int, count: int = 1, envelope: bytes = b"a") -> int:
    contents = [b"%04d" % number for number in range(count)]
    return queue.publish(batch_of(contents, envelope, persistent=True, priority=priority))


def unsaved(queue: PriorityBacking, upto: int) -> list[int]:
    return [at for chunk, _ in queue.unsaved(upto, 0) for at in chunk.positions()]


def test_each_priority_has_its_row_and_the_highest_takes_those_above() -> None:
    queue = backing()
    positions = [publish(queue, priority) for priority in (0, 5, 5, 255, 2, 0)]
    assert [priority_at(position) for position in positions] == [0, 5, 5, 5, 2, 0]
    assert positions[1:4] == [first_of_priority(5) + n for n in range(3)]
    assert [*queue.levels] == [0, 2, 5]


def test_a_level_is_made_with_its_first_message_and_takes_what_holds() -> None:
    queue = backing(255)
    assert not queue.levels
    queue.target = 7
    queue.become(True)
    publish(queue, 200)
    (level,) = queue.levels.values()
    assert (level.target, level.lazy) == (7, True)
    queue.become(False)
    queue.target = None
    assert (level.target, level.lazy) == (None, False)


def test_a_checkpoint_does_not_wait_for_what_comes_after_it_has_begun() -> None:
    """Though it is below the highest position that was there: publishers could hold it up for
    ever."""
    queue = backing()
    was_there = {publish(queue, 0), publish(queue, 5)}
    queue.bound(max(was_there) + 1)
    for priority in (0, 3, 5):
        publish(queue, priority, envelope=b"b")
    assert set(unsaved(queue, max(was_there) + 1)) == was_there
    assert queue.bound_at(0, 10**30) == 1
    assert queue.bound_at(first_of_priority(3), 10**30) == 0


def test_positions_rise_from_level_to_level_in_a_checkpoint() -> None:
    queue = backing()
    for priority in (5, 0, 3, 5, 0):
        publish(queue, priority, 2)
    queue.bound(1 << 62)
    found = unsaved(queue, 1 << 62)
    assert found == sorted(found)
    assert len(found) == 10


def test_marks_have_each_row_and_the_bytes_of_its_messages() -> None:
    queue = backing()
    publish(queue, 0, 3)
    publish(queue, 4, 2)
    row = first_of_priority(4)
    assert queue.marks(20, ()) == [Mark(3, 0, 12), Mark(row + 2, 0, 8)]
    again = backing()
    assert again.recover([Mark(3, 1, 0), Mark(row + 2, row + 2, 0)]) == 0
    assert publish(again, 4) == row + 2
    assert publish(again, 0) == 3
    assert again.levels[4].delivered == row + 2


def test_what_is_shown_is_the_sum_and_the_length_of_each() -> None:
    queue = backing(3)
    publish(queue, 0, 3)
    publish(queue, 2, 2)
    status = queue.info()
    assert status["priority_lengths"] == {"0": 3, "1": 0, "2": 2, "3": 0}
    assert (status["len"], status["q4"], status["next_seq_id"]) == (5, 5, 5)
    assert status["delta"] == {"start": 0, "count": 0, "transient": 0, "end": 0}
