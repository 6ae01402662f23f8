"""Goal: the fast way from contents to columns says what the slow one says.

Method: any mixture of bodies and properties, decoded one by one beside it. No Spark session.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

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

from sluicemq.amqp.connection import CLIENT, AmqpConnection
from sluicemq.amqp.events import Deliveries
from sluicemq.amqp.frames import HEARTBEAT_FRAME
from sluicemq.amqp.methods import BasicDeliver
from sluicemq.client.messages import BasicProperties, body_of, content, properties_of
from sluicemq.spark.batch_ids import BatchIds, BatchPart
from sluicemq.spark.chunks import ChunkReader, FetchedChunk, GatheredChunk, Scratch
from sluicemq.spark.message_ids import message_id
from sluicemq.spark.raw_contents import ContentRun
from sluicemq.spark.schema import Decoder
from sluicemq.spark.transfer import send_all

FRAME_MAX = 4096
HEADERS = MapType(StringType(), StringType())
READ = StructType(
    [
        StructField("body", BinaryType()),
        StructField("exchange", StringType()),
        StructField("routing_key", StringType()),
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


envelopes = st.lists(
    st.sampled_from([("e", "k", True), ("", "q", False), ("", "qq", False)]),
    min_size=30,
    max_size=30,
)


@given(
    st.one_of(messages, alike),
    st.one_of(envelopes, st.just([("", "q", False)] * 30)),
    st.lists(st.integers(1, 20_000), max_size=4),
    st.integers(1, 12),
    st.booleans(),
)
def test_deliveries_become_rows(
    given_: list[tuple[BasicProperties, bytes]],
    envelope: list[tuple[str, str, bool]],
    cuts: list[int],
    rows_added: int,
    is_stream: bool,
) -> None:
    """From the socket's octets, cut anywhere, through a chunk and the wire between driver and
    executor."""
    wire = b""
    for index, (each, body) in enumerate(given_):
        headers = each.headers
        if is_stream:
            headers = {**(headers or {}), "x-stream-offset": index + 2**40}
        made = BasicProperties(message_id=each.message_id, priority=each.priority, headers=headers)
        exchange, key, again = envelope[index]
        method = BasicDeliver("tag", index + 5, again, exchange, key)
        wire += method.frame(1) + content(made.encode(), body, FRAME_MAX)
    chunk = GatheredChunk("q", 0)
    for event in deliveries(wire, cuts):
        for low in range(0, len(event.tags), rows_added):
            chunk.add(event, low, min(low + rows_added, len(event.tags)))
    got = sent(chunk)
    rows = Decoder(READ, is_stream).decode("q", got.runs, got.sizes, got.data).to_pylist()
    for index, (row, (each, body)) in enumerate(zip(rows, given_, strict=True)):
        assert row["body"] == body
        assert (row["message_id"], row["priority"]) == (each.message_id, each.priority)
        assert (row["exchange"], row["routing_key"], row["redelivered"]) == envelope[index]
        assert row["delivery_tag"] == index + 5
        assert row["offset"] == (index + 2**40 if is_stream else None)
        text = None if each.headers is None else [(k, str(v)) for k, v in each.headers.items()]
        if is_stream and text is None:
            text = []
        assert row["headers"] == text
    contents = [each for _, each in chunk.messages()]
    assert [body_of(each) for each in contents] == [body for _, body in given_]
    assert chunk.bytes == sum(map(len, contents))
    again = sent(GatheredChunk.of("q", list(chunk.messages())))
    assert Decoder(READ, is_stream).decode(
        "q", again.runs, again.sizes, again.data
    ).to_pylist() == (rows)


texts = st.one_of(st.none(), st.sampled_from(["", "t", "ü" * 9, "x" * 255]))
any_properties = st.builds(
    BasicProperties,
    content_type=texts,
    content_encoding=texts,
    headers=st.one_of(st.none(), st.dictionaries(texts.filter(bool), texts, max_size=3)),
    delivery_mode=st.sampled_from([None, 1, 2]),
    priority=st.sampled_from([None, 7]),
    correlation_id=texts,
    reply_to=texts,
    expiration=texts,
    message_id=st.one_of(texts, st.just("\udcff")),
    timestamp=st.sampled_from([None, 9]),
    cluster_id=texts,
)
damages = st.tuples(st.integers(0, 40), st.integers(0, 255))


@given(st.lists(st.tuples(any_properties, st.one_of(st.none(), damages), bodies), min_size=1))
def test_ids_are_cut_as_they_are_decoded(
    given_: list[tuple[BasicProperties, tuple[int, int] | None, bytes]],
) -> None:
    """Whatever stands before them, and beside properties that are damaged."""
    contents: list[bytes] = []
    for each, damage, body in given_:
        raw = bytearray(each.encode())
        if damage is not None and damage[0] < len(raw):
            raw[damage[0]] = damage[1]
        contents.append(content(bytes(raw), body, FRAME_MAX))
    run = ContentRun("", "q", False, 1, 1)
    found = GatheredChunk.of("q", [(run, one) for one in contents]).ids(Scratch())
    assert len(found) == len(contents)
    for (each, damage, _), one, name in zip(given_, contents, found, strict=True):
        if damage is None:
            assert name == each.message_id
        else:
            assert message_id(properties_of(one)) in (None, name)


def test_ids_that_come_again_are_found_out(tmp_path: Path) -> None:
    """Known ones, those of the batch, and those that stand in the chunk twice."""
    ledger = BatchIds(str(tmp_path), window=100, session="s")
    ledger.align(0, "")
    ledger.record(1, [BatchPart("q", 2, ["a", "b"]), BatchPart("other", 1, ["c"])])
    batch: set[str] = set()
    assert ledger.repeats("q", ["c", "d"], batch) == []
    assert ledger.repeats("q", ["b", "e", "d", "e", "f"], batch) == [0, 2, 3]
    assert batch == {"c", "d", "e", "f"}


def deliveries(wire: bytes, cuts: list[int]) -> Iterator[Deliveries]:
    """What a client's codec says of them."""
    connection = AmqpConnection(CLIENT)
    connection.frame_max = FRAME_MAX
    connection.receive_data(HEARTBEAT_FRAME)
    assert connection.next_event() is not None
    edges = sorted({0, *(cut % len(wire) for cut in cuts), len(wire)})
    for low, high in pairwise(edges):
        connection.receive_data(wire[low:high])
        while (event := connection.next_event()) is not None:
            assert isinstance(event, Deliveries)
            yield event


def sent(chunk: GatheredChunk) -> FetchedChunk:
    """The chunk as it comes over a socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("rb") as stream:
        sender = threading.Thread(target=send_all, args=(ours, [chunk.head(), *chunk.blocks()]))
        sender.start()
        got = ChunkReader(stream).read()
        sender.join()
    return got
