"""Goal: both indexes are the same dict of ints. Method: hypothesis drives each beside a dict; the
one in LMDB in transactions of a few changes, and with a disk that refuses some of them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import lmdb
import pytest
from hypothesis import given

from sluicemq.errors import Refused
from sluicemq.host.lmdb_index import CHANGES_MAX, LmdbIndex, open_lmdb_index
from sluicemq.kernel.world import Log
from sluicemq.storage.message_index import (
    ONE,
    PLACE_MASK,
    REFERENCES_SHIFT,
    SIZE_LIMIT,
    DictIndex,
    MessageIndex,
    entries_of,
    entry_of,
    number_of,
    offset_of,
    size_of,
)
from support.thorough import examples

IDS = st.integers(0, 40) | st.sampled_from((2**32, 2**63, 2**64 - 1))
ENTRIES = st.integers(1, 2**120)
STEPS = st.lists(
    st.tuples(st.just("put"), st.dictionaries(IDS, ENTRIES, max_size=6))
    | st.tuples(st.just("delete"), st.dictionaries(IDS, ENTRIES, max_size=6))
    | st.tuples(st.just("clear"), st.just({})),
    max_size=30,
)


class Lines(Log):
    """A log to look at."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, level: str, text: str) -> None:
        self.lines.append(f"{level}: {text}")


def same(index: MessageIndex, expected: dict[int, int]) -> None:
    ids = [*range(41), 2**32, 2**63, 2**64 - 1]
    assert index.get_many(ids) == [expected.get(each, 0) for each in ids]
    assert [index.get(each) for each in ids] == [expected.get(each, 0) for each in ids]
    assert index.count() == len(expected)


def drive(index: MessageIndex, steps: list[tuple[str, dict[int, int]]]) -> None:
    expected: dict[int, int] = {}
    for step, entries in steps:
        if step == "put":
            index.put_many(list(entries), list(entries.values()))
            expected.update(entries)
        elif step == "delete":
            index.delete_many(entries)
            for each in entries:
                expected.pop(each, None)
        else:
            index.clear()
            expected = {}
        same(index, expected)


@given(STEPS)
def test_dict_index(steps: list[tuple[str, dict[int, int]]]) -> None:
    drive(DictIndex(), steps)


@examples(20)
@given(STEPS, st.integers(1, 9))
def test_lmdb_index(steps: list[tuple[str, dict[int, int]]], changes_max: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        index = LmdbIndex(Path(directory) / "index", Log(), changes_max)
        drive(index, steps)
        index.close()


def test_lmdb_index_is_empty_whenever_it_is_opened(tmp_path: Path) -> None:
    """It is a cache: what an earlier run left says nothing."""
    for _ in range(2):
        index = open_lmdb_index(tmp_path, Log(), "persistent")
        assert index.get(7) == 0 and index.count() == 0
        index.put_many(range(CHANGES_MAX), range(1, CHANGES_MAX + 1))
        assert index.changes == {}
        assert index.get(7) == 8
        index.close()
    assert (tmp_path / "messages" / "index.lmdb" / "persistent" / "data.mdb").exists()


def test_lmdb_index_keeps_in_memory_what_a_full_disk_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is forgotten, and it does not try again at every change."""
    log = Lines()
    index = LmdbIndex(tmp_path / "index", log, changes_max=4)
    index.put_many([1, 2, 3, 4], [11, 12, 13, 14])
    whole = index.environment

    class Full:
        """Refuses to begin a transaction that writes."""

        def begin(self, write: bool = False) -> lmdb.Transaction:
            if write:
                raise lmdb.DiskError("mdb_txn_commit: No space left on device")
            return whole.begin()

    monkeypatch.setattr(index, "environment", Full())
    index.delete_many([1, 2])
    index.put_many([5, 6], [15, 16])
    index.put(7, 17)
    assert len(log.lines) == 1 and "No space left" in log.lines[0]
    assert index.get_many(range(1, 9)) == [0, 0, 13, 14, 15, 16, 17, 0]
    monkeypatch.setattr(index, "environment", whole)
    index.put_many([8, 9, 10], [18, 19, 20])
    assert index.changes == {}
    assert index.get_many(range(1, 11)) == [0, 0, 13, 14, 15, 16, 17, 18, 19, 20]
    index.close()


def test_lmdb_index_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(Refused, match=r"sluicemq\[lmdb\]"):
        open_lmdb_index(tmp_path, Log(), "transient")


@given(
    st.integers(0, 1000),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**29 - 1),
    st.integers(0, SIZE_LIMIT // 8 - 1),
)
def test_an_entry_holds_all_fields(
    references: int, number: int, offset_units: int, size_units: int
) -> None:
    offset, size = offset_units * 8, size_units * 8
    entry = entry_of(references, number, offset, size)
    assert entry >> REFERENCES_SHIFT == references
    assert (number_of(entry), offset_of(entry), size_of(entry)) == (number, offset, size)
    assert entry + ONE == entry_of(references + 1, number, offset, size)
    assert entries_of(number, [offset, 8], [size]) == [entry & PLACE_MASK | ONE]
