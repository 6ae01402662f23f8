"""Goal: each promise of MessageFiles, in small. Method: a store on files in memory, its jobs run at
once; hypothesis looks for what nobody thought of in test_message_machine.py.
"""

from __future__ import annotations

from itertools import accumulate
from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sluicemq.errors import Refused
from sluicemq.sim.disk import SimFiles, run
from sluicemq.storage import message_file, message_writes
from sluicemq.storage.compaction import Compaction, Deletion
from sluicemq.storage.message_file import read_directory
from sluicemq.storage.message_files import PERSISTENT, MessageFiles
from sluicemq.storage.message_index import DictIndex, number_of, offset_of
from sluicemq.storage.message_recovery import Recovered
from sluicemq.storage.records import (
    FILE_HEADER_SIZE,
    MESSAGE,
    U64,
    encode_record,
    pieces_of_records,
    scan,
    size_of_record,
    with_crc,
)

LIMIT = 2048
BODY = bytes(range(200))
"""Its record takes 224 bytes, so that nine cross the limit."""
RECORD = 224
A_FILE = 9


class Store:
    """Message files and the disk they are on."""

    def __init__(self, disk: SimFiles | None = None, references: dict[int, int] | None = None):
        self.disk = disk or SimFiles()
        self.files = MessageFiles(PERSISTENT, DictIndex(), LIMIT, self.new_file_id)
        self.found: Recovered = self.files.recover(self.disk, references or {})

    def new_file_id(self) -> bytes:
        return (self.disk.number + 1).to_bytes(16, "big")

    def path(self, number: int) -> str:
        return f"messages/persistent/{number:08d}.rdq"

    def names(self) -> list[str]:
        return self.disk.names("messages/persistent")

    def write(self, ids: range) -> None:
        """Write, and see it done."""
        self.files.write_run(ids, [BODY] * len(ids))
        self.flush()

    def flush(self) -> None:
        job = self.files.take_job()
        assert job is not None
        self.do(job)
        self.files.finished(job)

    def do(self, job: message_writes.MessageWrites | Compaction | Deletion) -> None:
        run(job, self.disk)
        assert job.failure is None

    def step(self, job: Compaction | Deletion | None) -> Compaction | None:
        assert job is not None
        self.do(job)
        return self.files.compacted(job)

    def compact(self) -> None:
        """Until nothing is left to do."""
        while (job := self.files.compaction()) is not None:
            following = self.step(job)
            while following is not None:
                following = self.step(following)

    def read(self, *ids: int) -> dict[int, bytes]:
        contents, job = self.files.find(ids)
        if job is not None:
            run(job, self.disk)
            self.files.done_reading(job)
            contents |= job.contents
        return contents


def test_one_job_takes_everything_and_syncs_it_once() -> None:
    """And the directory, which the start synced too, for a new file only."""
    store = Store()
    store.files.write_run(range(1, 4), [BODY] * 3)
    store.files.write(9, b"")
    job = store.files.take_job()
    assert job is not None and store.files.take_job() is None
    store.do(job)
    counts = store.disk.counts
    assert (counts["write"], counts["sync"], counts["sync_directory"]) == (1, 1, 2)
    store.files.finished(job)
    assert store.read(1, 9) == {1: BODY, 9: b""}
    store.write(range(10, 12))
    assert (counts["write"], counts["sync"], counts["sync_directory"]) == (2, 2, 2)


def test_a_message_is_found_in_memory_until_its_job_is_over() -> None:
    store = Store()
    store.files.write(1, b"")
    assert store.files.find([1]) == ({1: b""}, None)
    job = store.files.take_job()
    assert job is not None
    assert store.files.find([1]) == ({1: b""}, None)
    store.do(job)
    store.files.finished(job)
    assert store.files.find([1])[1] is not None


def test_what_is_removed_in_time_is_never_written() -> None:
    store = Store()
    store.files.write_run(range(1, 4), [BODY] * 3)
    store.files.remove([1, 3])
    store.flush()
    figures = store.files.figures()
    assert (figures["writes"], figures["overtaken"]) == (1, 2)
    store.files.write(4, BODY)
    store.files.remove([4])
    assert store.files.take_job() is None


def test_what_is_removed_while_it_is_written_is_garbage() -> None:
    store = Store()
    store.files.write_run(range(1, 3), [BODY] * 2)
    job = store.files.take_job()
    assert job is not None
    store.files.remove([1])
    store.do(job)
    store.files.finished(job)
    assert store.files.figures()["valid_bytes"] == RECORD
    assert store.files.figures()["garbage_bytes"] == FILE_HEADER_SIZE + RECORD


def test_many_queues_have_one_copy() -> None:
    """While it is buffered, while it is written, and when it is on disk."""
    store = Store()
    ids = range(1, 4)
    for _ in range(2):
        store.files.write_run(ids, [BODY] * 3)
    job = store.files.take_job()
    assert job is not None
    store.files.write_run(ids, [BODY] * 3)
    store.do(job)
    store.files.finished(job)
    store.files.write_run(ids, [BODY] * 3)
    assert store.files.take_job() is None
    assert store.files.figures()["deduplicated"] == 9
    for _ in range(3):
        store.files.remove(ids)
        assert store.files.figures()["valid_bytes"] == 3 * RECORD
    store.files.remove([1, 1, 2, 3, 3, 3, 77])
    assert store.files.figures()["valid_bytes"] == 0


def test_a_dead_message_is_referred_to_again_where_it_lies() -> None:
    """A queue was faster than another to which the same message goes."""
    store = Store()
    store.write(range(1, 3))
    store.files.remove([1])
    store.files.write(1, BODY)
    assert store.files.take_job() is None
    assert store.files.figures()["valid_bytes"] == 2 * RECORD
    assert store.read(1) == {1: BODY}


def test_files_end_with_the_record_that_crosses_the_limit() -> None:
    store = Store()
    store.write(range(1, 2 * A_FILE + 2))
    assert len(store.names()) == 3
    sizes = [store.disk.size(store.path(number)) for number in range(3)]
    assert sizes == [64 + A_FILE * RECORD, 64 + A_FILE * RECORD, 64 + RECORD]
    assert store.read(*range(1, 20)) == dict.fromkeys(range(1, 20), BODY)


def test_full_files_get_a_directory_with_the_next_job() -> None:
    """Not with their own: what it lists must be durable before it is."""
    store = Store()
    store.write(range(1, A_FILE + 1))
    size = store.disk.size(store.path(0))
    store.write(range(A_FILE + 1, A_FILE + 2))
    path = store.path(0)
    listed = read_directory(store.disk, path, store.files.table[0].file_id, store.disk.size(path))
    assert listed is not None
    assert store.disk.size(path) == size + listed.size() == store.files.table[0].size
    expected = [(each, 64 + (each - 1) * RECORD, RECORD) for each in range(1, A_FILE + 1)]
    assert list(listed) == expected


def test_a_job_that_failed_can_be_done_again() -> None:
    """At every primitive: the outcome is the same."""
    for number in range(1, 7):
        store = Store()
        store.write(range(1, A_FILE + 1))
        store.files.write_run(range(20, 40), [BODY] * 20)
        job = store.files.take_job()
        assert job is not None
        store.disk.plan[store.disk.number + number] = "ENOSPC"
        run(job, store.disk)
        assert job.failure is not None and job.failure.is_full
        job.failure = None
        store.do(job)
        store.files.finished(job)
        assert store.read(*range(20, 40)) == dict.fromkeys(range(20, 40), BODY)
        for file in store.files.table.values():
            data = store.disk.read(file.path, 0, file.size + 1)
            assert len(data) == file.size
            assert scan(data, file.file_id).damaged == []


def test_neighbours_are_read_at_once_and_strangers_apart() -> None:
    store = Store()
    store.write(range(1, 2 * A_FILE + 2))
    _, job = store.files.find([5, 3, 1, 12, 99])
    assert job is not None
    before = store.disk.counts.get("read", 0)
    run(job, store.disk)
    assert store.disk.counts["read"] - before == 2
    assert job.contents == dict.fromkeys((5, 3, 1, 12), BODY)
    assert job.missing == [99]


def test_a_damaged_message_is_missing_and_its_neighbours_are_not() -> None:
    """The file is not copied from after that, and put aside when nothing in it is alive."""
    store = Store()
    store.write(range(1, A_FILE + 1))
    store.write(range(20, 20 + A_FILE))
    store.write(range(40, 40 + A_FILE))
    store.write(range(60, 61))
    store.disk.flip(store.path(0), 64 + RECORD + 100)
    _, job = store.files.find([1, 2, 3])
    assert job is not None
    run(job, store.disk)
    store.files.done_reading(job)
    assert (set(job.contents), job.missing) == ({1, 3}, [2])
    assert len(store.files.problems) == 1 and store.path(0) in store.files.problems[0]
    store.files.remove([*range(2, 10), *range(21, 29), *range(41, 49)])
    store.compact()
    assert "00000000.rdq" in store.names() and "00000001.rdq" not in store.names()
    store.files.remove([1])
    store.compact()
    assert "00000000.rdq" not in store.names()
    assert store.disk.names("quarantine") == ["messages-persistent-00000000.rdq"]
    assert store.read(20, 40, 60) == dict.fromkeys((20, 40, 60), BODY)


def test_a_read_that_fails_says_so_and_can_be_tried_again() -> None:
    store = Store()
    store.write(range(1, 3))
    _, job = store.files.find([1, 2])
    assert job is not None
    store.disk.plan[store.disk.number + 1] = "EIO"
    run(job, store.disk)
    store.files.done_reading(job)
    assert job.failure is None and sorted(job.missing) == [1, 2]
    assert "EIO" in job.unread and not store.files.problems
    _, again = store.files.find([1, 2])
    assert again is not None
    run(again, store.disk)
    store.files.done_reading(again)
    assert not again.unread and list(again.contents) == [1, 2]


def three_sparse_files() -> Store:
    """Three full files with two living messages each, and the current one."""
    store = Store()
    for first in (1, 21, 41):
        store.write(range(first, first + A_FILE))
        store.files.remove(range(first + 2, first + A_FILE))
    store.write(range(61, 62))
    return store


ALIVE = (1, 2, 21, 22, 41, 42, 61)


def test_two_neighbours_become_one_file() -> None:
    store = three_sparse_files()
    job = store.files.compaction()
    assert isinstance(job, Compaction)
    assert [file.number for file in job.sources] == [0, 1]
    assert store.files.compaction() is None
    following = store.step(job)
    while following is not None:
        assert store.read(*ALIVE) == dict.fromkeys(ALIVE, BODY)
        following = store.step(following)
    assert store.read(*ALIVE) == dict.fromkeys(ALIVE, BODY)
    store.compact()
    assert store.names() == ["00000002.rdq", "00000003.rdq", "00000004.rdq"]
    assert store.files.figures()["compactions"] == 1


def test_a_file_goes_only_when_nobody_reads_from_it() -> None:
    store = three_sparse_files()
    _, reading = store.files.find([1])
    assert reading is not None
    store.compact()
    assert "00000000.rdq" in store.names() and "00000001.rdq" not in store.names()
    run(reading, store.disk)
    assert reading.contents == {1: BODY}
    assert store.files.compaction() is None
    store.files.done_reading(reading)
    store.compact()
    assert "00000000.rdq" not in store.names()


def test_a_copy_whose_sync_failed_is_made_anew() -> None:
    """The system counts its pages as clean after that, and a second sync would say all is well."""
    store = three_sparse_files()
    job = store.files.compaction()
    assert isinstance(job, Compaction)
    while job.next_span == 0 or job.next_span < len(job.spans):
        assert store.step(job) is job
    store.disk.sync_failures = 1
    run(job, store.disk)
    assert job.failure is not None and not job.is_complete
    job.failure = None
    following: Compaction | None = job
    while following is not None:
        following = store.step(following)
    store.compact()
    store.disk.crash(Random(1))
    again = Store(store.disk, dict.fromkeys(ALIVE, 1))
    assert again.found.missing == []
    assert again.read(*ALIVE) == dict.fromkeys(ALIVE, BODY)


def test_a_deleted_file_does_not_come_back_with_ids_that_are_used_again() -> None:
    """A deletion is cut off before it is durable; the next life does not see the file, gives its
    ids to other messages, and the power fails while it writes them."""
    for seed in range(50):
        store = Store()
        store.write(range(1, 3))
        store.disk.delete(store.path(0))
        second = Store(store.disk)
        assert second.files.highest_id == 0
        second.files.write(1, b"another")
        job = second.files.take_job()
        assert job is not None
        job.sync = False
        second.do(job)
        store.disk.crash(Random(seed))
        third = Store(store.disk, {1: 1})
        assert third.found.missing or third.read(1) == {1: b"another"}


def test_what_happens_to_messages_while_they_are_copied() -> None:
    """1 is removed; 21 is removed and written anew, which must not rely on the old files; 3, dead
    when the copy began, is written anew too."""
    store = three_sparse_files()
    job = store.files.compaction()
    assert isinstance(job, Compaction)
    store.files.remove([1, 21])
    store.files.write(21, BODY)
    store.files.write(3, BODY)
    store.flush()
    following = store.step(job)
    while following is not None:
        following = store.step(following)
    target = store.files.table[job.target.number]
    assert list(target.ids) == [1, 2, 22]
    assert target.valid == 2 * RECORD
    assert number_of(store.files.index.get(21)) != target.number
    store.compact()
    left = (2, 3, 21, 22, 41, 42, 61)
    assert store.read(*left) == dict.fromkeys(left, BODY)


def test_damage_ends_a_copy_and_everything_else_stays_readable() -> None:
    store = three_sparse_files()
    store.disk.flip(store.path(1), 64 + 100)
    store.compact()
    assert "message 21" in store.files.problems[0]
    assert store.read(*ALIVE) == dict.fromkeys([each for each in ALIVE if each != 21], BODY)
    assert store.files.table[1].damaged
    assert store.files.figures()["compactions"] == 1  # of the other two


def test_a_file_with_nothing_alive_goes_without_a_copy() -> None:
    store = Store()
    store.write(range(1, A_FILE + 1))
    store.write(range(20, 21))
    store.files.remove(range(1, A_FILE + 1))
    job = store.files.compaction()
    assert isinstance(job, Deletion)
    store.files.write(1, BODY)  # it cannot be revived any more
    store.step(job)
    store.flush()
    assert store.names() == ["00000001.rdq"]
    assert store.read(1) == {1: BODY}


# -- starts


def test_a_start_finds_what_is_referred_to() -> None:
    store = Store()
    store.write(range(1, 2 * A_FILE + 1))
    store.write(range(30, 32))
    again = Store(store.disk, {2: 3, 30: 1, 77: 1})
    assert again.found.missing == [77]
    assert again.found.problems == []
    assert again.found.highest_id == 31
    assert again.names() == ["00000000.rdq", "00000002.rdq"]
    assert again.read(2, 30) == {2: BODY, 30: BODY}
    assert again.files.figures()["valid_bytes"] == 2 * RECORD
    again.files.remove([2, 2, 30])
    assert again.files.figures()["valid_bytes"] == RECORD
    again.write(range(80, 81))
    assert again.names()[-1] == "00000003.rdq"


def test_a_start_reads_a_full_file_by_its_directory() -> None:
    """However large it is."""
    store = Store()
    store.write(range(1, A_FILE + 1))
    store.write(range(20, 21))
    store.disk.bytes_read = 0
    Store(store.disk, {5: 1})
    whole = store.disk.size(store.path(0)) + FILE_HEADER_SIZE
    assert store.disk.bytes_read > whole, "the last file has no directory: it is scanned"
    before = store.disk.counts["read"]
    tail = message_file.TAIL_BYTES
    try:
        message_file.TAIL_BYTES = 64  # type: ignore[misc]
        assert Store(store.disk, {5: 1}).read(5) == {5: BODY}
    finally:
        message_file.TAIL_BYTES = tail  # type: ignore[misc]
    assert store.disk.counts["read"] - before == 4  # header, tail, the rest of it, the message


@pytest.mark.parametrize("place", [-1, -8, -20, -150])
def test_a_damaged_directory_is_as_good_as_none(place: int) -> None:
    store = Store()
    store.write(range(1, A_FILE + 1))
    store.write(range(20, 21))
    store.disk.flip(store.path(0), store.disk.size(store.path(0)) + place)
    wanted = {**dict.fromkeys(range(1, A_FILE + 1), 1), 20: 1}
    again = Store(store.disk, wanted)
    assert again.found.missing == [] and again.found.problems == []
    assert again.read(*wanted) == dict.fromkeys(wanted, BODY)


def test_a_damaged_record_is_reported_and_missing() -> None:
    store = Store()
    store.write(range(1, 6))
    store.disk.flip(store.path(0), 64 + RECORD + 50)
    again = Store(store.disk, dict.fromkeys(range(1, 6), 1))
    assert again.found.missing == [2]
    (problem,) = again.found.problems
    assert problem[:3] == (store.path(0), 64 + RECORD, 64 + 2 * RECORD)
    assert again.read(1, 3) == {1: BODY, 3: BODY}


def test_a_torn_tail_is_nothing_to_speak_of() -> None:
    store = Store()
    store.write(range(1, 6))
    store.disk.truncate(store.path(0), 64 + 4 * RECORD + 100)
    again = Store(store.disk, dict.fromkeys(range(1, 6), 1))
    assert again.found.missing == [5] and again.found.problems == []


def test_a_file_that_cannot_be_understood_is_put_aside() -> None:
    store = Store()
    store.write(range(1, 6))
    store.disk.flip(store.path(0), 20)
    again = Store(store.disk, {1: 1})
    assert again.found.missing == [1]
    assert [problem.path for problem in again.found.unreadable] == [store.path(0)]
    assert again.names() == []
    assert store.disk.names("quarantine") == ["messages-persistent-00000000.rdq"]
    again.write(range(10, 11))
    assert again.names() == ["00000001.rdq"]


def test_a_file_under_another_ones_name_is_put_aside() -> None:
    store = Store()
    store.write(range(1, 6))
    store.disk.rename(store.path(0), store.path(7))
    again = Store(store.disk, {1: 1})
    assert again.found.missing == [1] and len(again.found.unreadable) == 1
    assert again.files.next_number == 8


def test_a_file_of_an_older_version_is_read() -> None:
    store = Store()
    store.write(range(1, 4))
    header = bytearray(store.files.table[0].header())
    header[8] -= 1
    store.disk.write(store.path(0), 0, with_crc(bytes(header[:-4])))
    assert Store(store.disk, {1: 1}).read(1) == {1: BODY}


def test_a_file_of_a_newer_version_stops_the_start() -> None:
    store = Store()
    store.write(range(1, 2))
    header = bytearray(store.files.table[0].header())
    header[8] += 1
    store.disk.write(store.path(0), 0, with_crc(bytes(header[:-4])))
    with pytest.raises(Refused, match="newer format 5"):
        Store(store.disk, {1: 1})


def test_no_flipped_bit_is_ever_delivered() -> None:
    """Each byte of a full file and its directory: one message is missing, or, when it is in the
    header, all of the file; nothing else. What the directory hides a read finds."""
    store = Store()
    store.write(range(1, A_FILE + 1))
    store.write(range(20, 21))
    path = store.path(0)
    wanted = dict.fromkeys(range(1, A_FILE + 1), 1)
    for offset in range(store.disk.size(path)):
        disk = SimFiles()
        disk.make_directory("messages/persistent")
        disk.write(path, 0, store.disk.read(path, 0, 1 << 16))
        disk.flip(path, offset, 1 << offset % 8)
        again = Store(disk, wanted)
        read = again.read(*(each for each in wanted if each not in again.found.missing))
        if offset < FILE_HEADER_SIZE:
            assert read == {} and len(again.found.unreadable) == 1
        elif offset < FILE_HEADER_SIZE + A_FILE * RECORD:
            hit = (offset - FILE_HEADER_SIZE) // RECORD + 1
            assert read == dict.fromkeys([each for each in wanted if each != hit], BODY)
        else:
            assert read == dict.fromkeys(wanted, BODY)


def test_small_files_of_many_starts_are_combined() -> None:
    """A start never appends to an old file."""
    disk = SimFiles()
    for number in range(1, 9):
        store = Store(disk, dict.fromkeys(range(1, number), 1))
        store.write(range(number, number + 1))
        store.compact()
    assert len(store.names()) <= 4
    assert store.read(*range(1, 9)) == dict.fromkeys(range(1, 9), BODY)


def test_transient_messages_are_never_synced() -> None:
    disk = SimFiles()
    files = MessageFiles("transient", DictIndex(), LIMIT, lambda: bytes(16))
    files.wipe(disk)
    files.write(1, BODY)
    job = files.take_job()
    assert job is not None
    run(job, disk)
    files.finished(job)
    assert "sync" not in disk.counts
    assert disk.names("messages/transient") == ["00000000.rdq"]
    files.wipe(disk)
    assert disk.names("messages/transient") == []


@given(st.lists(st.binary(max_size=40)), st.integers(0, 2**40))
def test_pieces_of_records_are_those_records(payloads: list[bytes], sequence: int) -> None:
    """Joined, they are what encode_record makes of each."""
    offsets = list(accumulate(map(size_of_record, map(len, payloads)), initial=64))
    ids = range(sequence, sequence + len(payloads))
    expected = [
        encode_record(b"x" * 16, offset, MESSAGE, message_id, [payload])
        for message_id, offset, payload in zip(ids, offsets, payloads, strict=False)
    ]
    pieces = pieces_of_records(b"x" * 16, MESSAGE, ids, offsets, payloads)
    assert b"".join(pieces) == b"".join(expected)


def test_entries_point_into_the_files() -> None:
    store = Store()
    store.write(range(1, 4))
    entry = store.files.index.get(3)
    assert (number_of(entry), offset_of(entry)) == (0, 64 + 2 * RECORD)
    data = store.disk.read(store.path(0), 0, 4096)
    assert data[offset_of(entry) + 24 :][: len(BODY)] == BODY
    assert U64.unpack_from(data, offset_of(entry) + 16) == (3,)


@pytest.mark.parametrize("missed", [False, True])
def test_a_file_that_has_lost_its_first_sector_is_told_only_if_somebody_misses_it(
    missed: bool,
) -> None:
    files = SimFiles()
    files.make_directory("messages/persistent")
    path = "messages/persistent/00000000.rdq"
    files.write(path, 0, bytes(512) + b"a part of a large message")
    messages = MessageFiles(PERSISTENT, DictIndex(), 1000, lambda: bytes(16))
    found = messages.recover(files, {7: 1} if missed else {})
    assert (found.missing, bool(found.unreadable)) == ([7] if missed else [], missed)
    assert files.size(path) < 0
