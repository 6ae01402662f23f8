"""Reads a run directory: checks run.json and columns, and reads the large tables as a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NotRequired, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BooleanType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
    StructType,
)

from sluicemq.errors import Refused
from sluicemq.lab.measurements import TABLES, RunInfo, StepInfo, Verification, read_run_info

LARGE: Final = ("published", "delivered")
"""The tables that have a row for each message."""

SPARK_TYPES: Final = {
    pa.int16(): ShortType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.bool_(): BooleanType(),
}
"""The types of the two large tables in Spark."""


@dataclass(frozen=True, slots=True)
class RawRun:
    """One run as the lab left it. Its two large tables have not been read yet."""

    directory: Path
    info: RunInfo
    messages: DataFrame
    """Rows of `published` and of `delivered`; a column that a table does not have is null."""
    counters: pa.Table
    """A row for each client and second."""
    broker: pa.Table | None
    """A row for each second."""
    nodes: pa.Table | None
    """A row for each node and second; None when the nodes were not sampled."""
    damaged: dict[Path, str]
    """The error of each file of the two large tables that is left out of `messages`."""


def open_run(session: SparkSession, directory: Path) -> RawRun:
    """Return the run in `directory`, without files of its large tables that are no Parquet. Raises
    `Refused`, which names the file and the column at fault, when it cannot be read."""
    info = load_info(directory)
    damaged = _damaged(directory, pq.read_metadata)
    return RawRun(
        directory,
        info,
        _read_messages(session, directory, damaged),
        _read_small(directory, "counters"),
        _read_if_there(directory, "broker"),
        _read_if_there(directory, "nodes"),
        damaged,
    )


def without_damaged(raw: RawRun) -> RawRun | None:
    """Return the run without those files of its large tables that cannot be read; None when it
    already excludes all of them. Raises `Refused` when nothing is left of a table.

    It reads all files, so call it only after Spark has failed.
    """
    damaged = _damaged(raw.directory, pq.read_table)
    if damaged.keys() == raw.damaged.keys():
        return None
    messages = _read_messages(raw.messages.sparkSession, raw.directory, damaged)
    return replace(raw, messages=messages, damaged=damaged)


def load_info(directory: Path) -> RunInfo:
    """Return the content of run.json. Raises `Refused` when it is missing, damaged, lacks a key or
    has no steps."""
    path = directory / "run.json"
    if not path.is_file():
        raise Refused(f"{path} is missing: {directory} is not the directory of a lab run")
    try:
        info = read_run_info(directory)
    except json.JSONDecodeError as error:
        raise Refused(f"{path} is not JSON: {error}") from error
    _require_keys(path, "", info, RunInfo)
    _require_keys(path, "verification.", info["verification"], Verification)
    if not info["steps"]:
        raise Refused(f"{path}: 'steps' is empty: the run has nothing to report on")
    for position, step in enumerate(info["steps"]):
        _require_keys(path, f"steps[{position}].", step, StepInfo)
    return info


def count_rows(directory: Path) -> int:
    """Return how many rows the two large tables have, by the footers of their valid Parquet
    files."""
    damaged = _damaged(directory, pq.read_metadata)
    files = {file for name in LARGE for file in _files(directory / name)}
    return sum(pq.read_metadata(file).num_rows for file in files - damaged.keys())


def _damaged(directory: Path, read: Callable[[Path], object]) -> dict[Path, str]:
    """Return the error of each file of the two large tables with which `read` fails."""
    found = {}
    for name in LARGE:
        for file in _files(directory / name):
            try:
                read(file)
            except (pa.ArrowException, OSError) as error:
                found[file] = str(error)
    return found


def _require_keys(path: Path, prefix: str, found: Any, wanted: type) -> None:
    """Raise `Refused` when `found` lacks a key of the TypedDict `wanted`."""
    if not isinstance(found, dict):
        raise Refused(f"{path}: {prefix.rstrip('.') or 'the file'} is not a JSON object")
    for key, hint in get_type_hints(wanted, include_extras=True).items():
        if get_origin(hint) is not NotRequired and key not in found:
            raise Refused(f"{path}: '{prefix}{key}' is missing")


def _read_messages(session: SparkSession, directory: Path, damaged: Collection[Path]) -> DataFrame:
    """Return both large tables as one DataFrame, with the contract's schema for Spark."""
    columns: dict[str, pa.DataType] = {}
    paths: list[Path] = []
    for name in LARGE:
        files = _files(directory / name)
        sound = [file for file in files if file not in damaged]
        if not sound:
            raise Refused(f"no file of {directory / name} can be read")
        _check_columns(sound, TABLES[name])
        columns |= {field.name: field.type for field in TABLES[name]}
        paths += [directory / name] if sound == files else sound
    schema = StructType([StructField(name, SPARK_TYPES[kind]) for name, kind in columns.items()])
    return session.read.schema(schema).parquet(*map(str, paths))


def _read_small(directory: Path, name: str) -> pa.Table:
    """Return a table that is too small to be worth a query."""
    files = _files(directory / name)
    try:
        _check_columns(files, TABLES[name])
        return pq.read_table(directory / name, columns=TABLES[name].names)
    except (pa.ArrowException, OSError) as error:
        raise Refused(f"a file of {directory / name} is damaged: {error}") from error


def _read_if_there(directory: Path, name: str) -> pa.Table | None:
    """Return a small table that not every run has; None when it is missing."""
    there = any((directory / name).glob("*.parquet"))
    return _read_small(directory, name) if there else None


def _files(folder: Path) -> list[Path]:
    """Return the files of a table, at least one."""
    if not folder.is_dir():
        raise Refused(f"{folder} is missing: the run left no '{folder.name}' table")
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise Refused(f"{folder} holds no Parquet file")
    return files


def _check_columns(files: Iterable[Path], wanted: pa.Schema) -> None:
    for file in files:
        found = pq.read_schema(file)
        for field in wanted:
            position = found.get_field_index(field.name)
            if position < 0:
                raise Refused(f"{file}: column '{field.name}' is missing")
            kind = found.field(position).type
            if kind != field.type:
                raise Refused(f"{file}: column '{field.name}' is {kind}, not {field.type}")
