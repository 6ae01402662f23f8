"""Goal: entries come back as they were, and bytes that are none are Corrupt, nothing else.

Method: hypothesis, over all kinds of entries together; mutated and arbitrary bytes.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Corrupt
from sluicemq.model.traits import message_traits
from sluicemq.storage.entries import (
    ACK_HEAD,
    DEFINITION_HEAD,
    RUN_HEAD,
    Ack,
    Definition,
    Delivered,
    Entry,
    QueueDeleted,
    Run,
    decode_entries,
    encode_run,
)

from .runs import ENTRIES, encode, encoded, runs, same


@given(st.lists(ENTRIES, max_size=6))
def test_entries_come_back(entries: list[Entry]) -> None:
    data = encoded(entries)
    for payload in (data, memoryview(data)):
        assert [same(each) for each in decode_entries(payload)] == [same(each) for each in entries]


@given(ENTRIES)
def test_an_encoder_says_what_it_appended(entry: Entry) -> None:
    parts = [b"before"]
    assert encode(parts, entry) == len(b"".join(parts[1:]))


@given(st.lists(ENTRIES, min_size=1, max_size=3), st.data())
def test_what_is_cut_off_is_corrupt(entries: list[Entry], data: st.DataObject) -> None:
    whole = encoded(entries)
    borders = {len(encoded(entries[:n])) for n in range(len(entries) + 1)}
    size = data.draw(st.integers(0, len(whole)))
    if size in borders:
        decode_entries(whole[:size])
    else:
        with pytest.raises(Corrupt):
            decode_entries(whole[:size])


@given(st.lists(ENTRIES, min_size=1, max_size=3), st.data())
def test_changed_bytes_are_corrupt_or_something_else(
    entries: list[Entry], data: st.DataObject
) -> None:
    changed = bytearray(encoded(entries))
    place = data.draw(st.integers(0, len(changed) - 1))
    changed[place] = data.draw(st.integers(0, 255))
    try:
        decode_entries(bytes(changed))
    except Corrupt:
        return


@given(st.binary(max_size=120))
def test_any_bytes_are_entries_or_corrupt(payload: bytes) -> None:
    try:
        decode_entries(payload)
    except Corrupt:
        return


def test_a_run_that_would_fill_the_memory_is_corrupt() -> None:
    for count in (0, 2**20 + 1, 2**32 - 1):
        with pytest.raises(Corrupt):
            decode_entries(RUN_HEAD.pack(1, 1, 1, count, 1, 1, 5, 1, 1, 10, 0, 0))
    with pytest.raises(Corrupt):
        decode_entries(RUN_HEAD.pack(1, 5, 1, 2**20, 1, 1, 0, 1, 1, 2**32 - 1, 0, 0))
    with pytest.raises(Corrupt):
        decode_entries(ACK_HEAD.pack(2, 2**32 - 1, 1))
    with pytest.raises(Corrupt):
        decode_entries(DEFINITION_HEAD.pack(4, 2**32 - 1))


@pytest.mark.parametrize(
    "fields",
    [
        (1, 16, 1, 1, 1, 1, 5, 1, 1, 0, 0, 0),
        (1, 9, 1, 1, 1, 1, 5, 1, 1, 0, 0, 0),
        (1, 1, 1, 1, 1, 1, 5, 0, 1, 0, 0, 0),
        (1, 1, 1, 1, 1, 1, 5, 1, 0, 0, 0, 0),
        (1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 0, 0),
        (1, 5, 1, 1, 1, 1, 5, 1, 1, 0, 0, 0),
        (1, 0, 1, 1, 1, 1, 5, 1, 1, 7, 0, 0),
        (1, 1, 1, 2, 1, 2**64 - 1, 5, 1, 1, 7, 0, 0),
        (1, 1, 1, 1, 1, 1, 5, 1, 1, 0, 0, 1),
    ],
)
def test_a_run_that_contradicts_itself_is_corrupt(fields: tuple[int, ...]) -> None:
    with pytest.raises(Corrupt):
        decode_entries(RUN_HEAD.pack(*fields) + bytes(8))


def test_zeroes_of_an_entry_that_are_none_are_corrupt() -> None:
    for entry in (Ack(1, [range(2)]), Delivered(1, 2), Definition(b"{}"), QueueDeleted(1)):
        data = bytearray(encoded([entry]))
        data[2] = 1
        with pytest.raises(Corrupt):
            decode_entries(bytes(data))


def test_an_unknown_entry_is_corrupt() -> None:
    for kind in (0, 13, 255):
        with pytest.raises(Corrupt, match=f"unknown type {kind}"):
            decode_entries(bytes([kind]) * 40)


def test_an_empty_range_is_not_written_and_not_read() -> None:
    some = Ack(1, [range(5, 5), range(7, 9)])
    assert decode_entries(encoded([some])) == [Ack(1, [range(7, 9)])]
    for step, count in ((0, 1), (1, 0)):
        with pytest.raises(Corrupt):
            decode_entries(ACK_HEAD.pack(2, 1, 1) + struct.pack("<QII", 5, step, count))


@given(runs(), st.data())
def test_the_parts_of_a_run_are_the_run(run: Run, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, run.count))
    parts = [run.part(a, b) for a, b in ((0, cut), (cut, run.count)) if a < b]
    assert [p for part in parts for p in part.positions] == list(run.positions)
    assert [i for part in parts for i in part.ids] == list(run.ids)
    assert [n for part in parts for n in part.sizes] == run.sizes
    if run.contents is not None:
        assert [c for part in parts for c in part.contents or []] == run.contents
    assert [same(part) for part in decode_entries(encoded([*parts]))] == list(map(same, parts))


def test_positions_and_ids() -> None:
    run = Run(1, 10, 3, 4, message_traits(b"", 1, True), True, None, [7] * 4, 100, 2)
    assert run.positions == range(10, 22, 3)
    assert list(run.ids) == [100, 102, 104, 106]
    embedded = Run(1, 10, 3, 1, message_traits(b"", 1, True), True, [b"x"], [1])
    assert list(embedded.ids) == []


def test_a_run_joins_its_contents_without_copying_them_one_by_one() -> None:
    contents = [bytes(1000)] * 500
    parts: list[bytes] = []
    encode_run(parts, Run(1, 0, 1, 500, message_traits(b"", 1, True), True, contents, [1000] * 500))
    assert len(parts) == 501
    assert all(part is content for part, content in zip(parts[1:], contents, strict=True))
