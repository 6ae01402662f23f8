"""Goal: the fast ways from contents to columns and from rows to frames say what the slow ones say.

Method: any mixture of bodies and properties, decoded one by one beside it. No Spark session.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from sluicemq.client.messages import (
    BasicProperties,
    body_of,
    content,
    frame_end,
    properties_of,
    publish_frame,
)
from sluicemq.errors import Refused
from sluicemq.spark.encoding import Columns, Encoder, Place
from sluicemq.spark.ledger import Ledger
from sluicemq.spark.options import Options
from sluicemq.spark.queue_stream import split
from sluicemq.spark.schema import Decoder, Run

FRAME_MAX = 4096
HEADERS = MapType(StringType(), StringType())
READ = StructType(
    [
        StructField("body", BinaryType()),
        StructField("redelivered", BooleanType()),
        StructField("delivery_tag", LongType()),
        StructField("offset", LongType()),
        StructField("message_id", StringType()),
        StructField("priority", IntegerType()),
        StructField("headers", HEADERS),
    ]
)

bodies = st.one_of(
    st.just(b"x" * 20), st.binary(max_size=40), st.integers(4000, 9000).map(lambda n: b"y" * n)
)
properties = st.builds(
    BasicProperties,
    message_id=st.one_of(st.none(), st.sampled_from(["a", "bb", "é"])),
    priority=st.one_of(st.none(), st.integers(0, 255)),
    headers=st.one_of(st.none(), st.dictionaries(st.sampled_from("kl"), st.integers(0, 9))),
)
messages = st.lists(st.tuples(properties, bodies), min_size=1, max_size=30)
alike = st.builds(lambda one, n: [one] * n, st.tuples(properties, bodies), st.integers(1, 30))


@given(st.one_of(messages, alike), st.booleans())
def test_contents_become_rows(given_: list[tuple[BasicProperties, bytes]], is_stream: bool) -> None:
    contents = []
    for offset, (each, body) in enumerate(given_, 100):
        headers = each.headers
        if is_stream:
            headers = {**(headers or {}), "x-stream-offset": offset + 2**40}
        made = BasicProperties(message_id=each.message_id, priority=each.priority, headers=headers)
        contents.append(content(made.encode(), body, FRAME_MAX))
    half = len(contents) // 2
    runs = [Run("e", "k", True, 5, half), Run("", "q", False, 900, len(contents) - half)]
    sizes = np.array([len(each) for each in contents], np.int64)
    decoder = Decoder(READ, is_stream)
    rows = decoder.decode("q", [r for r in runs if r.count], sizes, b"".join(contents)).to_pylist()
    tags = [*range(5, 5 + half), *range(900, 900 + len(contents) - half)]
    for index, (row, (each, body)) in enumerate(zip(rows, given_, strict=True)):
        assert row["body"] == body
        assert (row["message_id"], row["priority"]) == (each.message_id, each.priority)
        assert row["redelivered"] is (index < half)
        assert row["delivery_tag"] == tags[index]
        assert row["offset"] == (index + 100 + 2**40 if is_stream else None)
        text = None if each.headers is None else [(k, str(v)) for k, v in each.headers.items()]
        if is_stream and text is None:
            text = []
        assert row["headers"] == text


@given(
    st.lists(bodies, min_size=1, max_size=20),
    st.lists(st.one_of(st.none(), st.sampled_from(["a", "b"])), min_size=20, max_size=20),
    st.sampled_from(["none", "position", "column"]),
    st.booleans(),
)
def test_rows_become_messages(
    given_: list[bytes], ids: list[str | None], deduplication: str, has_headers: bool
) -> None:
    options = Options.parse(
        {
            "exchange": "e",
            "routingKey": "k",
            "deduplication": deduplication,
            "idempotencyHeaders": str(has_headers),
            "mandatory": "false",
        },
        "sink",
    )
    fields = {"body": given_, "message_id": ids[: len(given_)]}
    if deduplication == "column":
        fields["deduplication_id"] = [f"d{n % 2}" for n in range(len(given_))]
    kinds = {"body": BinaryType()}
    schema = StructType([StructField(n, kinds.get(n, StringType())) for n in fields])
    table = {"body": pa.array(given_, pa.binary())}
    table |= {n: pa.array(v, pa.string()) for n, v in fields.items() if n != "body"}
    batch = pa.RecordBatch.from_pydict(table)
    encoder = Encoder(options, Columns(options, schema), Place("query", 7, 3), FRAME_MAX)
    found = encoder.encode(batch) + encoder.encode(batch)
    method = publish_frame("e", "k", False)
    for row, frames in enumerate(found):
        index = row % len(given_)
        assert frames.startswith(method)
        message = frames[frame_end(frames, 0) :]
        assert body_of(message) == given_[index]
        said = BasicProperties.decode(properties_of(message))
        assert (said.message_id, said.delivery_mode) == (ids[index], 2)
        headers = dict(said.headers or {})
        name = headers.pop("x-deduplication-header", None)
        expected = {"position": f"query/7/3/{row:012d}", "column": f"d{index % 2}"}
        assert name == expected.get(deduplication)
        where = {
            "x-spark-query-id": "query",
            "x-spark-batch-id": 7,
            "x-spark-partition": 3,
            "x-spark-sequence": row,
        }
        assert headers == (where if has_headers else {})


def test_a_ledger_keeps_what_spark_knows(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path), window=4)
    for serial in (1, 2, 3, 4):
        ledger.record(serial, {"q": [f"{serial}a", f"{serial}b"]})
    again = Ledger(str(tmp_path), window=4)
    assert [again.knows("q", f"{serial}a") for serial in (1, 2, 3, 4)] == [False, False, True, True]
    assert not again.knows("other", "4a")
    again.align(3)
    assert (again.knows("q", "4a"), again.batch(4)) == (False, None)
    assert Ledger(str(tmp_path), window=4).batch(3) == {"q": ["3a", "3b"]}


def test_a_ledger_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match=r"ledger = .*cannot be used"):
        Ledger(str(tmp_path / "file"), 1)


@given(st.lists(st.integers(1, 50), max_size=20), st.integers(1, 5))
def test_chunks_are_split_in_order(rows: list[int], parts: int) -> None:
    groups = split(list(enumerate(rows)), parts)
    assert [number for group in groups for number in group] == list(range(len(rows)))
    assert len(groups) <= parts
    assert all(groups)
