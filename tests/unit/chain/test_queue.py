"""Goal: a queue actor makes real what its machine wants, and leaves nothing behind when it goes.
Method: a whole node without sockets; clients that consume, settle and go in every order.
"""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Deliveries, Event, MethodFrame
from sluicemq.amqp.frames import content_body, content_frames
from sluicemq.chain.channel.channel import Channel
from sluicemq.chain.channel.unacked import DEAD_MAX
from sluicemq.chain.connection.reader import Reader
from sluicemq.chain.queue.queue import Queue, SetTarget
from sluicemq.chain.store.messages import TryAgain
from sluicemq.config import Config
from sluicemq.flow.alarm import DISK
from sluicemq.limits import TIGHT_RATIO
from sluicemq.queues.classic import paging_jobs
from sluicemq.storage.recovery import BALLAST

from .client import PERSISTENT, Broker, Client


def client_with(broker: Broker, *channels: int) -> Client:
    client = broker.connect()
    client.open(*channels)
    return client


def bodies(events: list[Event]) -> list[bytes]:
    return [content_body(c) for e in events if isinstance(e, Deliveries) for c in e.contents]


def consume(client: Client, channel: int, queue: str, tag: str, **more: bool) -> list[bytes]:
    """What is delivered at once."""
    client.send(channel, m.BasicConsume(queue=queue, consumer_tag=tag, **more))
    events = client.events()
    assert isinstance(events[0], MethodFrame)
    assert events[0].method == m.BasicConsumeOk(consumer_tag=tag)
    return bodies(events)


def test_memory_is_accounted_and_given_back() -> None:
    """Published to two queues; acked in one, in the other purged, deleted."""
    broker = Broker()
    client = client_with(broker, 1)
    accounted = []
    for name in ("p", "q"):
        client.call(1, m.QueueDeclare(queue=name))
        client.call(1, m.QueueBind(queue=name, exchange="amq.fanout", routing_key=""))
    head = m.BasicPublish(exchange="amq.fanout", routing_key="").frame(1)
    client.send_bytes((head + content_frames(1, PERSISTENT, b"x" * 1000, 131072)) * 10)
    accounted.append(broker.node.broker.accounted_bytes)
    assert consume(client, 1, "p", "c") == [b"x" * 1000] * 10
    accounted.append(broker.node.broker.accounted_bytes)
    client.send(1, m.BasicAck(delivery_tag=0, multiple=True))
    accounted.append(broker.node.broker.accounted_bytes)
    client.call(1, m.QueuePurge(queue="q"))
    accounted.append(broker.node.broker.accounted_bytes)
    assert accounted[0] == accounted[1] == 2 * accounted[2] > 10000
    assert accounted[3] == 0
    client.publish(1, "q", b"1", b"2")
    client.call(1, m.QueueDelete(queue="q"))
    assert broker.node.broker.accounted_bytes == 0


def test_room_under_global_prefetch_goes_to_each_queue_in_turn() -> None:
    """All acknowledgements are for "p"; "q" gets its share."""
    broker = Broker()
    client = client_with(broker, 1)
    for name in ("p", "q"):
        client.call(1, m.QueueDeclare(queue=name))
        client.publish(1, name, *[b"%s%d" % (name.encode(), n) for n in range(20)])
    client.call(1, m.BasicQos(prefetch_count=4, global_=True))
    assert len(consume(client, 1, "p", "p")) == 4
    assert consume(client, 1, "q", "q") == []
    got: list[bytes] = []
    for tag in range(1, 5):
        client.send(1, m.BasicAck(delivery_tag=tag))
        got += bodies(client.events())
    assert [body[:1] for body in got] == [b"p", b"q", b"p", b"q"]


def test_queue_that_waits_for_room_and_is_deleted_holds_up_nobody() -> None:
    broker = Broker()
    client = client_with(broker, 1)
    for name in ("p", "q", "r"):
        client.call(1, m.QueueDeclare(queue=name))
        client.publish(1, name, *[name.encode()] * 3)
    client.call(1, m.BasicQos(prefetch_count=1, global_=True))
    assert consume(client, 1, "p", "p") == [b"p"]
    assert consume(client, 1, "q", "q") == []
    assert consume(client, 1, "r", "r") == []
    other = client_with(broker, 1)
    other.call(1, m.QueueDelete(queue="q"))
    assert [event.method.NAME for event in client.events()] == ["basic.cancel"]  # type: ignore[attr-defined]
    got = []
    for tag in range(1, 5):
        client.send(1, m.BasicAck(delivery_tag=tag))
        got += bodies(client.events())
    assert sorted(got) == [b"p", b"p", b"r", b"r"]


def test_messages_of_a_lost_client_go_to_the_next_in_order_and_redelivered() -> None:
    broker = Broker()
    first = client_with(broker, 1)
    first.call(1, m.QueueDeclare(queue="q"))
    first.publish(1, "q", *[b"%d" % n for n in range(6)])
    assert len(consume(first, 1, "q", "c")) == 6
    first.send(1, m.BasicAck(delivery_tag=2), m.BasicAck(delivery_tag=5))
    second = client_with(broker, 1)
    assert consume(second, 1, "q", "c") == []
    first.lose()
    events = second.events()
    assert bodies(events) == [b"0", b"2", b"3", b"5"]
    assert all(event.redelivered for event in events if isinstance(event, Deliveries))


def test_auto_delete_queue_goes_with_its_last_consumer_and_takes_no_other() -> None:
    """Cancel and consume in one piece of data: the queue is gone before the second is heard."""
    broker = Broker()
    client = client_with(broker, 1, 2)
    client.call(1, m.QueueDeclare(queue="q", auto_delete=True))
    consume(client, 1, "q", "c")
    client.post_bytes(
        m.BasicCancel(consumer_tag="c").frame(1)
        + m.BasicConsume(queue="q", consumer_tag="d").frame(2)
    )
    broker.run()
    cancelled, refused = [event.method for event in client.events()]  # type: ignore[attr-defined]
    assert cancelled == m.BasicCancelOk(consumer_tag="c")
    assert isinstance(refused, m.ChannelClose)
    assert refused.reply_code == 404
    assert broker.node.broker.vhosts["/"].queues == {}


def test_publishing_channel_is_not_held_up_by_a_deleted_queue() -> None:
    """Its credit was spent there; the confirms come all the same."""
    broker = Broker()
    client = client_with(broker, 1, 2)
    client.call(1, m.ConfirmSelect())
    client.call(1, m.QueueDeclare(queue="q", durable=True))
    head = m.BasicPublish(exchange="", routing_key="q").frame(1)
    client.post_bytes((head + content_frames(1, PERSISTENT, b"x", 131072)) * 3000)
    client.post_bytes(m.QueueDelete(queue="q").frame(2))
    broker.run()
    last = 0
    for event in client.events():
        if isinstance(event, MethodFrame) and isinstance(event.method, m.BasicAck):
            last = max(last, event.method.delivery_tag)
    assert last == 3000
    assert not client.reader.keeper.gates_shut


def test_connection_remembers_nothing_of_channels_that_are_closed() -> None:
    """Some clients open a channel for each thing they do, on one connection for days."""
    broker = Broker()
    client = client_with(broker, 1)
    client.call(1, m.QueueDeclare(queue="q"))
    for number in range(2, 30):
        client.open(number)
        client.publish(number, "q", b"x", b"y")
        assert consume(client, number, "q", "c") == [b"x", b"y"]
        client.send(number, m.BasicAck(delivery_tag=2, multiple=True))
        close = m.ChannelClose(reply_code=200, reply_text="", failed_class_id=0, failed_method_id=0)
        assert client.call(number, close) == [m.ChannelCloseOk()]
    client.call(1, m.BasicQos(prefetch_count=1))
    gc.collect()
    channels = [one for one in gc.get_objects() if isinstance(one, Channel)]
    assert [channel.number for channel in channels if channel.reader is client.reader] == [1]


def test_channel_remembers_little_of_queues_that_are_deleted() -> None:
    """A reply queue for each request, on one channel for days."""
    broker = Broker()
    client = client_with(broker, 1)
    tag = 0
    for number in range(300):
        name = f"reply {number}"
        client.call(1, m.QueueDeclare(queue=name))
        client.publish(1, name, b"x", b"y", b"z")
        [got] = client.call(1, m.BasicGet(queue=name))
        assert isinstance(got, m.BasicGetOk)
        assert consume(client, 1, name, "c") == [b"y", b"z"]
        tag += 3
        client.send(1, m.BasicAck(delivery_tag=tag, multiple=True))
        client.call(1, m.BasicCancel(consumer_tag="c"))
        client.call(1, m.QueueDelete(queue=name))
    gc.collect()
    queues = [one for one in gc.get_objects() if isinstance(one, Queue)]
    node = broker.node.broker
    assert sum(getattr(queue, "services", None) is node for queue in queues) <= 2 * DEAD_MAX


def test_node_remembers_nothing_of_connections_that_are_gone() -> None:
    """Closed properly or lost, with deliveries not acknowledged."""
    broker = Broker()
    keeper = client_with(broker, 1)
    keeper.call(1, m.QueueDeclare(queue="q"))
    for number in range(10):
        client = client_with(broker, 1)
        client.publish(1, "q", b"x")
        consume(client, 1, "q", "c")
        if number % 2:
            client.lose()
        else:
            close = m.ConnectionClose(
                reply_code=200, reply_text="", failed_class_id=0, failed_method_id=0
            )
            assert client.call(0, close) == [m.ConnectionCloseOk()]
            client.lose()
    del client
    broker.world.clock.timers.clear()
    gc.collect()
    readers = [one for one in gc.get_objects() if isinstance(one, Reader)]
    assert [reader.connection for reader in readers if reader.broker is broker.node.broker] == [1]
    assert broker.node.broker.vhosts["/"].queues["q"].machine.depth.ready == 10


TINY = replace(Config(), storage=Config.tiny().storage)


def durable(client: Client, name: str, **arguments: object) -> None:
    [answer] = client.call(1, m.QueueDeclare(queue=name, durable=True, arguments=arguments))
    assert isinstance(answer, m.QueueDeclareOk)


def segments(broker: Broker, name: str) -> list[str]:
    return broker.world.disk.files.names(
        broker.node.broker.vhosts["/"].queues[name].machine.backing.index.directory
    )


def test_segments_go_when_their_acknowledgements_are_durable() -> None:
    """A crash before that would bring the messages back; after it, nobody misses the files."""
    broker = Broker(TINY)
    client = client_with(broker, 1)
    durable(client, "q", **{"x-queue-mode": "lazy"})
    client.publish(1, "q", *[b"%d" % n for n in range(20)], raw=PERSISTENT)
    assert len(segments(broker, "q")) == 3
    got = consume(client, 1, "q", "c")
    assert got == [b"%d" % n for n in range(20)]
    client.post_bytes(m.BasicAck(delivery_tag=8, multiple=True).frame(1))
    while broker.node.run(100):
        pass
    assert len(segments(broker, "q")) == 3, "the acknowledgements gather in the store"
    broker.wait()
    assert len(segments(broker, "q")) == 2
    client.send(1, m.BasicAck(delivery_tag=20, multiple=True))
    broker.wait()
    assert segments(broker, "q") == []


def test_segments_of_a_transient_queue_go_at_once() -> None:
    broker = Broker(TINY)
    client = client_with(broker, 1)
    client.call(1, m.QueueDeclare(queue="q", arguments={"x-queue-mode": "lazy"}))
    client.publish(1, "q", *[b"%d" % n for n in range(20)])
    assert len(segments(broker, "q")) == 3
    assert len(consume(client, 1, "q", "c", no_ack=True)) == 20
    assert segments(broker, "q") == []
    client.publish(1, "q", b"again", b"x" * 1000)
    assert bodies(client.events()) == [b"again", b"x" * 1000]
    client.call(1, m.QueueDelete(queue="q"))
    assert not [name for name in broker.world.disk.files.files if name.startswith("transient")]


def test_publisher_waits_while_memory_is_tight_and_the_disk_is_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paging_jobs, "PAGE_OUT_BYTES", 1000)
    broker = Broker(TINY)
    client = client_with(broker, 1)
    client.call(1, m.QueueDeclare(queue="q"))
    queue = broker.node.broker.vhosts["/"].queues["q"]
    expected = [b"x" * (100 + n) for n in range(100)]
    for each in expected:
        client.publish(1, "q", each)
    broker.node.broker.memory_pressure = TIGHT_RATIO
    queue.post(SetTarget(0.0))
    while broker.node.run(1):
        pass
    assert queue.storage.paging.is_shut
    broker.run()
    assert not queue.storage.paging.is_shut, "the disk is done"
    assert queue.machine.backing.delta.count > 50
    client.publish(1, "q", b"last")
    assert consume(client, 1, "q", "c", no_ack=True) == [*expected, b"last"]


def test_queue_whose_disk_broke_still_gives_what_it_has() -> None:
    """What could not be paged out is in RAM, what was paged out before can be read."""
    broker = Broker(TINY)
    client = client_with(broker, 1)
    durable(client, "q", **{"x-queue-mode": "lazy"})
    client.publish(1, "q", *[b"%d" % n for n in range(10)], raw=PERSISTENT)
    files = broker.world.disk.files
    files.fail = lambda action, path: "EIO" if action == "write" and "queues/" in path else None
    client.publish(1, "q", *[b"%d" % n for n in range(10, 20)], raw=PERSISTENT)
    assert broker.node.broker.store.storage_failed
    assert consume(client, 1, "q", "c") == [b"%d" % n for n in range(20)]


def test_queue_waits_for_space_and_says_when_there_is_some() -> None:
    broker = Broker(TINY)
    client = client_with(broker, 1)
    client.call(1, m.QueueDeclare(queue="q", arguments={"x-queue-mode": "lazy"}))
    files = broker.world.disk.files
    files.fail = lambda action, _: "ENOSPC" if action == "write" else None
    client.publish(1, "q", *[b"%d" % n for n in range(10)])
    assert DISK in broker.node.broker.alarms.reasons
    files.fail = None
    timers = broker.world.clock.timers
    [timer] = [timer for timer in timers if isinstance(timer[2], TryAgain)]
    timer[1].post(timer[2])
    broker.run()
    assert DISK not in broker.node.broker.alarms.reasons
    assert len(segments(broker, "q")) == 2
    assert consume(client, 1, "q", "c") == [b"%d" % n for n in range(10)]


def test_a_page_that_waits_for_space_has_the_ballast_deleted() -> None:
    """Else, with nothing refused but that, nobody would make space who could."""
    broker = Broker(replace(TINY, storage=replace(TINY.storage, reserve_bytes=1024)))
    client = client_with(broker, 1)
    durable(client, "q", **{"x-queue-mode": "lazy"})
    files = broker.world.disk.files
    files.put(BALLAST, bytes(1024))

    def full(action: str, path: str) -> str | None:
        is_refused = action == "write" and "queues/" in path and files.size(BALLAST) >= 0
        return "ENOSPC" if is_refused else None

    files.fail = full
    client.publish(1, "q", *[b"%d" % n for n in range(10)], raw=PERSISTENT)
    assert files.size(BALLAST) < 0
    for _, actor, message in list(broker.world.clock.timers):
        if isinstance(message, TryAgain):
            actor.post(message)
    broker.run()
    assert len(segments(broker, "q")) == 2


@pytest.mark.parametrize("before", [0, 2])
def test_one_that_is_deleted_while_it_waits_for_space_writes_nothing_any_more(before: int) -> None:
    """Its directory is gone when there is space: it would fail there, or make it once more."""
    broker = Broker(TINY)
    client = client_with(broker, 1)
    client.call(1, m.QueueDeclare(queue="q", arguments={"x-queue-mode": "lazy"}))
    if before:
        client.publish(1, "q", *[b"before"] * before)
    files = broker.world.disk.files
    files.fail = lambda action, _: "ENOSPC" if action == "write" else None
    client.publish(1, "q", b"1", b"2")
    assert DISK in broker.node.broker.alarms.reasons
    [again] = [each for each in broker.world.clock.timers if isinstance(each[2], TryAgain)]
    directory = broker.node.broker.vhosts["/"].queues["q"].machine.backing.index.directory
    client.call(1, m.QueueDelete(queue="q"))
    assert not files.is_directory(directory)
    files.fail = None
    again[1].post(again[2])
    broker.run()
    assert DISK not in broker.node.broker.alarms.reasons
    assert not broker.node.broker.store.storage_failed
    assert not files.is_directory(directory)
