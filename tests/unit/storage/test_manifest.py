"""Goal: a directory knows which files of its journal there must be, and what a torn tail is.

Method: a journal is written as a broker does it, over simulated files; then files are taken away,
cut, changed for others, and the power goes at each step of making a file.
"""

from __future__ import annotations

from random import Random

import pytest

from sluicemq.errors import Refused
from sluicemq.sim.disk import Crashed, SimFiles
from sluicemq.storage.entries import encode_queue_deleted
from sluicemq.storage.fsck import Check
from sluicemq.storage.inspection import inspect
from sluicemq.storage.journal import Journal, journal_path
from sluicemq.storage.manifest import PATH, SIZE, SLOTS, Manifest, decode_manifest, read_manifest
from sluicemq.storage.message_files import MessageFiles
from sluicemq.storage.message_index import DictIndex
from sluicemq.storage.records import FILE_HEADER_SIZE, with_crc
from sluicemq.storage.recovery import Recovery

LIMIT = 1024
DICE = Random(1)


def file_id() -> bytes:
    return DICE.randbytes(16)


class Start:
    """One start of a node, without the node; `told` are errors."""

    def __init__(self, files: SimFiles, accept_loss: bool = False) -> None:
        self.files = files
        self.told: list[str] = []
        self.recovery = Recovery(files, 8, file_id, self.say, accept_loss)
        stores = [MessageFiles(kind, DictIndex(), 4096, file_id) for kind in KINDS]
        self.recovery.run(stores[0], stores[1])
        number = self.recovery.journal_number
        self.journal = Journal(number, LIMIT, file_id, self.recovery.manifest)

    def say(self, level: str, text: str) -> None:
        if level == "error":
            self.told.append(text)

    def write(self, *queues: int) -> None:
        """A group for each, and a new file behind each."""
        for queue in queues:
            parts: list[bytes] = []
            encode_queue_deleted(parts, queue)
            self.journal.group(parts).run(self.files)
            self.journal.next_file()

    @property
    def deleted(self) -> list[int]:
        """What the groups that were found say."""
        return sorted(self.recovery.deleted)


KINDS = ("persistent", "transient")


def written(*queues: int) -> SimFiles:
    """A directory, killed after these groups."""
    files = SimFiles()
    Start(files).write(*queues)
    return files


def losses(files: SimFiles) -> list[str]:
    """What stops the start; fsck says the same, and both change nothing."""
    before = {path: bytes(inode.data) for path, inode in files.inodes.items()}
    verdict = Check(files).run()
    with pytest.raises(Refused) as refused:
        Start(files)
    assert {path: bytes(inode.data) for path, inode in files.inodes.items()} == before
    found = [str(loss) for loss in verdict.losses]
    assert str(refused.value).startswith(found[0])
    assert verdict.findings
    return found


def test_a_start_finds_all_that_was_written() -> None:
    files = written(11, 12, 13)
    assert Check(files).run().findings == []
    start = Start(files)
    assert (start.deleted, start.told) == ([11, 12, 13], [])
    assert files.names("journal") == []
    assert Start(files).told == [], "and goes without a journal"


@pytest.mark.parametrize("gone", [(1,), (2,), (3,), (1, 2), (2, 3), (1, 2, 3)])
def test_a_file_of_the_journal_that_is_missing_stops_the_start(gone: tuple[int, ...]) -> None:
    files = written(11, 12, 13)
    first = Start(files.copy()).recovery.numbers[0]
    for number in gone:
        files.delete(journal_path(first + number - 1))
    assert losses(files)[0].startswith(f"{journal_path(first + gone[0] - 1)} is missing")
    start = Start(files, accept_loss=True)
    assert start.deleted == [10 + number for number in (1, 2, 3) if number not in gone]
    assert Start(files).told == []


def test_a_journal_without_its_directory_stops_the_start() -> None:
    files = written(11)
    files.delete_tree("journal")
    assert len(losses(files)) == 1


@pytest.mark.parametrize("left", [0, 40, 200, LIMIT - 1])
@pytest.mark.parametrize("number", [1, 2])
def test_a_file_of_the_journal_that_was_cut_stops_the_start(left: int, number: int) -> None:
    files = written(11, 12)
    first = Start(files.copy()).recovery.numbers[0]
    path = journal_path(first + number - 1)
    whole = files.read(path, 0, LIMIT)
    files.truncate(path, left)
    assert losses(files)[0].startswith(path)
    Start(files, accept_loss=True)
    kept = f"quarantine/{path.replace('/', '-')}"
    assert files.read(kept, 0, LIMIT) == whole[:left]


def test_files_of_the_journal_that_were_swapped_or_copied_stop_the_start() -> None:
    files = written(11, 12)
    first, second = map(journal_path, Start(files.copy()).recovery.numbers)
    contents = [files.read(path, 0, LIMIT) for path in (first, second)]
    files.write(first, 0, contents[1])
    assert f"it is journal file {int(second[8:16])}" in losses(files)[0]
    files.write(second, 0, contents[0])
    assert len(losses(files)) == 2


def test_another_directorys_file_of_that_number_stops_the_start() -> None:
    files, others = written(11), written(12)
    (number,) = Start(files.copy()).recovery.numbers
    files.write(journal_path(number), 0, others.read(journal_path(number), 0, LIMIT))
    assert "is not the file that the manifest means" in losses(files)[0]


@pytest.mark.parametrize("place", range(FILE_HEADER_SIZE))
def test_with_a_damaged_header_the_groups_can_still_be_read(place: int) -> None:
    files = written(11, 12)
    path = journal_path(Start(files.copy()).recovery.numbers[1])
    files.flip(path, place)
    assert Check(files).run().findings
    start = Start(files)
    assert start.deleted == [11, 12]
    assert path in start.told[0]


@pytest.mark.parametrize("place", [*range(64), SLOTS[0] + 3, SLOTS[0] + 30, SLOTS[1] + 30])
def test_a_flipped_bit_in_the_manifest_is_named_and_it_is_written_anew(place: int) -> None:
    files = written(11, 12)
    files.flip(PATH, place)
    verdict = Check(files).run()
    assert [each.path for each in (verdict.findings if place < 64 else verdict.notes)] == [PATH]
    start = Start(files)
    assert start.deleted == [11, 12]
    assert [PATH in text for text in start.told[:1]] == [True] * (place < 64)
    start.write(13)
    assert Start(files).told == []


def test_a_directory_without_its_manifest_is_not_started() -> None:
    files = written(11)
    data = files.read(PATH, 0, SIZE)
    files.delete(PATH)
    assert losses(files)[0].startswith("manifest is missing")
    files.write(PATH, 0, data[:100])
    assert losses(files)[0].startswith("manifest cannot be read: the file was cut")
    start = Start(files, accept_loss=True)
    assert start.deleted == [11]
    assert Start(files).told == []


def test_a_directory_whose_checkpoints_are_gone_is_no_new_one_even_if_there_is_nothing_else() -> (
    None
):
    files = SimFiles()
    Start(files)
    files.delete_tree("checkpoint")
    assert losses(files) == [
        "checkpoint has no checkpoint, though one was written: everything is lost"
    ]
    Start(files, accept_loss=True)
    assert Start(files).told == []


def test_a_damaged_last_group_is_told_from_a_torn_one_by_the_seal() -> None:
    def flipped(sealed: bool) -> Start:
        files = SimFiles()
        start = Start(files)
        start.write(11)
        parts: list[bytes] = []
        encode_queue_deleted(parts, 12)
        job = start.journal.group(parts)
        job.run(files)
        if sealed:
            seal = start.journal.seal()
            assert seal is not None
            seal.run(files)
        files.flip(job.path, FILE_HEADER_SIZE + 26)
        return Start(files)

    assert flipped(sealed=False).told == []
    named = flipped(sealed=True)
    assert named.deleted == [11]
    assert any("are damaged" in text for text in named.told)


def test_the_next_group_is_written_over_the_seal() -> None:
    """So no crash leaves a hole where it was."""
    files = SimFiles()
    journal = Start(files).journal
    assert journal.seal() is None, "there is nothing to be sealed"
    for queue in (11, 12, 13):
        parts: list[bytes] = []
        encode_queue_deleted(parts, queue)
        journal.group(parts).run(files)
        before = journal.offset
        seal = journal.seal()
        assert seal is not None
        assert seal.offset == journal.offset == before
        seal.run(files)
    found = inspect(files.read(journal_path(journal.number), 0, LIMIT))
    assert [record.type for record in found.records] == ["group", "group", "group", "seal"]
    assert Start(files).deleted == [11, 12, 13]


@pytest.mark.parametrize("seed", range(12))
def test_the_power_may_go_at_any_step(seed: int) -> None:
    """Of a start on a new directory, of making three files, and of the next start: what was
    durable is found, and nothing is missed."""
    step = 0
    while True:
        step += 1
        files = SimFiles()
        done: list[int] = []

        def before(number: int, action: str, path: str, last: int = step) -> None:  # noqa: ARG001
            if number == last:
                raise Crashed(seed % 3 / 2)

        files.before = before
        try:
            start = Start(files)
            for queue in (11, 12, 13):
                start.write(queue)
                done.append(queue)
            Start(files)
        except Crashed:
            files.crash(Random(seed * 1000 + step))
            again = Start(files)
            assert again.told == []
            if again.deleted:
                assert {*done} <= {*again.deleted}
            else:
                assert not done or again.recovery.checkpoint_number > KEPT_TWICE
        else:
            break
    assert step > 40


KEPT_TWICE = 4
"""Checkpoints of two starts."""


def test_inspect_tells_what_is_in_it() -> None:
    data = Manifest(bytes(16), 3, 2, 5, 6, 4096, b"12345678").encode()
    found = inspect(data)
    assert found.is_sound
    (record,) = found.records
    assert (record.offset, record.sequence) == (SLOTS[1], 3)
    assert record.contents == [
        {
            "entry": "manifest",
            "checkpoint": 2,
            "journal_first": 5,
            "journal_last": 6,
            "journal_bytes": 4096,
            "life": b"12345678".hex(),
        }
    ]


def test_a_manifest_of_a_newer_format_is_refused() -> None:
    header = bytearray(Manifest(bytes(16)).encode()[: FILE_HEADER_SIZE - 4])
    header[8] += 1
    with pytest.raises(Refused, match="newer format"):
        decode_manifest(with_crc(bytes(header)), None)
    assert read_manifest(SimFiles(), None) == (None, "", "")
