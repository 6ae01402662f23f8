"""Goal: every record of every kind of file is told, and so is everything that is damaged.

Method: one file of each kind made with the writers' own functions; the same with a bit flipped.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Refused
from sluicemq.model.traits import message_traits
from sluicemq.storage.checkpoint import Checkpoint, QueueState, SegmentState, encode_checkpoint
from sluicemq.storage.entries import (
    Run,
    encode_ack,
    encode_definition,
    encode_deliver,
    encode_queue_deleted,
    encode_run,
)
from sluicemq.storage.inspection import inspect, range_text
from sluicemq.storage.message_file import Directory
from sluicemq.storage.records import (
    BLOCK,
    GROUP,
    MESSAGE,
    FileHeader,
    encode_record,
    with_crc,
)
from sluicemq.storage.segments import encode_block

FILE_ID = bytes(range(16))
ENVELOPE = b"\x03amq\x06orders"
EMBEDDED = Run(5, 8, 2, 3, message_traits(ENVELOPE, 1, True), True, [b"abc"] * 3, [3] * 3)
REFERENCE = Run(5, 14, 1, 2, message_traits(ENVELOPE, 1, False), False, None, [5000, 6000], 77)

EMBEDDED_TOLD = {
    "entry": "run",
    "queue": 5,
    "positions": "8-12 step 2",
    "messages": 3,
    "bytes": 9,
    "exchange": "amq",
    "routing_key": "orders",
    "channel": 1,
    "persistent": True,
}
REFERENCE_TOLD = EMBEDDED_TOLD | {
    "positions": "14-15",
    "messages": 2,
    "bytes": 11000,
    "persistent": False,
    "ids": "77-78",
}


def file_of(kind: str, number: int, records: list[tuple[int, int, list[bytes]]]) -> bytes:
    data = FileHeader(kind, FILE_ID, number, 5 if kind == "segment" else 0).encode()
    for record_type, sequence, parts in records:
        data += encode_record(FILE_ID, len(data), record_type, sequence, parts)
    return data


def journal() -> bytes:
    first: list[bytes] = []
    encode_definition(first, b'{"queue":"orders"}')
    encode_run(first, EMBEDDED)
    second: list[bytes] = []
    encode_ack(second, 5, [range(8, 9), range(10, 14, 2)])
    encode_deliver(second, 5, 11)
    encode_queue_deleted(second, 5)
    return file_of("journal", 4, [(GROUP, 1, first), (GROUP, 2, second)])


def segment() -> bytes:
    data = file_of("segment", 1, [])
    return data + encode_block(FILE_ID, len(data), 9, [EMBEDDED, REFERENCE])


def messages() -> bytes:
    data = file_of("messages", 2, [(MESSAGE, 77, [b"x" * 40]), (MESSAGE, 78, [b"y" * 48])])
    return data + Directory([77, 78], [64, 128], [64, 72]).encode(FILE_ID, len(data))


def checkpoint() -> bytes:
    queue = QueueState(5, 100, 50, [SegmentState(1, 4096, bytes(16), 0b101110)], 4000)
    return encode_checkpoint(Checkpoint(9, True, 3, 1000, 6, FILE_ID, b'{"a":1}', [queue], 8))


FILES = [journal, segment, messages, checkpoint]


def test_a_journal() -> None:
    found = inspect(journal())
    assert found.header is not None
    assert (found.header.kind, found.header.number) == ("journal", 4)
    assert [(record.type, record.sequence) for record in found.records] == [
        ("group", 1),
        ("group", 2),
    ]
    assert found.records[0].contents == [
        {"entry": "definition", "change": {"queue": "orders"}},
        EMBEDDED_TOLD,
    ]
    assert found.records[1].contents == [
        {"entry": "ack", "queue": 5, "positions": ["8", "10-12 step 2"]},
        {"entry": "delivered", "queue": 5, "below": 11},
        {"entry": "queue deleted", "queue": 5},
    ]


def test_a_segment() -> None:
    found = inspect(segment())
    assert found.header is not None
    assert (found.header.kind, found.header.number, found.header.queue) == ("segment", 1, 5)
    assert found.records[0].contents == [EMBEDDED_TOLD, REFERENCE_TOLD]


def test_a_message_file() -> None:
    assert [record.contents for record in inspect(messages()).records] == [
        [{"entry": "message", "id": 77, "bytes": 40}],
        [{"entry": "message", "id": 78, "bytes": 48}],
        [{"entry": "directory", "messages": 2}],
    ]


def test_a_checkpoint() -> None:
    (record,) = inspect(checkpoint()).records
    assert record.contents == [
        {
            "entry": "checkpoint",
            "clean": True,
            "journal_first": 3,
            "next_message_id": 1000,
            "next_queue_id": 6,
            "node_id": FILE_ID.hex(),
            "segment_entry_count": 8,
            "queues": 1,
            "definitions": {"a": 1},
        },
        {
            "entry": "queue",
            "queue": 5,
            "next_position": 100,
            "delivered": 50,
            "bytes": 4000,
            "segments": 1,
        },
        {
            "entry": "segment",
            "queue": 5,
            "number": 1,
            "length": 4096,
            "file_id": bytes(16).hex(),
            "live": 4,
            "positions": ["9-11", "13"],
        },
    ]


@pytest.mark.parametrize("make", FILES)
def test_a_whole_file_is_sound(make: object) -> None:
    assert callable(make)
    data = make()
    found = inspect(data)
    assert found.is_sound
    assert (found.size, found.end, found.torn) == (len(data), len(data), False)


@pytest.mark.parametrize("make", FILES)
def test_a_flipped_bit_anywhere_is_told(make: object) -> None:
    assert callable(make)
    data = make()
    for bit in range(0, len(data) * 8, 3):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        found = inspect(bytes(changed))
        assert not found.is_sound or found.torn


@pytest.mark.parametrize("make", FILES)
def test_a_cut_tail_is_torn_and_not_damage_but_for_a_checkpoint(make: object) -> None:
    assert callable(make)
    found = inspect(make()[:-8])
    assert found.torn
    assert found.is_sound == (make is not checkpoint)


def test_records_that_do_not_belong_there_are_told() -> None:
    found = inspect(file_of("journal", 1, [(BLOCK, 1, [b"?"]), (GROUP, 2, [b"?"])]))
    assert [record.contents for record in found.records] == [[], []]
    assert found.problems == [
        "record at 64: a journal file has no records of type 2",
        "record at 96: entry of an unknown type 63 at byte 0",
    ]
    assert inspect(file_of("messages", 1, [(4, 2, [bytes(8)])])).problems != []
    assert inspect(file_of("checkpoint", 1, [])).problems == ["there is no checkpoint in the file"]


def test_a_newer_version_is_refused() -> None:
    newer = bytearray(journal()[:60])
    newer[8] = 9
    with pytest.raises(Refused, match="newer format 9"):
        inspect(with_crc(bytes(newer)))


@given(st.binary(max_size=100))
def test_any_bytes_can_be_inspected(data: bytes) -> None:
    assert inspect(data).header is None


def test_ranges() -> None:
    assert [range_text(each) for each in (range(7, 8), range(7, 9), range(7, 20, 3))] == [
        "7",
        "7-8",
        "7-19 step 3",
    ]
