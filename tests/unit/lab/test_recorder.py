"""Goal: rows reach Parquet in the declared form. Method: write, read back with pyarrow."""

from __future__ import annotations

from array import array
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sluicemq.lab import recorder as recorder_module
from sluicemq.lab.measurements import BROKER, COUNTERS, PUBLISHED
from sluicemq.lab.recorder import NEVER, Recorder, RecorderError, write_rows


def add(recorder: Recorder, first: int, count: int) -> None:
    for column in recorder.columns.values():
        column.extend([1] * count)
    recorder.columns["seq"][-count:] = array("q", range(first, first + count))
    recorder.added(count)


def test_every_table_is_written_in_its_schema(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "published", "test")
    add(recorder, 0, 3)
    recorder.columns["confirmed_ns"][1] = NEVER
    recorder.columns["nacked"][2] = 0
    recorder.close()
    (part,) = (tmp_path / "published").iterdir()
    table = pq.read_table(part)
    assert table.schema.equals(PUBLISHED)
    assert table["confirmed_ns"].to_pylist() == [1, None, 1]
    assert table["nacked"].to_pylist() == [True, True, False]


def test_full_parts_are_written_on_the_way_and_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "ROWS_PER_PART", 10)
    recorder = Recorder(tmp_path, "published", "test")
    for first in range(0, 35, 5):
        add(recorder, first, 5)
    recorder.close()
    parts = sorted((tmp_path / "published").iterdir())
    assert [part.name for part in parts] == [f"part-test-0000{n}.parquet" for n in range(4)]
    assert pq.read_table(tmp_path / "published")["seq"].to_pylist() == list(range(35))


def test_a_recorder_without_rows_leaves_an_empty_folder(tmp_path: Path) -> None:
    Recorder(tmp_path, "published", "test").close()
    assert list((tmp_path / "published").iterdir()) == []


def test_a_disk_that_fails_is_reported_to_whoever_gives_rows(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "published", "test")
    (tmp_path / "published").rmdir()
    add(recorder, 0, 1)
    recorder.flush()
    with pytest.raises(RecorderError, match=r"cannot write measurements: .*published"):
        recorder.close()


def test_small_tables_are_written_row_by_row(tmp_path: Path) -> None:
    rows = [{"second": 0, "cpu_ns": None, "rss_bytes": None, "messages_ready": 3}]
    write_rows(tmp_path, "broker", rows)
    write_rows(tmp_path, "counters", [])
    assert pq.read_table(tmp_path / "broker").to_pylist() == rows
    assert pq.read_table(tmp_path / "broker").schema.equals(BROKER)
    assert pq.read_table(tmp_path / "counters").schema.equals(COUNTERS)
