"""What survives a restart, seen by pika: definitions, messages, their order and what is said of
them. A broker of our own as a process, ended by SIGTERM or SIGKILL, begins again on its directory.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import AMQPError, ChannelClosedByBroker
from pika_client import (
    closed_with,
    consume,
    depth,
    fetch,
    fetch_all,
    numbered,
    parameters,
    settle,
)

from support import broker
from support.thorough import thorough
from support.waiting import await_truth

PERSISTENT = pika.BasicProperties(delivery_mode=2)
TRANSIENT = pika.BasicProperties(delivery_mode=1)
SMALL = 3500
"""Bytes: embedded in the queue index."""
LARGE = 20_000
"""Bytes: too large for that."""

ARGUMENTS = {
    "text": "ä \N{SNOWMAN}",
    "yes": True,
    "no": False,
    "small": -1,
    "large": 2**40,
    "nothing": None,
    "decimal": Decimal("3.25"),
    "time": datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC),
    "bytes": b"\x00\xff\xfe",
    "list": [1, "two", [-3, {"four": 4}]],
    "table": {"a": {"b": {}}, "c": []},
}


class Life:
    """A broker that is started again and again on one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.errors = directory / "stderr.txt"
        self.settings: list[str] = []
        self.process: broker.Process | None = None
        self.opened: list[BlockingConnection] = []
        self.target: broker.Target

    def start(self) -> BlockingChannel:
        """Begin (again); returns a channel that has confirms."""
        self.process = broker.start(self.directory, *self.settings, errors=self.errors)
        self.target = broker.await_ready(self.process, self.errors)
        return self.channel()

    def channel(self) -> BlockingChannel:
        """On a connection of its own."""
        self.opened.append(pika.BlockingConnection(parameters(self.target)))
        channel = self.opened[-1].channel()
        channel.confirm_delivery()
        return channel

    def end(self, number: int) -> None:
        """By SIGTERM, in order; by SIGKILL, at once. Its clients are gone then."""
        process = self.process
        if process is None:
            return
        self.process = None
        process.send_signal(number)
        if number == signal.SIGTERM:
            for connection in self.opened:
                hear_the_end(connection)
            assert broker.stop(process) == 0, self.said()
        else:
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        self.opened.clear()

    def said(self) -> str:
        return self.errors.read_text(errors="replace")

    def again(self, number: int) -> BlockingChannel:
        """End, and start."""
        self.end(number)
        return self.start()


def hear_the_end(connection: BlockingConnection) -> None:
    """Answer the broker's connection.close, as every client would."""
    with suppress(AMQPError):
        while connection.is_open:
            connection.process_data_events(time_limit=1)


@pytest.fixture
def life(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Life]:
    """What it logs of level error is a failure."""
    if request.config.getoption("--broker-url"):
        pytest.skip("needs a broker of our own")
    one = Life(tmp_path)
    try:
        yield one
    finally:
        one.end(signal.SIGTERM)
    lines = one.said().splitlines()
    assert [each for each in lines if "[error] recovery" in each or "Traceback" in each] == []


either_end = pytest.mark.parametrize(
    "end", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"]
)


def publish(
    channel: BlockingChannel, queue: str, *bodies: bytes, properties: Any = PERSISTENT
) -> None:
    """Returns when all of it is confirmed."""
    for body in bodies:
        channel.basic_publish("", queue, body, properties)


def until_durable(channel: BlockingChannel) -> None:
    """Acknowledgements are durable a little later than they come, and not later than a message that
    is confirmed behind them."""
    channel.queue_declare("fence", durable=True)
    publish(channel, "fence", b"")
    settle(channel.connection)


def arrives(channel: BlockingChannel, exchange: str, key: str, queue: str) -> bool:
    """Is a message to `exchange` routed to `queue`? It is taken away again."""
    channel.basic_publish(exchange, key, b"?")
    return fetch_all(channel, queue) == [b"?"]


@either_end
def test_durable_exchanges_of_each_type_survive_with_their_bindings(life: Life, end: int) -> None:
    kinds = "direct", "fanout", "topic"
    options = {"durable": True, "arguments": {"alternate-exchange": "other", "more": [1]}}
    channel = life.start()
    channel.exchange_declare("other", "fanout", durable=True)
    channel.queue_declare("rest", durable=True)
    channel.queue_bind("rest", "other")
    for kind in kinds:
        channel.exchange_declare(f"x-{kind}", kind, **options)
        channel.queue_declare(f"q-{kind}", durable=True)
        channel.queue_bind(f"q-{kind}", f"x-{kind}", "a.b")
    channel = life.again(end)
    for kind in kinds:
        channel.exchange_declare(f"x-{kind}", kind, passive=True)
        channel.exchange_declare(f"x-{kind}", kind, **options)
        assert arrives(channel, f"x-{kind}", "a.b", f"q-{kind}")
        if kind != "fanout":
            channel.basic_publish(f"x-{kind}", "?", b"unroutable")
            assert fetch_all(channel, "rest") == [b"unroutable"]
        other = life.channel()
        assert closed_with(partial(other.exchange_declare, f"x-{kind}", kind))[0] == 406


@either_end
def test_exchanges_bound_to_exchanges_and_internal_ones_survive(life: Life, end: int) -> None:
    channel = life.start()
    channel.exchange_declare("first", "topic", durable=True)
    channel.exchange_declare("second", "direct", durable=True, internal=True)
    channel.exchange_bind("second", "first", "a.#")
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "second", "a.b.c")
    channel = life.again(end)
    assert arrives(channel, "first", "a.b.c", "q")
    assert closed_with(lambda: channel.basic_publish("second", "a.b.c", b"")) == (
        403,
        "ACCESS_REFUSED - cannot publish to internal exchange 'second' in vhost '/'",
    )


@either_end
def test_arguments_keep_their_types(life: Life, end: int) -> None:
    """What was declared may be declared again, and nothing else; a binding is found again by its
    arguments."""
    channel = life.start()
    arguments = {"x-max-length": 1000, "x-queue-mode": "default", **ARGUMENTS}
    channel.queue_declare("q", durable=True, arguments=arguments)
    channel.exchange_declare("x", "direct", durable=True, arguments=ARGUMENTS)
    bound = [ARGUMENTS, *({key: value} for key, value in ARGUMENTS.items())]
    for one in bound:
        channel.queue_bind("q", "x", "k", one)
    channel = life.again(end)
    channel.queue_declare("q", durable=True, arguments=arguments)
    channel.exchange_declare("x", "direct", durable=True, arguments=ARGUMENTS)
    for one in bound:
        assert arrives(channel, "x", "k", "q")
        channel.queue_unbind("q", "x", "k", one)
    assert not arrives(channel, "x", "k", "q")
    other = {**arguments, "x-max-length": 1001}
    assert closed_with(lambda: channel.queue_declare("q", durable=True, arguments=other))[0] == 406


@either_end
def test_what_is_not_durable_is_gone(life: Life, end: int) -> None:
    """An auto-delete queue that nobody has consumed from yet stays, as in RabbitMQ."""
    channel = life.start()
    channel.queue_declare("keeps", durable=True)
    channel.queue_declare("transient")
    channel.queue_declare("exclusive", durable=True, exclusive=True)
    channel.queue_declare("unused", durable=True, auto_delete=True)
    channel.exchange_declare("transient", "fanout")
    channel.exchange_declare("durable", "fanout", durable=True)
    channel.queue_bind("transient", "durable")
    channel.queue_bind("keeps", "transient")
    channel = life.again(end)
    for queue in ("transient", "exclusive"):
        with pytest.raises(ChannelClosedByBroker):
            life.channel().queue_declare(queue, passive=True)
    probe = life.channel()
    assert closed_with(lambda: probe.exchange_declare("transient", passive=True))[0] == 404
    channel.queue_declare("unused", passive=True)
    channel.queue_declare("transient")
    channel.basic_publish("durable", "", b"its binding went with the queue")
    assert fetch_all(channel, "transient") == []


def test_auto_delete_queue_that_had_a_consumer_goes_with_a_stop(life: Life) -> None:
    channel = life.start()
    channel.queue_declare("q", durable=True, auto_delete=True)
    publish(channel, "q", b"x")
    consume(channel, "q").wait(1)
    channel = life.again(signal.SIGTERM)
    assert closed_with(lambda: channel.queue_declare("q", passive=True))[0] == 404


@either_end
def test_what_was_deleted_stays_deleted(life: Life, end: int) -> None:
    """In the order of its confirmation; what was declared anew under the same name is new."""
    channel = life.start()
    for name in ("gone", "anew", "purged", "unbound"):
        channel.queue_declare(name, durable=True)
        channel.exchange_declare(name, "fanout", durable=True)
        channel.queue_bind(name, name)
        publish(channel, name, *numbered(10), b"x" * LARGE)
    channel.queue_delete("gone")
    channel.exchange_delete("gone")
    channel.queue_delete("anew")
    channel.queue_declare("anew", durable=True)
    channel.queue_bind("anew", "anew")
    publish(channel, "anew", b"new")
    assert channel.queue_purge("purged").method.message_count == 11
    publish(channel, "purged", b"after")
    channel.queue_unbind("unbound", "unbound")
    until_durable(channel)  # a purge is that a little later
    channel = life.again(end)
    with pytest.raises(ChannelClosedByBroker):
        life.channel().queue_declare("gone", passive=True)
    with pytest.raises(ChannelClosedByBroker):
        life.channel().exchange_declare("gone", passive=True)
    assert fetch_all(channel, "anew") == [b"new"]
    assert arrives(channel, "anew", "", "anew"), "the binding is of the new queue"
    assert fetch_all(channel, "purged") == [b"after"]
    assert depth(channel, "unbound") == 11
    channel.basic_publish("unbound", "", b"?")
    assert depth(channel, "unbound") == 11


@either_end
def test_persistent_messages_survive_with_their_properties_in_order(life: Life, end: int) -> None:
    """Small ones and large ones mixed; transient ones between them do not survive."""
    channel = life.start()
    channel.queue_declare("q", durable=True)
    bodies = [b"%d" % n + b"x" * (LARGE if n % 3 == 0 else n) for n in range(60)]
    properties = pika.BasicProperties(
        delivery_mode=2,
        content_type="text/plain",
        content_encoding="none",
        headers=ARGUMENTS,
        priority=3,
        correlation_id="c",
        reply_to="r",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
    )
    for body in bodies:
        publish(channel, "q", body, properties=properties)
        publish(channel, "q", b"transient", properties=TRANSIENT)
    channel = life.again(end)
    assert depth(channel, "q") == 60
    for body in bodies:
        method, got, content = channel.basic_get("q", auto_ack=True)
        assert content == body
        assert got == properties
        assert method.redelivered is (end == signal.SIGKILL), "who knows, after a kill"
    assert fetch(channel, "q") is None


@either_end
def test_a_message_in_several_queues_survives_in_each(life: Life, end: int) -> None:
    channel = life.start()
    for name in ("a", "b", "c"):
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, "amq.fanout")
    bodies = [b"%d" % n + b"x" * LARGE for n in range(10)]
    for body in bodies:
        channel.basic_publish("amq.fanout", "", body, PERSISTENT)
    assert fetch_all(channel, "a") == bodies
    channel = life.again(end)
    if end == signal.SIGTERM:
        assert fetch_all(channel, "a") == []
    assert fetch_all(channel, "b") == bodies
    channel = life.again(end)
    assert fetch_all(channel, "c") == bodies


@either_end
def test_unacknowledged_messages_come_back_redelivered(life: Life, end: int) -> None:
    channel = life.start()
    channel.queue_declare("q", durable=True)
    bodies = [b"%d" % n + b"x" * (LARGE * (n % 2)) for n in range(20)]
    publish(channel, "q", *bodies)
    channel.basic_qos(prefetch_count=10)
    inbox = consume(channel, "q")
    inbox.wait(10)
    for delivery in inbox.deliveries[:5]:
        channel.basic_ack(delivery.tag)
    inbox.wait(15)
    channel.basic_cancel(inbox.tag)
    until_durable(channel)
    channel = life.again(end)
    got = consume(channel, "q").exactly(15)
    assert [delivery.body for delivery in got] == bodies[5:]
    was_delivered = [True] * 10 + [end == signal.SIGKILL] * 5
    assert [delivery.redelivered for delivery in got] == was_delivered


def test_a_clean_stop_forgets_nothing_over_many_restarts(life: Life) -> None:
    """Each time something is published and something acknowledged."""
    channel = life.start()
    channel.queue_declare("q", durable=True)
    expected: list[bytes] = []
    for turn in range(thorough(4, 10)):
        bodies = [b"%d.%d" % (turn, n) + b"x" * (LARGE * (n % 2)) for n in range(30)]
        publish(channel, "q", *bodies)
        expected += bodies
        for _ in range(20):
            got = fetch(channel, "q", auto_ack=True)
            assert got == (expected.pop(0), False)
        channel = life.again(signal.SIGTERM)
        assert depth(channel, "q") == len(expected)
    assert fetch_all(channel, "q") == expected


PAGING = [
    "vm_memory_high_watermark.absolute=200MiB",
    "vm_memory_high_watermark_paging_ratio=0.01",
    "memory_monitor_interval=50",
]
PAGED_BYTES = 20_000_000
"""Ten times as many as may stay: with three times as many, a queue may keep them all for long."""


@either_end
def test_priorities_survive_again_and_again(life: Life, end: int) -> None:
    """Of each priority, in order; what was published later too. Nearly all is paged out, journal
    files and segments are tiny."""
    life.settings = [*PAGING, "storage.journal_file_size_limit=65536"]
    life.settings += ["storage.queue_index_segment_entry_count=64"]
    dice = random.Random(end)
    options = {"durable": True, "arguments": {"x-max-priority": 3}}
    channel = life.start()
    channel.queue_declare("q", **options)
    expected: list[tuple[int, bytes]] = []
    for turn in range(3):
        for number in range(80):
            body = b"%d.%03d" % (turn, number) + b"x" * (LARGE if number % 7 == 0 else 500)
            priority = dice.randrange(5)
            properties = pika.BasicProperties(delivery_mode=2, priority=priority)
            publish(channel, "q", body, properties=properties)
            expected.append((-min(priority, 3), body))
        expected.sort()
        for _ in range(50):
            got = fetch(channel, "q", auto_ack=True)
            assert got is not None
            assert got[0] == expected.pop(0)[1]
        consume(life.channel(), "q").wait(20)  # they come back
        until_durable(channel)
        channel = life.again(end)
        channel.queue_declare("q", **options)
        assert depth(channel, "q") == len(expected)
    assert fetch_all(channel, "q") == [body for _, body in expected]


def test_killed_again_and_again(life: Life) -> None:
    """With tiny journal files: rotation, checkpoints and message files come into it. What was
    confirmed is there; what was acknowledged long enough ago is not."""
    life.settings = [
        "storage.journal_file_size_limit=65536",
        "storage.msg_store_file_size_limit=65536",
        "storage.queue_index_segment_entry_count=64",
    ]
    channel = life.start()
    channel.queue_declare("q", durable=True)
    expected: list[bytes] = []
    for turn in range(thorough(4, 6)):
        bodies = [b"%d.%d" % (turn, n) + b"x" * (LARGE if n % 7 == 0 else 500) for n in range(200)]
        publish(channel, "q", *bodies)
        expected += bodies
        for _ in range(150):
            got = fetch(channel, "q", auto_ack=True)
            assert got is not None
            assert got[0] == expected.pop(0)
        until_durable(channel)
        channel = life.again(signal.SIGKILL)
        assert depth(channel, "q") == len(expected)
    assert fetch_all(channel, "q") == expected


def paged_out(life: Life, channel: BlockingChannel, count: int, size: int) -> list[bytes]:
    """Persistent bodies in `q`, most of which are on disk only."""
    channel.queue_declare("q", durable=True)
    bodies = [b"%d " % n + b"x" * size for n in range(count)]
    fast = life.opened[-1].channel()  # without confirms
    publish(fast, "q", *bodies)
    publish(channel, "q", b"last")
    paged = "queues/*/*.idx" if size < LARGE else "messages/persistent/*.rdq"
    await_truth(lambda: [*life.directory.glob(paged)])
    return [*bodies, b"last"]


@pytest.mark.parametrize("size", [SMALL, LARGE])
@either_end
def test_paged_out_messages_are_drained_in_order_after_a_restart(
    life: Life, size: int, end: int
) -> None:
    life.settings = PAGING
    channel = life.start()
    bodies = paged_out(life, channel, PAGED_BYTES // size, size)
    channel = life.again(end)
    assert depth(channel, "q") == len(bodies)
    inbox = consume(channel, "q", acks=True)
    inbox.wait(len(bodies))
    assert inbox.bodies == bodies
    until_durable(channel)
    channel = life.again(end)
    assert depth(channel, "q") == 0


@pytest.mark.parametrize("size", thorough([LARGE], [SMALL, LARGE]))
def test_paged_out_messages_can_be_fetched_one_by_one(life: Life, size: int) -> None:
    life.settings = PAGING
    channel = life.start()
    bodies = paged_out(life, channel, PAGED_BYTES // size, size)
    assert fetch_all(channel, "q") == bodies


@either_end
def test_lazy_queues(life: Life, end: int) -> None:
    channel = life.start()
    options = {"durable": True, "arguments": {"x-queue-mode": "lazy"}}
    channel.queue_declare("q", **options)
    bodies = [b"%d" % n + b"x" * (LARGE * (n % 2)) for n in range(200)]
    publish(channel, "q", *bodies)
    assert fetch(channel, "q", auto_ack=True) == (bodies[0], False)
    inbox = consume(channel, "q")
    inbox.wait(199)
    assert inbox.bodies == bodies[1:]
    channel = life.again(end)
    channel.queue_declare("q", **options)
    count = 199 if end == signal.SIGTERM else depth(channel, "q")
    assert 199 <= count <= 200, "the first acknowledgement may not have been durable yet"
    assert fetch_all(channel, "q") == bodies[200 - count :]


@either_end
def test_transient_messages_of_a_lazy_queue_are_gone(life: Life, end: int) -> None:
    channel = life.start()
    channel.queue_declare("q", durable=True, arguments={"x-queue-mode": "lazy"})
    channel.queue_declare("r", arguments={"x-queue-mode": "lazy"})
    for body in (b"small", b"x" * LARGE):
        publish(channel, "q", body, properties=TRANSIENT)
        publish(channel, "r", body)
    assert fetch(channel, "q") == (b"small", False)
    assert fetch(channel, "r") == (b"small", False)
    channel = life.again(end)
    assert depth(channel, "q") == 0
    assert closed_with(lambda: channel.queue_declare("r", passive=True))[0] == 404


@either_end
def test_message_store_index_in_lmdb(life: Life, end: int) -> None:
    life.settings = ["message_store.index=lmdb", *PAGING]
    channel = life.start()
    bodies = paged_out(life, channel, 500, LARGE)
    assert fetch(channel, "q", auto_ack=True) == (bodies[0], False)
    assert (life.directory / "messages" / "index.lmdb" / "persistent" / "data.mdb").exists()
    until_durable(channel)
    channel = life.again(end)
    assert fetch_all(channel, "q") == bodies[1:]


@either_end
def test_confirms_without_waiting_are_kept_too(life: Life, end: int) -> None:
    """Many in flight; those that were confirmed are there."""
    channel = life.start()
    channel.queue_declare("q", durable=True)
    confirmed: list[int] = []
    ready: list[Callable[[], None]] = []

    def opened(_: Any) -> None:
        connection.channel(on_open_callback=selected)

    def selected(one: Any) -> None:
        one.confirm_delivery(
            lambda frame: confirmed.append(frame.method.delivery_tag),
            callback=lambda _: ready.append(lambda: send(one)),
        )

    def send(one: Any) -> None:
        for body in numbered(3000):
            one.basic_publish("", "q", body, PERSISTENT)

    connection = pika.SelectConnection(parameters(life.target), on_open_callback=opened)
    loop = connection.ioloop

    def look() -> None:
        if ready:
            ready.pop()()
        if confirmed:
            loop.stop()
        else:
            loop.call_later(0.001, look)

    loop.call_later(0, look)
    loop.start()
    highest = max(confirmed)
    channel = life.again(end)
    got = fetch_all(channel, "q")
    assert len(got) >= highest
    assert got == numbered(len(got))


@either_end
def test_what_was_committed_is_there_and_nothing_else(life: Life, end: int) -> None:
    """A transaction that never came to its end leaves no trace; its acknowledgements neither."""
    first = life.start()
    first.queue_declare("q", durable=True)
    publish(first, "q", b"old")
    channel = life.opened[-1].channel()
    channel.tx_select()
    bodies = [bytes([65 + n]) * size for n, size in enumerate([3, LARGE, 0, 4096] * 20)]
    for body in bodies:
        channel.basic_publish("", "q", body, PERSISTENT)
    channel.tx_commit()
    for body in bodies:
        channel.basic_publish("", "q", body + b"?", PERSISTENT)
    got, _, _ = channel.basic_get("q")
    channel.basic_ack(got.delivery_tag)
    settle(life.opened[-1])
    again = life.again(end)
    assert fetch_all(again, "q") == [b"old", *bodies]
