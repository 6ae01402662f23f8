"""Goal: with `transferTls` nobody between driver and executors reads a message, an id or a token,
and nobody takes a process's place. Method: sockets on loopback; a relay on the way keeps a copy of
what passes. Without TLS it has the bodies: so the tests can fail.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import BinaryType, StructField, StructType

from sluicemq.client.messages import BasicProperties
from sluicemq.errors import Refused
from sluicemq.spark import consumer_assignment
from sluicemq.spark.chunks import GatheredChunk
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.data_source import AmqpDataSource
from sluicemq.spark.option_conflicts import check_batch
from sluicemq.spark.options import Options
from sluicemq.spark.planner_link import PlannerLink
from sluicemq.spark.queue_stream import ChunkPartition, QueueStreamReader
from sluicemq.spark.raw_contents import ContentRun
from sluicemq.spark.stream_planner import ChunkToFetch, StreamPlanner
from sluicemq.spark.transfer import ChunkServer, Endpoint, fetch
from sluicemq.spark.transfer_tls import TlsSocket, asking_context, make_identity
from support.ports import free_port

from .amqp_messages import Broker
from .relay import Relay, relaying

SCHEMA = StructType([StructField("body", BinaryType())])
BODY = b"a body that nobody else shall read "
ID = "an-id-that-nobody-else-shall-read-"
WAIT_S = 240.0
MANY = 1000
SPARK_S = 500


def source(**given: object) -> Options:
    return Options.parse({"queue": "q"} | {k: str(v) for k, v in given.items()}, "source")


def content_of(body: bytes) -> bytes:
    """As a client cuts it from a connection: a header frame and a body frame."""
    header = b"\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00" + len(body).to_bytes(8, "big")
    return header + b"\x00\x00\xce\x03\x00\x01" + len(body).to_bytes(4, "big") + body + b"\xce"


@contextmanager
def serving(has_tls: bool, bodies: list[bytes]) -> Iterator[tuple[Endpoint, int]]:
    """A process that has one chunk, and its number."""
    server = ChunkServer("127.0.0.1", has_tls=has_tls)
    run = ContentRun("", "key", False, 1, 1)
    try:
        yield (
            server.endpoint,
            server.offer(GatheredChunk.of("q", [(run, content_of(b)) for b in bodies])),
        )
    finally:
        server.close()


def through(relay: Relay, endpoint: Endpoint) -> Endpoint:
    host, port = relay.address
    return endpoint._replace(host=host, port=port)


@pytest.mark.parametrize("has_tls", [True, False])
def test_who_listens_reads_bodies_and_token_only_without_tls(has_tls: bool) -> None:
    bodies = [BODY * size for size in (0, 1, 100, 10_000, 1)]
    with serving(has_tls, bodies) as (endpoint, number), relaying(endpoint[:2]) as relay:
        for got in fetch(through(relay, endpoint), [number, number]):
            assert [each for _, each in got.messages()] == [content_of(body) for body in bodies]
        assert len(relay.heard) > 2 * sum(map(len, bodies))
        assert (BODY in relay.heard) is not has_tls
        assert (endpoint.token.encode() in relay.heard) is not has_tls


def test_who_speaks_no_tls_gets_nothing() -> None:
    with serving(True, [BODY]) as (endpoint, number):
        with pytest.raises((EOFError, OSError, UnicodeDecodeError)):
            list(fetch(endpoint._replace(certificate=""), [number]))
        with socket.create_connection(endpoint[:2]) as peer:
            peer.settimeout(WAIT_S)
            peer.sendall(b'{"token": "%s", "chunks": [1]}\n' % endpoint.token.encode())
            answer = b""
            while part := peer.recv(65_536):
                answer += part
        assert BODY not in answer
        assert len(answer) <= 7, "an alert of TLS at most"
        assert len(list(fetch(endpoint, [number]))) == 1, "it goes on for others"


class Pretender:
    """Stands in a process's place, with TLS and a certificate of its own."""

    def __init__(self) -> None:
        self.told: bytes | None = None
        """What it was told by the one who came."""
        self.is_done = threading.Event()
        self._context = make_identity().context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        peer, _ = self._listener.accept()
        with peer:
            buffer = memoryview(bytearray(65_536))
            shaken = TlsSocket(peer, self._context, is_server=True)
            try:
                self.told = bytes(buffer[: shaken.recv_into(buffer)])
            except ConnectionError:
                self.told = b""
        self._listener.close()
        self.is_done.set()


def read(planner: Endpoint, piece: ChunkToFetch, **options: object) -> None:
    """A task's read of one chunk."""
    reader = QueueStreamReader(source(transferTls="true", **options), SCHEMA)
    list(reader.read(ChunkPartition(planner, [piece], None)))


@pytest.mark.parametrize("is_planners", [True, False])
def test_another_certificate_is_refused_before_it_is_told_anything(is_planners: bool) -> None:
    """Also when it is in the place of a process that the planner knows to live."""
    pretender = Pretender()
    with serving(True, [BODY]) as (endpoint, number):
        false = endpoint._replace(port=pretender.port)
        piece = ChunkToFetch(false, number, [], is_planners)
        words = f"transferTls = true: 127.0.0.1:{pretender.port} has another certificate"
        planner = ChunkServer("127.0.0.1", has_tls=True)
        planner.answer = lambda _asked, peer: peer.sendall(b"false\n")
        with pytest.raises(AmqpError, match=words):
            read(planner.endpoint, piece)
        planner.close()
        assert pretender.is_done.wait(WAIT_S)
        assert pretender.told == b""


def test_a_server_without_tls_in_its_place_is_refused() -> None:
    with serving(False, [BODY]) as (endpoint, number):
        false = endpoint._replace(certificate="00" * 32)
        with pytest.raises(AmqpError, match=r"transferTls = true: .* does not begin TLS"):
            read(false, ChunkToFetch(false, number, [], True))


def test_both_sides_talk_at_once() -> None:
    """More than sockets hold, so that each must read while it writes; nothing is mixed up."""
    ours, theirs = socket.socketpair()
    identity = make_identity()
    made: list[PlannerLink] = []

    def accept() -> None:
        made.append(PlannerLink(TlsSocket(theirs, identity.context, is_server=True)))

    accepting = threading.Thread(target=accept)
    accepting.start()
    links = [PlannerLink(TlsSocket(ours, asking_context(), is_server=False))]
    accepting.join()
    links += made
    lines = [{"n": n, "ids": [f"{n}"] * 20_000} for n in range(40)]
    heard: dict[int, list[object]] = {0: [], 1: []}

    def talk(link: PlannerLink) -> None:
        for line in lines:
            link.send(line)

    def listen(which: int) -> None:
        while len(heard[which]) < len(lines) and (words := links[which].receive()) is not None:
            heard[which].append(words)

    threads = [threading.Thread(target=talk, args=(link,), daemon=True) for link in links]
    threads += [threading.Thread(target=listen, args=(which,), daemon=True) for which in heard]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert heard == {0: lines, 1: lines}
    links[0].close()
    assert links[1].receive() is None
    links[1].close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queueType": "stream"}, "transferTls = true: is for queues; .* amqps:// in uris"),
        ({"transferTls": "maybe"}, "transferTls = 'maybe': must be true or false"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(Refused, match=words):
        source(**({"transferTls": "true"} | options))


def test_batch_reads_have_no_transfer() -> None:
    with pytest.raises(Refused, match=r"transferTls = true: is for streaming.*; .* amqps://"):
        check_batch(source(transferTls="true"))


def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(Refused, match="transferTls = true: needs the package cryptography"):
        StreamPlanner(source(transferTls="true"))
    StreamPlanner(source()).close()


@pytest.mark.parametrize("has_tls", [True, False])
def test_the_words_between_planner_and_executors_are_secret_too(
    amqp: Broker, name: str, tmp_path: Path, has_tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `exactlyOnce` the ids go over that connection."""
    monkeypatch.setattr(consumer_assignment, "STARTS_MAX", MANY)  # on a slow machine it takes long
    amqp.declare(name)
    ids = [BasicProperties(delivery_mode=2, message_id=f"{ID}{n}") for n in range(100)]
    amqp.publish(name, [BODY] * 100, ids)
    given = {"uri": amqp.url, "queue": name, "gather": "executors", "gatherers": 1}
    given |= {"exactlyOnce": "true", "ledger": tmp_path, "transferTls": str(has_tls)}
    reader = QueueStreamReader(source(**given), SCHEMA)
    start = reader.initialOffset()
    deadline = time.monotonic() + WAIT_S
    rows = 0
    try:
        end = reader.latestOffset(start, ReadMaxRows(1000))
        (partition,) = reader.partitions(start, end)
        assert isinstance(partition, ChunkPartition)
        assert partition.call is not None
        with relaying(partition.planner[:2]) as relay:
            planner = through(relay, partition.planner)
            partition.planner = planner
            partition.call = replace(partition.call, planner=planner)
            assert list(reader.read(partition)) == []
            while rows < 100:
                assert time.monotonic() < deadline
                start, end = end, reader.latestOffset(end, ReadMaxRows(1000))
                for each in reader.partitions(start, end):
                    assert isinstance(each, ChunkPartition)
                    each.call = None  # it is there
                    assert all(piece.endpoint.certificate != "" for piece in each.pieces) is has_tls
                    rows += sum(batch.num_rows for batch in reader.read(each))
            reader.commit(end)
            assert (ID.encode() in relay.heard) is not has_tls
            assert (planner.token.encode() in relay.heard) is not has_tls
    finally:
        reader.stop()
    assert amqp.ready(name, 0) == 0


@pytest.mark.spark
@pytest.mark.parametrize("has_tls", [True, False])
def test_spark_reads_a_queue_and_who_listens_does_not(
    spark: SparkSession, amqp: Broker, name: str, tmp_path: Path, has_tls: bool
) -> None:
    """Tasks know the driver by another address than it listens at: there the relay is."""
    amqp.declare(name)
    amqp.publish(name, [BODY + b"%d" % number for number in range(3000)])
    spark.dataSource.register(AmqpDataSource)
    port = free_port("127.0.0.1", "127.0.0.2")
    options = {
        "uri": amqp.url,
        "queue": name,
        "transferTls": str(has_tls),
        "transferHost": "127.0.0.2",
        "transferBind": "127.0.0.1",
        "transferPort": str(port),
    }
    with relaying(("127.0.0.1", port), ("127.0.0.2", port)) as relay:
        rows = spark.readStream.format("amqp").options(**options).load().select("body")
        writer = rows.writeStream.format("parquet").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert query.start(str(tmp_path / "rows")).awaitTermination(SPARK_S)
        assert len(relay.heard) > 3000 * len(BODY)
        assert (BODY in relay.heard) is not has_tls
    got = [bytes(row.body) for row in spark.read.parquet(str(tmp_path / "rows")).collect()]
    assert sorted(got) == sorted(BODY + b"%d" % number for number in range(3000))
    assert amqp.ready(name, 0) == 0
