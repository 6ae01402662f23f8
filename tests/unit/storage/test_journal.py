"""Goal: a journal's groups come back as they were written. Method: groups are written to files in a
dict, whole and in part.
"""

from __future__ import annotations

from itertools import count

import pytest

from sluicemq.errors import Corrupt
from sluicemq.storage.entries import QueueDeleted, encode_queue_deleted
from sluicemq.storage.journal import GroupWrite, Journal, Replay, journal_numbers, journal_path
from sluicemq.storage.records import GROUP, encode_record
from support.files import DictFiles, run

LIMIT = 400
NUMBERS = count(1)


def file_id() -> bytes:
    return next(NUMBERS).to_bytes(16)


def entries(*queues: int) -> list[bytes]:
    parts: list[bytes] = []
    for queue in queues:
        encode_queue_deleted(parts, queue)
    return parts


def written(*groups: list[bytes]) -> tuple[Journal, DictFiles]:
    journal, files = Journal(1, LIMIT, file_id), DictFiles()
    for parts in groups:
        run(files, journal.group(parts))
    return journal, files


def test_groups_come_back_in_order() -> None:
    _, files = written(entries(1), entries(2, 3), entries(4))
    found = Replay(files, 1)
    assert found.entries == [QueueDeleted(queue) for queue in (1, 2, 3, 4)]
    assert (found.problems, found.torn) == ([], False)
    assert found.sequences == [1, 2, 3]


def test_a_group_is_durable_when_its_job_is_done() -> None:
    journal, files = Journal(1, LIMIT, file_id), DictFiles()
    job = journal.group(entries(1))
    assert job.allocate == LIMIT, "a new file"
    run(files, job)
    assert files.actions[-3:] == [
        f"write {journal_path(1)}",
        f"sync {journal_path(1)}",
        "sync_directory journal",
    ]
    job = journal.group(entries(2))
    assert job.allocate == 0
    run(files, job)
    assert Replay(files.crash(), 1).entries == [QueueDeleted(1), QueueDeleted(2)]


def test_a_group_that_found_no_space_is_written_again_to_the_same_place() -> None:
    journal, files = Journal(1, LIMIT, file_id), DictFiles()
    job = journal.group(entries(1))
    for done in range(5):
        files.fail_after(done, "ENOSPC")
        run(files, job)
        assert job.failure is not None
        job.failure = None
    files.fail = None
    run(files, job)
    run(files, journal.group(entries(2)))
    assert Replay(files, 1).entries == [QueueDeleted(1), QueueDeleted(2)]


def test_a_file_that_is_full_is_followed_by_the_next() -> None:
    journal, files = written()
    files_used = set()
    for queue in range(30):
        job = journal.group(entries(queue))
        files_used.add(job.path)
        run(files, job)
        if journal.rotate():
            assert files.size(job.path) >= LIMIT
    numbers = journal_numbers(files)
    assert numbers == list(range(1, len(numbers) + 1))
    assert files_used == {*map(journal_path, numbers)}
    found = [entry for number in numbers for entry in Replay(files, number).entries]
    assert found == [QueueDeleted(queue) for queue in range(30)]
    sequences = [s for number in numbers for s in Replay(files, number).sequences]
    assert sequences == list(range(1, 31)), "they go on from file to file"


def test_marks_say_what_old_files_have_of_each_queue() -> None:
    journal = Journal(5, 1, file_id)
    journal.mark(1, 10)
    journal.group(entries(1))
    assert journal.rotate()
    journal.mark(1, 7)
    journal.mark(2, 0)
    journal.mark(2, 3)
    journal.group(entries(1))
    assert journal.rotate()
    journal.mark(1, 90)
    assert journal.marks_before(7) == [{1: 10}, {1: 7, 2: 3}]
    assert journal.marks_before(6) == [{1: 10}]
    journal.forget_before(6)
    assert journal.marks_before(7) == [{1: 7, 2: 3}]
    assert journal.files_before(7) == [journal_path(5), journal_path(6)]
    assert journal.files_before(7) == [], "once"


@pytest.mark.parametrize("cut", [1, 30, 63, 64, 70, 90])
def test_a_file_that_was_never_finished_is_torn(cut: int) -> None:
    """Cut off in its header, at its end, in the first group."""
    _, files = written(entries(1))
    files.files[journal_path(1)].data[cut:] = bytes(LIMIT - cut)
    found = Replay(files, 1)
    assert found.entries == []
    assert found.torn == (cut != 64), "a header alone is whole"


def test_a_file_of_zeroes_is_torn_and_no_problem() -> None:
    """Its space was reserved, and then nothing was written."""
    files = DictFiles()
    files.make_directory("journal")
    files.allocate(journal_path(1), LIMIT)
    found = Replay(files, 1)
    assert (found.entries, found.problems, found.torn) == ([], [], True)


def test_a_file_whose_header_is_damaged_is_a_problem() -> None:
    _, files = written(entries(1))
    files.files[journal_path(1)].data[20] ^= 1
    found = Replay(files, 1)
    assert found.entries == []
    assert "CRC" in found.unreadable


def test_a_damaged_group_is_named_with_its_place() -> None:
    journal, files = written(entries(1))
    start = journal.offset
    run(files, journal.group(entries(2)))
    end = journal.offset
    run(files, journal.group(entries(3)))
    files.files[journal_path(1)].data[start + 30] ^= 1
    found = Replay(files, 1)
    assert found.entries == [QueueDeleted(1), QueueDeleted(3)]
    assert found.problems == [f"{journal_path(1)}: bytes {start} to {end} are damaged"]
    assert found.sequences == [1, 3]


def test_a_group_with_something_else_in_it_is_refused() -> None:
    """Its crc is right: that is no damage, but a writer's mistake or a newer one."""
    journal, files = written(entries(1))
    offset = journal.offset
    record = encode_record(journal.file_id, offset, GROUP, 2, [b"\x63 is no entry"])
    run(files, GroupWrite(journal_path(1), offset, record, 0))
    with pytest.raises(Corrupt):
        Replay(files, 1)


def test_other_files_are_left_alone() -> None:
    _, files = written(entries(1))
    files.put("journal/notes.txt", b"")
    files.put("journal/1.jif", b"")
    assert journal_numbers(files) == [1]


@pytest.mark.parametrize("kept", [0, 3, 40])
def test_a_first_write_that_was_cut_off_or_lost_its_beginning_is_no_damage(kept: int) -> None:
    journal, files = Journal(1, LIMIT, file_id), DictFiles()
    job = journal.group(entries(*range(40)))
    whole = job.data
    for left in (whole[:kept].ljust(LIMIT, b"\0"), bytes(512) + whole[512:]):
        files.make_directory("journal")
        files.write(journal_path(1), 0, left)
        found = Replay(files, 1)
        assert (found.entries, found.problems, found.torn) == ([], [], True)


def test_a_header_that_was_damaged_later_is_told() -> None:
    _, files = written(entries(1), entries(2))
    files.files[journal_path(1)].data[:64] = bytes(64)
    assert Replay(files, 1).unreadable
    files.files[journal_path(1)].data[:] = b"something else".ljust(LIMIT, b"\0")
    assert Replay(files, 1).unreadable


def test_a_copy_under_another_name_is_not_replayed_twice() -> None:
    _, files = written(entries(1))
    files.put(journal_path(0), files.content(journal_path(1)))
    found = Replay(files, 0)
    assert (found.entries, found.unreadable) == ([], "it is journal file 1")


# A file that is used again


def reused(*groups: list[bytes]) -> tuple[Journal, DictFiles]:
    """Two full files, the first of which becomes the third with these groups."""
    journal, files = written()
    while journal.number < 3:
        run(files, journal.group(entries(90 + journal.sequence)))
        journal.rotate()
    (journal.spare,) = journal.files_before(2)
    for parts in groups:
        run(files, journal.group(parts))
    return journal, files


def test_a_file_that_is_not_needed_becomes_the_next_one() -> None:
    journal, files = reused(entries(1))
    assert journal_numbers(files) == [2, 3]
    assert f"rename {journal_path(1)}" in files.actions
    found = Replay(files.crash(), 3, journal.file_id)
    assert (found.entries, found.problems) == ([QueueDeleted(1)], [])
    run(files, journal.group(entries(2)))
    assert Replay(files.crash(), 3).entries == [QueueDeleted(1), QueueDeleted(2)]


def test_nothing_that_a_file_had_before_is_read_again() -> None:
    """Wherever the new groups end, in the midst of an old one or at its end."""
    old = len(Replay(reused()[1], 1).entries)
    assert old > 3
    for size in range(1, 2 * old):
        journal, files = reused(*[entries(queue) for queue in range(size)])
        if journal.offset >= LIMIT:
            break
        found = Replay(files, 3, journal.file_id)
        assert found.entries == [QueueDeleted(queue) for queue in range(size)]
        assert (found.problems, found.torn, found.end) == ([], True, journal.offset)
    assert size >= old


def test_a_spare_file_is_given_once() -> None:
    journal, _ = reused()
    spare = journal.spare
    assert journal.group(entries(1)).spare == spare
    assert journal.take_spare() == []


@pytest.mark.parametrize("cut", range(91))
def test_a_first_group_that_was_cut_off_leaves_nothing_of_the_old_file(cut: int) -> None:
    """Nor is it a problem: nobody was told of the group. Its header, of 64 bytes, may be cut off,
    too: a write may end anywhere when the node is killed."""
    journal, files = reused()
    before = files.content(journal_path(1))
    job = journal.group(entries(1))
    files.put(journal_path(3), job.data[:cut] + before[cut:])
    found = Replay(files, 3)
    assert (found.entries, found.problems, found.unreadable) == ([], [], "")
    assert found.torn


@pytest.mark.parametrize("cut", [0, 25, 40, 61])
def test_a_header_between_two_that_is_damaged_beside_that_is_told(cut: int) -> None:
    journal, files = reused()
    before = files.content(journal_path(1))
    data = bytearray(journal.group(entries(1)).data[:cut] + before[cut:])
    for place in range(64):
        damaged = bytearray(data)
        damaged[place] ^= 64
        files.put(journal_path(3), bytes(damaged))
        assert Replay(files, 3).unreadable, place


def test_a_damaged_header_of_a_file_with_a_very_high_number_is_told() -> None:
    _, files = written(entries(1))
    data = bytearray(files.content(journal_path(1)))
    data[20] ^= 1
    files.put(journal_path(10**18), bytes(data))
    assert Replay(files, 10**18).unreadable


def test_a_spare_file_that_is_gone_is_done_without() -> None:
    journal, files = reused()
    files.delete(journal_path(1))
    run(files, journal.group(entries(1)))
    assert Replay(files.crash(), 3).entries == [QueueDeleted(1)]
    assert files.size(journal_path(3)) >= LIMIT


def test_a_first_group_without_space_is_written_again_to_the_same_spare_file() -> None:
    journal, files = reused()
    job = journal.group(entries(1))
    for done in range(8):
        files.fail_after(done, "ENOSPC")
        run(files, job)
        if job.failure is None:
            break
        job.failure = None
    assert done > 4
    files.fail = None
    run(files, journal.group(entries(2)))
    assert Replay(files.crash(), 3).entries == [QueueDeleted(1), QueueDeleted(2)]


def test_a_used_file_that_is_left_early_has_nothing_behind_its_groups() -> None:
    """So damage to its last group is told: nothing else can be behind the last whole one."""
    journal, files = reused(entries(1), entries(2))
    end = journal.offset
    journal.next_file()
    run(files, journal.group(entries(3)))
    left = files.crash()
    assert not Replay(left, 3).torn
    assert left.size(journal_path(3)) >= LIMIT
    left.files[journal_path(3)].data[end - 8] ^= 1
    assert Replay(left, 3).torn
