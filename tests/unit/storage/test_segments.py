"""Goal: every block of a segment is found and read, and none that is damaged is taken for good.

Method: hypothesis for round trips; every bit of a small file flipped, every length of it tried.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Corrupt
from sluicemq.model.traits import message_traits
from sluicemq.storage import segments
from sluicemq.storage.entries import Run, encode_deliver
from sluicemq.storage.records import (
    BLOCK,
    FILE_HEADER_SIZE,
    GROUP,
    FileHeader,
    encode_record,
)
from sluicemq.storage.segments import (
    BLOCK_HEAD,
    BlockPlace,
    encode_block,
    read_block,
    scan_places,
    segment_path,
)
from support.files import DictFiles

from .runs import runs, same

TRAITS = message_traits(b"\x00\x01k", 1, True)

FILE_ID = bytes(range(16))
PATH = segment_path("queues/5", 3)
BLOCKS = st.lists(st.lists(runs(st.just(5)), min_size=1, max_size=3), max_size=4)


def segment(blocks: list[list[Run]]) -> tuple[bytes, list[int]]:
    """A file, and where each block begins, and the end."""
    data = FileHeader("segment", FILE_ID, 3, 5).encode()
    offsets = [len(data)]
    for sequence, block in enumerate(blocks, start=1):
        data += encode_block(FILE_ID, len(data), sequence, block)
        offsets.append(len(data))
    return data, offsets


def embedded(first: int, *contents: bytes) -> Run:
    sizes = [len(content) for content in contents]
    return Run(5, first, 1, len(sizes), TRAITS, False, list(contents), sizes)


def reference(first: int, count: int) -> Run:
    return Run(5, first, 1, count, TRAITS, True, None, [5000] * count, 77)


SMALL = [[embedded(48, b"a", b"bc")], [reference(50, 3)], [embedded(53, b"last")]]


def files_with(data: bytes) -> DictFiles:
    files = DictFiles()
    files.put(PATH, data)
    return files


def contents_of(files: DictFiles, places: list[BlockPlace]) -> list[list[object]]:
    return [[same(run) for run in read_block(files, PATH, FILE_ID, place)] for place in places]


def test_a_path() -> None:
    assert PATH == "queues/5/00000003.idx"


@given(BLOCKS)
def test_blocks_come_back(blocks: list[list[Run]]) -> None:
    data, offsets = segment(blocks)
    files = files_with(data)
    places, damaged = scan_places(files, PATH, FILE_ID, len(data))
    assert damaged == []
    assert [place.offset for place in places] == offsets[:-1]
    assert [place.end for place in places] == offsets[1:]
    for place, block in zip(places, blocks, strict=True):
        positions = [position for run in block for position in run.positions]
        assert (place.first, place.last) == (min(positions), max(positions))
        assert place.has_references == any(run.contents is None for run in block)
    assert contents_of(files, places) == [[same(run) for run in block] for block in blocks]


@given(BLOCKS)
def test_heads_are_all_that_is_read(blocks: list[list[Run]]) -> None:
    data, _ = segment(blocks)
    files = files_with(data)
    files.actions.clear()
    scan_places(files, PATH, FILE_ID, len(data))
    assert files.actions == [f"read {PATH}"] * len(blocks)


def test_only_the_given_length_counts() -> None:
    data, offsets = segment(SMALL)
    places, damaged = scan_places(files_with(data), PATH, FILE_ID, offsets[2])
    assert ([place.offset for place in places], damaged) == (offsets[:2], [])
    assert scan_places(files_with(data), PATH, FILE_ID, 0) == ([], [])


def test_every_bit_flip_is_noticed() -> None:
    data, offsets = segment(SMALL)
    good = [[same(run) for run in block] for block in SMALL]
    for bit in range(FILE_HEADER_SIZE * 8, len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        files = files_with(bytes(changed))
        hit = next(n for n in range(len(SMALL)) if bit // 8 < offsets[n + 1])
        places, damaged = scan_places(files, PATH, FILE_ID, len(data))
        if damaged:
            assert damaged == [(offsets[hit], offsets[hit + 1])]
        else:
            with pytest.raises(Corrupt, match="its CRC is wrong"):
                read_block(files, PATH, FILE_ID, places.pop(hit))
        assert contents_of(files, places) == good[:hit] + good[hit + 1 :]


def test_every_truncation_is_noticed() -> None:
    data, offsets = segment(SMALL)
    for size in range(FILE_HEADER_SIZE, len(data)):
        files = files_with(data[:size])
        places, damaged = scan_places(files, PATH, FILE_ID, len(data))
        whole = sum(end <= size for end in offsets[1:])
        if damaged:
            assert damaged == [(offsets[len(places)], len(data))]
        for place in places[:whole]:
            assert read_block(files, PATH, FILE_ID, place)
        for place in places[whole:]:
            with pytest.raises(Corrupt):
                read_block(files, PATH, FILE_ID, place)
        assert damaged or len(places) > whole


def test_a_block_behind_a_long_gap_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEARCH_SIZE", 64)
    data, offsets = segment([[embedded(48, b"x" * 1000)], *SMALL])
    changed = bytearray(data)
    changed[offsets[0]] ^= 1
    places, damaged = scan_places(files_with(bytes(changed)), PATH, FILE_ID, len(data))
    assert [place.offset for place in places] == offsets[1:-1]
    assert damaged == [(offsets[0], offsets[1])]


def test_blocks_of_other_files_and_other_places_are_not_taken() -> None:
    data, offsets = segment(SMALL)
    size = len(data)
    assert scan_places(files_with(data), PATH, bytes(16), size) == ([], [(64, size)])
    moved = data[: offsets[0]] + bytes(8) + data[offsets[0] :]
    assert scan_places(files_with(moved), PATH, FILE_ID, size) == ([], [(64, size)])


def test_a_record_that_is_no_block_is_damage() -> None:
    parts: list[bytes] = [BLOCK_HEAD.pack(0, 0, 0, 0, 0)]
    encode_deliver(parts, 5, 7)
    for kind in (GROUP, BLOCK):
        data = FileHeader("segment", FILE_ID, 3, 5).encode()
        data += encode_record(FILE_ID, len(data), kind, 1, parts)
        places, damaged = scan_places(files_with(data), PATH, FILE_ID, len(data))
        assert (places, damaged) == ([], [(64, len(data))])


def test_a_block_of_something_else_than_runs_is_corrupt() -> None:
    parts: list[bytes] = [bytes(BLOCK_HEAD.size)]
    encode_deliver(parts, 5, 7)
    for size in (4, len(b"".join(parts))):
        data = encode_record(FILE_ID, 0, BLOCK, 1, [b"".join(parts)[:size]])
        with pytest.raises(Corrupt, match=r"it ends within its head|it has entries"):
            read_block(files_with(data), PATH, FILE_ID, BlockPlace(0, len(data), 0, 0, False))
