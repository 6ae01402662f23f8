"""Goal: fsck finds everything that is lost or damaged, and nothing else.

Method: a small data directory made with the writers' own functions, in which each file is damaged
in turn: every bit is flipped, every file cut short or taken away.
"""

from __future__ import annotations

import json

import pytest

from sluicemq.errors import DiskFailed, Refused
from sluicemq.metadata.tables import DurableTables
from sluicemq.model.traits import message_traits
from sluicemq.storage.checkpoint import (
    Checkpoint,
    QueueState,
    SegmentState,
    checkpoint_path,
    encode_checkpoint,
)
from sluicemq.storage.entries import (
    Run,
    encode_ack,
    encode_definition,
    encode_deliver,
    encode_queue_deleted,
    encode_run,
)
from sluicemq.storage.fsck import Check, Finding, Verdict
from sluicemq.storage.journal import journal_path
from sluicemq.storage.manifest import Manifest
from sluicemq.storage.message_file import Directory
from sluicemq.storage.records import GROUP, MESSAGE, FileHeader, encode_record, with_crc
from sluicemq.storage.segments import encode_block
from support.files import DictFiles

TRAITS = message_traits(b"\x00\x01k", 1, True)

FILE_ID = bytes(range(16))
NODE_ID = bytes(range(16, 32))
SEGMENT = "queues/5/00000000.idx"
BODIES = "messages/persistent/00000003.rdq"


def embedded(first: int, count: int, queue: int = 5) -> Run:
    contents = [b"x%d" % n for n in range(count)]
    return Run(queue, first, 1, count, TRAITS, True, contents, [2] * count)


def reference(first: int, count: int, first_id: int) -> Run:
    return Run(5, first, 1, count, TRAITS, True, None, [48] * count, first_id)


def queue(queue_id: int) -> dict[str, object]:
    arguments = "AAAAAA=="
    return {"id": queue_id, "name": f"q{queue_id}", "auto_delete": False, "arguments": arguments}


def journal(number: int, first_sequence: int, groups: list[list[bytes]]) -> bytes:
    data = FileHeader("journal", FILE_ID, number).encode()
    for sequence, parts in enumerate(groups, start=first_sequence):
        data += encode_record(FILE_ID, len(data), GROUP, sequence, parts)
    return data


def entries(*calls: tuple[object, ...]) -> list[bytes]:
    parts: list[bytes] = []
    for encode, *arguments in calls:
        assert callable(encode)
        encode(parts, *arguments)
    return parts


def directory() -> DictFiles:
    """Queue 5 has positions 0 … 7 in a segment and 8 … 13 in the journal; 0, 1, 9 are done with.
    Queue 6 is new, queue 7 came and went."""
    files = DictFiles()
    segment = FileHeader("segment", FILE_ID, 0, 5).encode()
    segment += encode_block(FILE_ID, len(segment), 1, [embedded(0, 5)])
    segment += encode_block(FILE_ID, len(segment), 2, [reference(5, 3, 70)])
    definitions = json.dumps({"exchanges": [], "queues": [queue(5)], "bindings": []}).encode()
    assert DurableTables(definitions).queues
    state = QueueState(5, 8, 2, [SegmentState(0, len(segment), FILE_ID, 0b11111110)])
    checkpoint = Checkpoint(4, False, 2, 100, 6, NODE_ID, definitions, [state], 8)
    files.put(checkpoint_path(4), encode_checkpoint(checkpoint))
    files.put("manifest", Manifest(NODE_ID, 0, 4).encode())
    files.put(SEGMENT, segment + b"written after the checkpoint")
    first = entries(
        (encode_run, embedded(8, 4)),
        (encode_run, reference(12, 2, 73)),
        (encode_definition, json.dumps({"queue": queue(6)}).encode()),
        (encode_definition, json.dumps({"queue": queue(7)}).encode()),
        (encode_run, embedded(0, 3, queue=6)),
        (encode_run, embedded(0, 3, queue=7)),
    )
    second = entries(
        (encode_ack, 5, [range(1, 2), range(9, 10)]),
        (encode_deliver, 5, 10),
        (encode_queue_deleted, 7),
    )
    files.put(journal_path(2), journal(2, 11, [first]))
    files.put(journal_path(3), journal(3, 12, [second]) + bytes(64))
    bodies = FileHeader("messages", FILE_ID, 3).encode()
    places = []
    for message_id in range(70, 75):
        places.append(len(bodies))
        bodies += encode_record(FILE_ID, len(bodies), MESSAGE, message_id, [b"y" * 48])
    bodies += Directory(range(70, 75), places, [72] * 5).encode(FILE_ID, len(bodies))
    files.put(BODIES, bodies)
    return files


def checked(files: DictFiles) -> Verdict:
    before = {path: bytes(node.data) for path, node in files.files.items()}
    verdict = Check(files).run()
    assert {path: bytes(node.data) for path, node in files.files.items()} == before
    return verdict


def findings(files: DictFiles) -> list[Finding]:
    return checked(files).findings


def test_a_sound_directory() -> None:
    verdict = checked(directory())
    assert (verdict.findings, verdict.notes) == ([], [])
    assert verdict.counted == {
        "journal_files": 2,
        "groups": 2,
        "queues": 2,
        "segments": 1,
        "blocks": 2,
        "message_files": 1,
        "messages": 5,
        "live_messages": 14,
        "streams": 0,
        "stream_segments": 0,
        "chunks": 0,
        "raft_groups": 0,
        "raft_segments": 0,
        "raft_entries": 0,
    }


def test_a_new_directory() -> None:
    verdict = checked(DictFiles())
    assert (verdict.findings, verdict.notes) == ([], [])


@pytest.mark.parametrize("path", [checkpoint_path(4), journal_path(2), SEGMENT, BODIES])
def test_every_flipped_bit_is_found(path: str) -> None:
    files = directory()
    data = files.content(path)
    size = len(data) - (28 if path == SEGMENT else 0)
    for place in range(size):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        files.put(path, bytes(changed))
        verdict = checked(files)
        if path == BODIES and place >= 64 + 5 * 72:
            assert verdict.notes  # the directory at its end is only a help
        else:
            assert verdict.findings, place


@pytest.mark.parametrize("path", [checkpoint_path(4), journal_path(2), SEGMENT, BODIES])
def test_every_file_that_is_cut_short_is_found(path: str) -> None:
    files = directory()
    data = files.content(path)
    size = len(data) - (28 if path == SEGMENT else 0)
    if path == BODIES:
        size = 64 + 5 * 72
    for end in range(size):
        files.put(path, data[:end])
        assert findings(files), end


@pytest.mark.parametrize("path", [checkpoint_path(4), journal_path(2), SEGMENT, BODIES])
def test_a_missing_file_is_found(path: str) -> None:
    files = directory()
    files.delete(path)
    assert findings(files)


def test_the_checkpoint_before_is_looked_at_too() -> None:
    files = directory()
    older = encode_checkpoint(Checkpoint(3, False, 1, 1, 1, NODE_ID, b"", [], 8))
    files.put(checkpoint_path(3), older)
    assert findings(files) == []
    files.put(checkpoint_path(3), older[:-8])
    assert findings(files) == [
        Finding(checkpoint_path(3), "the record is damaged: its CRC is wrong"),
    ]


def test_what_is_lost_is_named() -> None:
    files = directory()
    data = bytearray(files.content(SEGMENT))
    data[120] ^= 1
    files.put(SEGMENT, bytes(data))
    assert findings(files) == [
        Finding(SEGMENT, "block at 64: its CRC is wrong"),
        Finding("queues/5", "3 live messages of queue 'q5' cannot be read: positions 2-4"),
    ]
    files = directory()
    data = bytearray(files.content(BODIES))
    data[64 + 72 + 40] ^= 1
    files.put(BODIES, bytes(data))
    assert findings(files) == [
        Finding(BODIES, "bytes 136 to 208 hold no valid record, though one follows"),
        Finding(BODIES, "its directory lists 1 messages that are not there"),
        Finding("messages/persistent", "1 bodies of queue 'q5' are missing: ids 71"),
    ]


def test_a_body_that_nobody_needs_any_more_may_be_missing() -> None:
    files = directory()
    parts = entries((encode_ack, 5, [range(5, 8), range(12, 14)]))
    files.put(journal_path(3), journal(3, 12, [parts]))
    files.delete(BODIES)
    assert findings(files) == []


def test_a_segment_without_a_living_message_may_be_gone_or_another_one() -> None:
    files = directory()
    parts = entries((encode_ack, 5, [range(1, 8)]))
    files.put(journal_path(3), journal(3, 12, [parts]))
    files.put(journal_path(2), journal(2, 11, [entries((encode_run, embedded(7, 4)))]))
    files.delete(SEGMENT)
    assert findings(files) == []
    files.put(SEGMENT, FileHeader("segment", bytes(16), 0, 5).encode() + b"newer")
    assert findings(files) == []
    for begun in (b"", bytes(300)):  # the process, or the power, was gone before it was written
        files.put(SEGMENT, begun)
        assert findings(files) == []


def test_a_torn_tail_is_noted_in_the_newest_journal_file_only() -> None:
    files = directory()
    files.put(journal_path(3), files.content(journal_path(3))[:-70])
    verdict = checked(files)
    assert verdict.findings == []
    assert verdict.notes == [Finding(journal_path(3), "has a torn tail from byte 64 on")]
    files = directory()
    files.put(journal_path(2), files.content(journal_path(2)) + b"rest of a group")
    assert [finding.path for finding in findings(files)] == [journal_path(2)]


def test_a_journal_file_that_was_not_written_to_is_noted() -> None:
    files = directory()
    for begun in (bytes(4096), journal(1, 3, [entries((encode_deliver, 5, 9))])):  # new, or used
        files.put(journal_path(4), begun)
        verdict = checked(files)
        assert (verdict.findings, len(verdict.notes)) == ([], 1)


def test_a_group_that_is_missing_is_found() -> None:
    files = directory()
    files.put(journal_path(3), journal(3, 13, [entries((encode_deliver, 5, 9))]))
    assert findings(files) == [
        Finding(journal_path(3), "record at 64: group 13 follows group 11"),
    ]


def test_a_file_between_two_is_missed_and_an_old_one_is_not() -> None:
    files = directory()
    files.put(journal_path(1), b"kept for the checkpoint before")
    files.put(journal_path(5), journal(5, 13, [entries((encode_deliver, 5, 9))]))
    verdict = checked(files)
    assert verdict.findings == [
        Finding(journal_path(4), "is missing"),
    ]
    assert verdict.notes == []


def test_entries_and_definitions_that_make_no_sense_are_found() -> None:
    files = directory()
    for parts in ([b"\xffx"], entries((encode_definition, b"{"))):
        files.put(journal_path(3), journal(3, 12, [parts]))
        (finding,) = findings(files)
        assert finding.text.startswith("record at 64: ")


def test_a_file_of_another_place_is_found() -> None:
    files = directory()
    other = FileHeader("segment", bytes(16), 0, 5).encode()
    files.put(SEGMENT, other + files.content(SEGMENT)[64:])
    assert findings(files) == [
        Finding(SEGMENT, "is not the file that the checkpoint means"),
        Finding("queues/5", "6 live messages of queue 'q5' cannot be read: positions 2-7"),
    ]
    files = directory()
    files.put("messages/persistent/00000009.rdq", files.content(BODIES))
    (finding,) = findings(files)
    assert finding.text == "its header is that of file 3"


def test_what_is_left_over_is_noted() -> None:
    files = directory()
    files.put(checkpoint_path(5) + ".tmp", b"half")
    files.put("quarantine/journal-00000001.jif", b"bad")
    files.put("messages/persistent/00000004.rdq", b"")
    verdict = checked(files)
    assert (verdict.findings, len(verdict.notes)) == ([], 3)


def test_a_file_that_the_system_cannot_read_is_found() -> None:
    for path in (journal_path(2), SEGMENT, BODIES):
        files = directory()
        files.fail = lambda action, name, path=path: (
            "EIO" if (action, name) == ("read", path) else None
        )
        assert Finding(path, str(DiskFailed("read", path, "EIO"))) in Check(files).run().findings


def test_a_newer_version_is_refused() -> None:
    files = directory()
    newer = bytearray(files.content(SEGMENT))
    newer[8] = 5
    files.put(SEGMENT, with_crc(bytes(newer[:60])) + bytes(newer[64:]))
    with pytest.raises(Refused, match=r"queues/5/00000000\.idx: .*newer format 5"):
        Check(files).run()
