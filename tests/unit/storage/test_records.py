"""Goal: a record is what was written at its place of its file, or it is not there.

Method: hypothesis for round trips; every bit flipped and every length tried of a small file;
records put where they do not belong.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Corrupt, Refused
from sluicemq.storage.records import (
    FILE_HEADER_SIZE,
    KINDS,
    FileHeader,
    decode_header,
    encode_record,
    read_record,
    scan,
    with_crc,
)

FILE_ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))
U64 = st.integers(0, 2**64 - 1)


def file_of(payloads: list[bytes]) -> bytes:
    """A journal with one record a payload."""
    data = FileHeader("journal", FILE_ID, 7).encode()
    for sequence, payload in enumerate(payloads, start=1):
        data += encode_record(FILE_ID, len(data), 1, sequence, [payload])
    return data


SMALL = file_of([b"first", b"", b"the third one", b"12345678"])
RECORDS = scan(SMALL, FILE_ID).records


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@given(st.sampled_from(KINDS), st.binary(min_size=16, max_size=16), U64, U64)
def test_a_header_comes_back(kind: str, file_id: bytes, number: int, queue: int) -> None:
    data = FileHeader(kind, file_id, number, queue).encode()
    assert len(data) == FILE_HEADER_SIZE
    header = decode_header(data, kind)
    assert (header.kind, header.file_id, header.number, header.queue) == (
        kind,
        file_id,
        number,
        queue,
    )


def test_a_header_with_any_bit_flipped_or_cut_short_is_corrupt() -> None:
    data = SMALL[:FILE_HEADER_SIZE]
    for bit in range(len(data) * 8):
        with pytest.raises(Corrupt):
            decode_header(flipped(data, bit), "journal")
    for size in range(len(data)):
        with pytest.raises(Corrupt):
            decode_header(data[:size], "journal")


def test_another_kind_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="a journal file where a segment file should be"):
        decode_header(SMALL, "segment")


def test_a_newer_format_is_refused_by_name() -> None:
    data = bytearray(SMALL[: FILE_HEADER_SIZE - 4])
    data[8] = 5
    with pytest.raises(Refused, match="of a newer format 5, this version reads 4"):
        decode_header(with_crc(bytes(data)), "journal")


def test_files_of_the_first_format_are_read() -> None:
    data = bytearray(SMALL[: FILE_HEADER_SIZE - 4])
    data[8] = 1
    assert decode_header(with_crc(bytes(data)), "journal").kind == "journal"
    data[8] = 0
    with pytest.raises(Corrupt):
        decode_header(with_crc(bytes(data)), "journal")


@pytest.mark.parametrize("place", [8, 10, 11, 12, 50])
def test_fields_that_nobody_writes_are_corrupt(place: int) -> None:
    data = bytearray(SMALL[: FILE_HEADER_SIZE - 4])
    data[place] = 0 if place == 8 else 200
    with pytest.raises(Corrupt):
        decode_header(with_crc(bytes(data)), "journal")


@given(
    st.integers(0, 2**40).map(lambda n: n * 8),
    st.integers(1, 255),
    U64,
    st.lists(st.binary(max_size=40), max_size=5),
)
def test_a_record_comes_back(offset: int, kind: int, sequence: int, parts: list[bytes]) -> None:
    data = encode_record(FILE_ID, offset, kind, sequence, parts)
    assert len(data) % 8 == 0
    record = read_record(b"before" + data + b"behind", 6, FILE_ID, offset - 6)
    assert record is not None
    assert (record.offset, record.end) == (offset, offset + len(data))
    assert (record.type, record.sequence) == (kind, sequence)
    assert record.payload == b"".join(parts)


@given(st.lists(st.binary(max_size=60), max_size=8), st.integers(0, 100))
def test_a_file_comes_back(payloads: list[bytes], zeroes: int) -> None:
    data = file_of(payloads)
    found = scan(data + bytes(zeroes), FILE_ID)
    assert [bytes(record.payload) for record in found.records] == payloads
    assert (found.end, found.damaged, found.torn) == (len(data), [], False)


def test_a_part_of_a_file_has_the_offsets_of_the_file() -> None:
    second = RECORDS[1]
    found = scan(SMALL[second.offset :], FILE_ID, start=0, base_offset=second.offset)
    assert found.records == RECORDS[1:]
    assert found.end == len(SMALL)
    found = scan(b"....." + SMALL[second.offset :], FILE_ID, 5, second.offset - 5)
    assert found.records == RECORDS[1:]


def test_every_truncation_is_a_torn_tail() -> None:
    for size in range(FILE_HEADER_SIZE, len(SMALL)):
        whole = [record for record in RECORDS if record.end <= size]
        end = whole[-1].end if whole else FILE_HEADER_SIZE
        found = scan(SMALL[:size], FILE_ID)
        assert found.records == whole
        assert (found.end, found.damaged, found.torn) == (end, [], size > end)


def test_every_tail_that_was_not_written_in_preallocated_space_is_torn() -> None:
    for size in range(FILE_HEADER_SIZE, len(SMALL)):
        cut = SMALL[:size] + bytes(len(SMALL) - size + 64)
        whole = [record for record in RECORDS if cut.startswith(SMALL[: record.end])]
        found = scan(cut, FILE_ID)
        assert found.records == whole
        assert found.damaged == []
        assert found.torn == (size > found.end)


def test_every_bit_flip_is_noticed() -> None:
    for bit in range(FILE_HEADER_SIZE * 8, len(SMALL) * 8):
        hit = next(n for n, record in enumerate(RECORDS) if record.end > bit // 8)
        found = scan(flipped(SMALL, bit), FILE_ID)
        assert found.records == RECORDS[:hit] + RECORDS[hit + 1 :]
        if hit == len(RECORDS) - 1:
            assert (found.end, found.damaged, found.torn) == (RECORDS[hit].offset, [], True)
        else:
            assert found.damaged == [(RECORDS[hit].offset, RECORDS[hit].end)]
            assert (found.end, found.torn) == (len(SMALL), False)


def test_a_hole_before_a_valid_record_is_damage() -> None:
    first, second = RECORDS[:2]
    hole = SMALL[: first.offset] + bytes(first.end - first.offset) + SMALL[second.offset :]
    found = scan(hole, FILE_ID)
    assert found.records == RECORDS[1:]
    assert found.damaged == [(first.offset, first.end)]


def test_a_record_is_valid_nowhere_else() -> None:
    record = encode_record(FILE_ID, 64, 1, 5, [b"payload"])
    for offset in [*range(0, 1024, 8), 2**32 + 64, 2**40 + 64]:
        assert (read_record(record, 0, FILE_ID, offset) is not None) == (offset == 64)
    assert read_record(record, 0, OTHER_ID, 64) is None


def test_what_another_file_left_in_recycled_space_is_not_taken() -> None:
    stale = SMALL.replace(FILE_ID, OTHER_ID)
    fresh = SMALL[: RECORDS[1].end]
    found = scan(fresh + stale[len(fresh) :], OTHER_ID)
    assert found.records == []
    recycled = scan(fresh + bytes(8) + SMALL[len(fresh) :], FILE_ID)
    assert recycled.records == RECORDS[:2]
    assert (recycled.end, recycled.torn) == (len(fresh), True)


def test_a_record_inside_of_a_payload_is_not_found() -> None:
    inner = encode_record(OTHER_ID, 88, 1, 9, [b"from a publisher"])
    data = bytearray(file_of([inner, b"last"]))
    data[len(data) // 2] ^= 1
    found = scan(bytes(data), FILE_ID)
    assert [bytes(record.payload) for record in found.records] == [b"last"]


def test_a_crc_of_zero_is_never_valid() -> None:
    assert read_record(bytes(64), 0, FILE_ID) is None
    record = bytearray(encode_record(FILE_ID, 0, 0, 0, []))
    record[4:8] = bytes(4)
    assert read_record(bytes(record), 0, FILE_ID) is None


@given(st.binary(max_size=200), st.integers(0, 64).map(lambda n: n * 8))
def test_any_bytes_can_be_scanned(data: bytes, base: int) -> None:
    found = scan(data, FILE_ID, 0, base)
    assert (found.records, found.end, found.damaged) == ([], base, [])
    assert found.torn == any(data)
