"""Goal: rows become the frames that a message made alone would have, octet for octet.

Method: any mixture of bodies and columns, as slices of larger arrays, against messages put together
one by one from the client's parts. No Spark session.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sluicemq.client.messages import (
    BasicProperties,
    content,
    frame_end,
    properties_of,
    publish_frame,
)
from sluicemq.errors import Refused
from sluicemq.spark.encoding import NAME_MARK, SEQUENCE_MARK, Columns, Encoder, WriterTask
from sluicemq.spark.options import Options

FRAME_MAX = 4096
BODY_MAX = FRAME_MAX - 8
KINDS: dict[str, tuple[DataType, pa.DataType]] = {
    "body": (BinaryType(), pa.binary()),
    "routing_key": (StringType(), pa.string()),
    "deduplication_id": (StringType(), pa.string()),
    "message_id": (StringType(), pa.string()),
    "priority": (IntegerType(), pa.int32()),
    "timestamp": (TimestampType(), pa.timestamp("us", "UTC")),
    "headers": (MapType(StringType(), StringType()), pa.map_(pa.string(), pa.string())),
}
MOMENTS = [datetime(2001, 2, 3, tzinfo=UTC), datetime(2026, 1, 1, 12, tzinfo=UTC)]

sizes = st.one_of(st.integers(0, 40), st.sampled_from([BODY_MAX, BODY_MAX + 1, 9000]))
uneven_bodies = sizes.flatmap(lambda size: st.binary(min_size=size, max_size=size))
ROWS = 24


def columns_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """ROWS values: all the same, some of them missing, or any."""
    same = values.map(lambda value: [value] * ROWS)
    holes = st.lists(st.booleans(), min_size=ROWS, max_size=ROWS)
    gappy = st.builds(lambda value, has: [value if h else None for h in has], values, holes)
    return st.one_of(same, gappy, st.lists(values, min_size=ROWS, max_size=ROWS))


def maybe(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([None, *values])


even_bodies = sizes.flatmap(
    lambda size: st.lists(st.binary(min_size=size, max_size=size), min_size=ROWS, max_size=ROWS)
)
tables = st.fixed_dictionaries(
    {"body": st.one_of(even_bodies, columns_of(st.one_of(st.none(), uneven_bodies)))},
    optional={
        "routing_key": columns_of(maybe("k", "other")),
        "message_id": columns_of(maybe("a", "é")),
        "priority": columns_of(maybe(0, 9)),
        "timestamp": columns_of(maybe(*MOMENTS)),
        "headers": columns_of(maybe({}, {"k": "v"}, {"x-spark-sequence": "mine", "z": "1"})),
    },
)
choices = st.fixed_dictionaries(
    {
        "deduplication": st.sampled_from(["none", "content", "column"]),
        "placeHeaders": st.sampled_from(["true", "false"]),
        "mandatory": st.sampled_from(["true", "false"]),
        "persistent": st.sampled_from(["true", "false"]),
    }
)


def assert_alike(
    found: Sequence[bytes], options: Options, first: int, rows: list[dict[str, Any]]
) -> None:
    """`found` are the messages of `rows`; the sequence may be written as a small or long number."""
    assert len(found) == len(rows)
    for row, (frames, values) in enumerate(zip(found, rows, strict=True), first):
        name = name_in(frames) if options.deduplication != "none" else ""
        if options.deduplication == "column":
            assert name == values["deduplication_id"]
        marked = message_of(options, name, values, SEQUENCE_MARK)
        long = marked.replace(SEQUENCE_MARK.to_bytes(8), row.to_bytes(8))
        assert frames in (long, message_of(options, name, values, row))


def name_in(frames: bytes) -> Any:
    """What a message is called by."""
    headers = headers_of(frames)
    return headers["x-deduplication-header"]


def headers_of(frames: bytes) -> dict[str, Any]:
    properties = BasicProperties.decode(properties_of(frames[frame_end(frames, 0) :]))
    return dict(properties.headers or {})


def message_of(options: Options, name: str, values: dict[str, Any], sequence: int) -> bytes:
    """The frames of one row's message."""
    ours: dict[str, Any] = {}
    if options.deduplication != "none":
        ours["x-deduplication-header"] = name
    if options.place_headers:
        ours |= {"x-spark-query-id": "query", "x-spark-batch-id": 7, "x-spark-partition": 3}
    if options.place_headers or options.mandatory:
        ours["x-spark-sequence"] = sequence
    headers = values.get("headers")
    properties = BasicProperties(
        headers=(headers or {}) | ours if ours else headers,
        message_id=values.get("message_id"),
        priority=values.get("priority"),
        timestamp=int(values["timestamp"].timestamp()) if values.get("timestamp") else None,
        delivery_mode=2 if options.persistent else None,
    )
    key = values["routing_key"] or "" if "routing_key" in values else "fixed"
    method = publish_frame("e", key, options.mandatory)
    return method + content(properties.encode(), values["body"] or b"", FRAME_MAX)


def encoder_of(options: Options, names: list[str]) -> Encoder:
    schema = StructType([StructField(name, KINDS[name][0]) for name in names])
    return Encoder(options, Columns(options, schema), WriterTask("query", 7, 3), FRAME_MAX)


@given(tables, choices, st.lists(st.integers(0, ROWS), min_size=2, max_size=4).map(sorted))
def test_rows_become_the_messages_they_are_alone(
    table: dict[str, list[Any]], chosen: dict[str, str], cuts: list[int]
) -> None:
    key = {} if "routing_key" in table else {"routingKey": "fixed"}
    options = Options.parse({"exchange": "e", **key, **chosen}, "sink")
    if options.deduplication == "column":
        table["deduplication_id"] = ["", "d1", "d2"] * (ROWS // 3)
    batch = pa.RecordBatch.from_pydict({n: pa.array(v, KINDS[n][1]) for n, v in table.items()})
    encoder = encoder_of(options, list(table))
    row = 0
    for start, stop in pairwise(cuts):
        if start == stop:
            continue
        found = encoder.encode(batch.slice(start, stop - start))
        rows = [{n: v[index] for n, v in table.items()} for index in range(start, stop)]
        assert_alike(found, options, row, rows)
        row += stop - start
    assert encoder.rows == row


@pytest.mark.parametrize(
    ("name", "value"),
    [("routing_key", "k"), ("message_id", "a"), ("priority", 0), ("timestamp", MOMENTS[0])],
)
@pytest.mark.parametrize("holes", [(0,), (3,), (0, 1, 2)])
def test_what_is_missing_is_not_what_stands_beside_it(
    name: str, value: Any, holes: tuple[int, ...]
) -> None:
    key = {} if name == "routing_key" else {"routingKey": "fixed"}
    options = Options.parse({"exchange": "e", **key}, "sink")
    rows = [{"body": b"x", name: None if n in holes else value} for n in range(4)]
    columns = {n: pa.array([row[n] for row in rows], KINDS[n][1]) for n in ("body", name)}
    found = encoder_of(options, ["body", name]).encode(pa.RecordBatch.from_pydict(columns))
    assert_alike(found, options, 0, rows)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_bodies_come_in_any_kind_of_column(kind: pa.DataType) -> None:
    options = Options.parse({"exchange": "e", "routingKey": "fixed"}, "sink")
    column = pa.array(["nothing", "one", "two", "six"], kind)
    batch = pa.RecordBatch.from_pydict({"body": column}).slice(1)
    found = encoder_of(options, ["body"]).encode(batch)
    assert_alike(found, options, 0, [{"body": body} for body in (b"one", b"two", b"six")])


def test_large_numbers_and_text_that_looks_like_a_mark() -> None:
    """The octets that a stencil is found by may stand in what users write."""
    chosen = {"exchange": "e", "routingKey": "fixed", "deduplication": "content"}
    options = Options.parse(chosen, "sink")
    encoder = encoder_of(options, ["body", "headers"])
    encoder.rows = first = SEQUENCE_MARK - 2
    table = {"body": [b"x"] * 8, "headers": [{"k": NAME_MARK}] * 4 + [{"k": "a"}] * 4}
    batch = pa.RecordBatch.from_pydict({n: pa.array(v, KINDS[n][1]) for n, v in table.items()})
    for at in (0, 4):
        found = encoder.encode(batch.slice(at, 4))
        rows = [{n: v[index] for n, v in table.items()} for index in range(at, at + 4)]
        assert_alike(found, options, first + at, rows)


@given(tables, st.permutations(range(ROWS)), st.lists(st.integers(0, ROWS), max_size=4).map(sorted))
def test_names_by_content_do_not_depend_on_the_order_of_rows(
    table: dict[str, list[Any]], order: list[int], cuts: list[int]
) -> None:
    """Each name stands for a row that says the same, and no two rows have one name."""
    key = {} if "routing_key" in table else {"routingKey": "fixed"}
    options = Options.parse({"exchange": "e", "deduplication": "content", **key}, "sink")
    batch = pa.RecordBatch.from_pydict({n: pa.array(v, KINDS[n][1]) for n, v in table.items()})
    once = encoder_of(options, list(table)).encode(batch)
    encoder = encoder_of(options, list(table))
    shuffled = batch.take(pa.array(order))
    again: list[bytes] = []
    for start, stop in pairwise([0, *cuts, ROWS]):
        if start < stop:
            again += encoder.encode(shuffled.slice(start, stop - start))
    found = {name_in(each): without_sequence(each) for each in once}
    assert len(found) == ROWS
    assert {name_in(each): without_sequence(each) for each in again} == found


def without_sequence(frames: bytes) -> tuple[Any, ...]:
    """All that a message says, but where its row stood."""
    method, rest = frames[: frame_end(frames, 0)], frames[frame_end(frames, 0) :]
    properties = BasicProperties.decode(properties_of(rest))
    properties.headers = {k: v for k, v in headers_of(frames).items() if k != "x-spark-sequence"}
    return method, properties.encode(), rest[frame_end(rest, 0) :]


def test_the_entries_of_a_map_have_no_order() -> None:
    chosen = {"exchange": "e", "routingKey": "fixed", "deduplication": "content"}
    options = Options.parse(chosen, "sink")
    headers = [[("a", "1"), ("b", "2")], [("b", "2"), ("a", "1")], [("a", "2"), ("b", "1")]]
    table = {"body": [b"x"] * 3, "headers": headers}
    batch = pa.RecordBatch.from_pydict({n: pa.array(v, KINDS[n][1]) for n, v in table.items()})
    first, second, third = (
        name_in(each) for each in encoder_of(options, list(table)).encode(batch)
    )
    assert (first[:-1], first[-1], second[-1]) == (second[:-1], "0", "1")
    assert third.rpartition("-")[0] != first.rpartition("-")[0]


def test_a_row_without_the_name_it_should_bring_is_refused() -> None:
    chosen = {"exchange": "e", "routingKey": "fixed", "deduplication": "column"}
    encoder = encoder_of(Options.parse(chosen, "sink"), ["body", "deduplication_id"])
    names = [pa.array(each, pa.string()) for each in (["a", "b"], ["c", None])]
    bodies = pa.array([b"x", b"y"])
    encoder.encode(pa.RecordBatch.from_arrays([bodies, names[0]], ["body", "deduplication_id"]))
    with pytest.raises(Refused, match="deduplication_id is null in row 3 of partition 3"):
        encoder.encode(pa.RecordBatch.from_arrays([bodies, names[1]], ["body", "deduplication_id"]))
