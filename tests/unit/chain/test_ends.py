"""Readers, channels and queues are freed at their end, at once, without Python's search for
circles: that goes through all there is, and everybody waits meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from weakref import ref

import pytest

from sluicemq.amqp import methods as m

from .client import PERSISTENT, Broker, Client

CLOSE = m.ChannelClose(reply_code=200, reply_text="", failed_class_id=0, failed_method_id=0)
QUIT = m.ConnectionClose(reply_code=200, reply_text="", failed_class_id=0, failed_method_id=0)


@pytest.fixture(autouse=True)
def without_search() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Bench:
    """A node, a client that stays, and one that goes; both have channel 1."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.stays = self.broker.connect()
        self.stays.open(1)
        self.goes = self.broker.connect()
        self.goes.open(1)
        self.watched: dict[str, ref[object]] = {}

    def watch_channel(self, client: Client, number: int = 1) -> None:
        channel = client.reader.channels[number]
        parts = (channel, channel.publishing, channel.consuming, channel.inflow)
        self.watched |= {f"{type(part).__name__} {number}": ref(part) for part in parts[:3]}

    def watch_connection(self) -> None:
        reader = self.goes.reader
        self.watched |= {"reader": ref(reader), "writer": ref(reader.writer)}
        self.watched["intake"] = ref(reader.intake)
        for number in reader.channels:
            self.watch_channel(self.goes, number)

    def watch_queue(self, name: str) -> None:
        queue = self.broker.node.broker.vhosts["/"].queues[name]
        self.watched |= {"queue": ref(queue), "machine": ref(queue.machine)}

    def left(self) -> list[str]:
        """What is still there when all have done what they had to, and timers have gone off."""
        self.broker.wait()
        clock = self.broker.world.clock
        timers, clock.timers = clock.timers, []
        for _, actor, message in timers:
            actor.post(message)
        del timers
        self.broker.run()
        del self.goes
        return [name for name, watched in self.watched.items() if watched() is not None]


def busy(client: Client, queue: str = "a", channel: int = 1) -> None:
    """Publishes with confirms, consumes some of it, and acknowledges one."""
    client.send(
        channel,
        m.QueueDeclare(queue=queue),
        m.QueueBind(queue=queue, exchange="amq.topic", routing_key="a.*"),
        m.BasicQos(prefetch_count=3),
        m.BasicConsume(queue=queue, consumer_tag="c"),
        m.ConfirmSelect(),
    )
    client.publish(channel, queue, *[b"x"] * 10)
    client.send(channel, m.BasicAck(delivery_tag=1), m.BasicGet(queue=queue))


def in_transaction(client: Client) -> None:
    client.send(1, m.QueueDeclare(queue="t"), m.TxSelect())
    client.publish(1, "t", b"x", b"y")
    client.send(1, m.TxCommit())
    client.publish(1, "t", b"x")


@pytest.mark.parametrize("use", [busy, in_transaction, lambda _: None], ids=["busy", "tx", "idle"])
@pytest.mark.parametrize(
    "end",
    [
        Client.lose,
        lambda client: (client.send(0, QUIT), client.lose()),
        lambda client: (client.send(1, m.BasicAck(delivery_tag=99), QUIT), client.lose()),
    ],
    ids=["lost", "closed", "after an error"],
)
def test_a_connection_goes_at_once(
    use: Callable[[Client], None], end: Callable[[Client], None]
) -> None:
    bench = Bench()
    use(bench.goes)
    bench.watch_connection()
    end(bench.goes)
    assert bench.left() == []


@pytest.mark.parametrize(
    "wrong",
    [CLOSE, m.BasicAck(delivery_tag=99), m.QueueDeclare(queue="missing", passive=True)],
    ids=["closed", "wrong tag", "missing queue"],
)
def test_a_channel_goes_at_once(wrong: m.Method) -> None:
    bench = Bench()
    busy(bench.stays)
    bench.watch_channel(bench.stays)
    bench.stays.send(1, wrong)
    if wrong is not CLOSE:
        bench.stays.send(1, m.ChannelCloseOk())
    bench.stays.send(2, m.ChannelOpen())
    busy(bench.stays, channel=2)  # its writer has written deliveries behind the channel's end
    assert bench.left() == []


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"exclusive": True},
        {"durable": True},
        {"arguments": {"x-max-priority": 5}},
        {"arguments": {"x-max-length": 5, "x-dead-letter-exchange": "amq.fanout"}},
    ],
    ids=["plain", "exclusive", "durable", "priorities", "length"],
)
def test_a_queue_goes_at_once(more: dict[str, object]) -> None:
    bench = Bench()
    bench.goes.call(1, m.QueueDeclare(queue="q", **more))  # type: ignore[arg-type]
    bench.goes.send(1, m.QueueBind(queue="q", exchange="amq.topic", routing_key="a.*"))
    bench.goes.publish(1, "q", *[b"x"] * 10, raw=PERSISTENT)
    bench.broker.wait()
    bench.watch_queue("q")
    bench.goes.send(1, m.QueueDelete(queue="q"))
    bench.goes.lose()
    assert bench.left() == []


def test_what_comes_after_a_channels_end_is_passed_over() -> None:
    """Confirms of what it has published, and word that deliveries were written."""
    bench = Bench()
    bench.stays.call(1, m.QueueDeclare(queue="d", durable=True))
    bench.goes.send(1, m.ConfirmSelect(), m.BasicConsume(queue="d", consumer_tag="c"))
    bench.goes.publish(1, "d", *[b"x"] * 500, raw=PERSISTENT)
    bench.watch_channel(bench.goes)
    bench.goes.send(1, CLOSE)
    bench.broker.wait()
    assert bench.broker.node.broker.counters.faults == 0
    assert bench.left() == []
