"""Goal: a stream confirms what is durable and nothing else, deals out what readers may have, and
keeps little in RAM. Method: a whole node without sockets, on files that can be made to fail.
"""

from __future__ import annotations

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, Deliveries, MethodFrame
from sluicemq.amqp.frames import content_body, content_frames, content_header
from sluicemq.amqp.properties import BasicProperties
from sluicemq.chain.queue.queue import PolicyChanged
from sluicemq.chain.queue.stream import LookAtAge, StreamShell
from sluicemq.chain.store.group_commit import CommitDue
from sluicemq.chain.store.messages import TryAgain
from sluicemq.limits import STREAM_BACKLOG_BYTES
from sluicemq.model.policies import EffectivePolicy
from sluicemq.queues.stream.machine import Stream
from sluicemq.storage.journal import GroupWrite
from sluicemq.storage.stream_log import StreamCommit
from sluicemq.storage.stream_reads import StreamRead
from support.files import DictFiles

from .client import NO_PROPERTIES, Broker, Client

STREAM = {"x-queue-type": "stream"}
OFFSET = "x-stream-offset"


def ready(files: DictFiles | None = None, **arguments: object) -> tuple[Broker, Client]:
    """A client with channel 1 confirming, and the stream "s"."""
    broker = Broker(files=files)
    client = broker.connect()
    client.open(1, 2)
    client.call(1, m.QueueDeclare(queue="s", durable=True, arguments={**STREAM, **arguments}))
    client.call(1, m.ConfirmSelect())
    return broker, client


def shell(broker: Broker) -> StreamShell:
    queue = broker.node.broker.vhosts["/"].queues["s"]
    assert isinstance(queue, StreamShell)
    return queue


def machine(broker: Broker) -> Stream:
    return shell(broker).machine


def consume(client: Client, offset: object = "first", prefetch: int = 10, tag: str = "c") -> None:
    client.send(
        2,
        m.BasicQos(prefetch_count=prefetch),
        m.BasicConsume(queue="s", consumer_tag=tag, arguments={OFFSET: offset}),
    )


def offsets(client: Client) -> list[int]:
    """Of all deliveries that have come."""
    found: list[int] = []
    for event in client.events():
        if isinstance(event, Deliveries):
            for content in event.contents:
                headers = BasicProperties.decode(content_header(content).properties).headers
                assert headers is not None
                found.append(headers[OFFSET])  # type: ignore[arg-type]
    return found


def acks(client: Client) -> list[int]:
    """Numbers up to which all was confirmed, as they came."""
    found: list[int] = []
    for event in client.events():
        if isinstance(event, Acks):
            found += event.tags
        elif isinstance(event, MethodFrame) and isinstance(event.method, m.BasicAck):
            found.append(event.method.delivery_tag)
    return found


def hold_disk(broker: Broker) -> None:
    """From now on jobs are done when the test says so."""
    broker.run = lambda: [None for _ in iter(lambda: broker.node.run(1000), False)] and None  # type: ignore[method-assign]


def test_confirms_after_the_sync_and_shows_nothing_before() -> None:
    broker, client = ready()
    consume(client)
    hold_disk(broker)
    client.publish(1, "s", b"a", b"b")
    assert acks(client) == []
    assert machine(broker).depth.ready == 0
    client.publish(1, "s", b"c")  # gathers behind the first group
    jobs = broker.world.disk.jobs
    assert [type(job) for job, _ in jobs] == [StreamCommit]
    broker.world.disk.finish()
    broker.run()
    assert acks(client) == []
    assert [type(job) for job, _ in jobs] == [GroupWrite], (
        "that its file must be there is not known"
    )
    broker.world.disk.finish()
    broker.run()
    events = client.events()
    assert [e.method.delivery_tag for e in events if isinstance(e, MethodFrame)] == [2]  # type: ignore[attr-defined]
    assert sum(len(e.tags) for e in events if isinstance(e, Deliveries)) == 2
    assert len(jobs) == 1
    broker.world.disk.finish()
    broker.run()
    assert machine(broker).depth.ready == 3


def test_a_failed_sync_seals_and_nothing_is_ever_confirmed() -> None:
    broker, client = ready()
    client.publish(1, "s", b"a")
    assert acks(client) == [1]
    files = broker.world.disk.files
    files.fail = lambda action, _: "EIO" if action == "sync" else None
    client.publish(1, "s", b"b")
    files.fail = None
    client.publish(1, "s", b"c")
    assert acks(client) == []
    assert broker.node.broker.store.storage_failed
    reader = broker.connect()
    reader.open(2)
    consume(reader)
    assert offsets(reader) == [0]  # what is durable is still read


def test_a_full_disk_waits_and_loses_nothing() -> None:
    broker, client = ready()
    files = broker.world.disk.files
    files.fail = lambda what, path: "ENOSPC" if what == "write" and "streams" in path else None
    client.publish(1, "s", b"a")
    assert acks(client) == []
    assert broker.node.broker.no_space
    files.fail = None
    clock = broker.world.clock
    again = [timer for timer in clock.timers if isinstance(timer[2], TryAgain)]
    for timer in again:
        timer[1].post(timer[2])
    broker.run()
    assert acks(client) == [1]
    assert not [job for job in broker.node.broker.no_space if isinstance(job, StreamCommit)]


def test_a_failed_sync_is_not_tried_again_for_want_of_space() -> None:
    broker, client = ready()
    broker.world.disk.files.fail = lambda action, _: "ENOSPC" if action == "sync" else None
    client.publish(1, "s", b"a")
    assert broker.node.broker.store.storage_failed


def test_what_nobody_waits_for_is_written_after_a_while() -> None:
    broker, client = ready()
    client.publish(2, "s", b"a", b"b")  # channel 2 does not want confirms
    assert machine(broker).depth.ready == 0
    timers = broker.world.clock.timers
    [timer] = [timer for timer in timers if isinstance(timer[2], CommitDue)]
    timers.remove(timer)
    timer[1].post(timer[2])
    broker.run()
    assert machine(broker).depth.ready == 2


def test_a_stop_waits_for_what_nobody_waits_for() -> None:
    broker, client = ready()
    client.publish(2, "s", b"a", b"b")
    broker.stop()
    assert broker.node.storage_closed
    again = Broker(files=broker.world.disk.files.crash())
    assert machine(again).depth.ready == 2


def test_publishers_wait_while_too_much_is_not_synced() -> None:
    broker, client = ready()
    hold_disk(broker)
    body = b"x" * 100_000
    client.publish(2, "s", *[body] * (STREAM_BACKLOG_BYTES // len(body) + 2))
    queue = shell(broker)
    assert queue.full.is_shut
    assert queue.log.unsynced_bytes > STREAM_BACKLOG_BYTES
    while broker.world.disk.jobs:
        broker.world.disk.finish()
        broker.run()
    assert not queue.full.is_shut


def test_it_is_there_after_a_power_loss() -> None:
    broker, client = ready()
    client.publish(1, "s", *[b"%d" % n for n in range(20)])
    assert acks(client)[-1] == 20
    again = Broker(files=broker.world.disk.files.crash())
    assert machine(again).depth.ready == 20
    reader = again.connect()
    reader.open(2)
    consume(reader, 15)
    assert offsets(reader) == [15, 16, 17, 18, 19]


def test_files_of_a_deleted_stream_go_now_or_at_the_next_start() -> None:
    broker, client = ready()
    client.publish(1, "s", b"a")
    files = broker.world.disk.files
    directory = shell(broker).log.directory
    assert files.names(directory)
    client.events()
    assert client.call(1, m.QueueDelete(queue="s")) == [m.QueueDeleteOk(message_count=0)]
    assert not [path for path in files.files if path.startswith(directory)]
    files.put(f"{directory}/{0:020d}.stream", b"left over")
    again = Broker(files=files.crash())
    assert not [path for path in again.world.disk.files.files if path.startswith("streams/")]


@pytest.mark.parametrize("how", ["delete", "lose"])
def test_nothing_is_accounted_when_all_are_gone(how: str) -> None:
    broker, client = ready()
    client.publish(1, "s", *[b"x" * 1000] * 500)
    consume(client, prefetch=100)
    consume(client, 50, prefetch=30, tag="d")
    account = broker.node.broker
    assert account.accounted_bytes > 0
    if how == "lose":
        client.lose()
        client = broker.connect()
        client.open(1)
    client.send(1, m.QueueDelete(queue="s"))
    assert account.accounted_bytes == 0
    assert not account.stream_cache.chunks


def test_readers_at_one_place_read_the_disk_once() -> None:
    broker, client = ready()
    client.publish(1, "s", *[b"x" * 1000] * 50)
    files = broker.world.disk.files
    files.actions.clear()
    for number in range(5):
        consume(client, 0, prefetch=50, tag=f"c{number}")
    assert len(offsets(client)) == 250
    reads = [action for action in files.actions if action.startswith("read streams/")]
    assert len(reads) == 1


def test_a_reader_at_the_end_never_reads_the_disk() -> None:
    broker, client = ready()
    consume(client, "next", prefetch=1000)
    broker.world.disk.files.actions.clear()
    for _ in range(10):
        client.publish(1, "s", b"a", b"b")
    assert offsets(client) == list(range(20))
    assert not [action for action in broker.world.disk.files.actions if "read streams" in action]


def test_the_prefetch_is_a_consumers_own_and_acks_give_it_back() -> None:
    broker, client = ready()
    client.publish(1, "s", *[b"x"] * 10)
    consume(client, 0, prefetch=3)
    assert offsets(client) == [0, 1, 2]
    client.send(2, m.BasicAck(delivery_tag=3))
    assert offsets(client) == [3]
    client.send(2, m.BasicAck(delivery_tag=4, multiple=True))
    assert offsets(client) == [4, 5, 6]
    assert machine(broker).depth.unacked == 3
    client.send(2, m.BasicCancel(consumer_tag="c"))
    client.send(2, m.BasicAck(delivery_tag=7, multiple=True))
    assert machine(broker).depth.unacked == 0
    assert not machine(broker).unacked_runs


def hurry(broker: Broker) -> None:
    """The store writes what nobody waits for."""
    timers = broker.world.clock.timers
    for timer in [timer for timer in timers if isinstance(timer[2], CommitDue)]:
        timers.remove(timer)
        timer[1].post(timer[2])
    broker.run()


def fill_segments(client: Client, count: int) -> None:
    for number in range(count):
        client.publish(1, "s", str(number).encode().ljust(1000))


def test_too_many_bytes_drop_the_oldest_segments_and_a_reader_jumps() -> None:
    limits = {"x-stream-max-segment-size-bytes": 4096, "x-max-length-bytes": 12_000}
    broker, client = ready(**limits)
    fill_segments(client, 3)
    consume(client, 0, prefetch=1)
    assert offsets(client) == [0]
    fill_segments(client, 40)
    log = shell(broker).log
    assert log.first_offset > 20
    assert log.bytes < 17_000
    hurry(broker)  # nothing goes before it is durable that it may
    names = broker.world.disk.files.names(log.directory)
    assert len(names) == len(log.segments)
    got: list[int] = []
    for tag in range(1, 6):
        client.send(2, m.BasicAck(delivery_tag=tag))
        got += offsets(client)
    assert got[:2] == [1, 2]  # had been read before
    assert got[2:] == list(range(log.first_offset, log.first_offset + 3))


def test_what_is_too_old_goes_when_it_is_looked_at() -> None:
    broker, client = ready(**{"x-stream-max-segment-size-bytes": 4096, "x-max-age": "1m"})
    fill_segments(client, 20)
    log = shell(broker).log
    assert log.first_offset == 0
    clock = broker.world.clock
    clock.time_ns += 61 * 10**9
    [look] = [timer for timer in clock.timers if isinstance(timer[2], LookAtAge)]
    look[1].post(look[2])
    broker.run()
    assert len(log.segments) == 1
    assert machine(broker).depth.ready == log.durable_end - log.first_offset < 20


def test_damage_is_left_out_and_said() -> None:
    broker, client = ready()
    for _ in range(3):
        client.publish(1, "s", b"a", b"b")
    [segment] = shell(broker).log.segments
    data = broker.world.disk.files.files[segment.path].data
    second = data.index(b"\xf7Slq", data.index(b"\xf7Slq") + 1)
    data[second + 60] ^= 1
    consume(client, 0)
    assert offsets(client) == [0, 1, 4, 5]


def test_a_file_that_cannot_be_read_is_given_up_after_some_tries() -> None:
    broker, client = ready()
    client.publish(1, "s", b"a", b"b")
    files = broker.world.disk.files
    files.fail = lambda action, path: "EIO" if action == "read" and "streams" in path else None
    consume(client, 0)
    assert offsets(client) == []
    files.fail = None
    client.publish(1, "s", b"c")
    assert offsets(client) == [2]


def test_so_many_reads_at_a_time() -> None:
    broker, client = ready()
    client.publish(1, "s", *[b"x" * 1000] * 50)
    hold_disk(broker)
    for number in range(20):
        consume(client, number, prefetch=1, tag=f"c{number}")
    jobs = broker.world.disk.jobs
    assert len([job for job, _ in jobs if isinstance(job, StreamRead)]) == 8
    while jobs:
        broker.world.disk.finish()
        broker.run()
    assert sorted(offsets(client)) == list(range(20))


def test_a_policy_holds_at_once() -> None:
    broker, client = ready(**{"x-stream-max-segment-size-bytes": 4096})
    fill_segments(client, 40)
    queue = shell(broker)
    assert queue.log.first_offset == 0
    queue.post(PolicyChanged(EffectivePolicy("p", None, {"max-length-bytes": 12_000})))
    broker.run()
    assert queue.log.first_offset > 20
    assert queue.log.bytes <= 12_000 + 5_000
    queue.post(PolicyChanged(None))
    broker.run()
    first = queue.log.first_offset
    fill_segments(client, 40)
    assert queue.log.first_offset == first


def test_messages_of_many_routing_keys_come_with_their_own() -> None:
    broker, client = ready()
    client.call(
        1,
        m.QueueBind(queue="s", exchange="amq.topic", routing_key="#"),
        m.QueueDeclare(queue="c"),
        m.QueueBind(queue="c", exchange="amq.topic", routing_key="#"),
    )
    keys = [f"a.{number % 7}" for number in range(50)]
    client.send_bytes(
        b"".join(
            m.BasicPublish(exchange="amq.topic", routing_key=key).frame(1)
            + content_frames(1, NO_PROPERTIES, key.encode(), 131072)
            for key in keys
        )
    )
    client.events()
    consume(client, prefetch=100)
    got = [
        (chunk.traits.envelope, content_body(content))
        for chunk in broker.node.broker.stream_cache.chunks.values()
        if chunk.packed is not None
        for content in chunk.packed.cut()
    ]
    assert got == [(b"\x09amq.topic\x03" + key.encode(), key.encode()) for key in keys]
    assert len(offsets(client)) == 50
    assert broker.node.broker.vhosts["/"].queues["c"].machine.depth.ready == 50


def test_deleted_while_it_waits_for_space_it_waits_no_more() -> None:
    broker, client = ready()
    client.publish(1, "s", b"a")
    files = broker.world.disk.files
    files.fail = lambda what, path: "ENOSPC" if what == "write" and "streams" in path else None
    client.publish(1, "s", b"b")
    client.publish(2, "s", b"c")
    assert acks(client) == [1]
    stream = shell(broker)
    other = broker.connect()  # publishers are not read while the disk is full
    other.open(1)
    assert other.call(1, m.QueueDelete(queue="s")) == [m.QueueDeleteOk(message_count=0)]
    assert acks(client) == [2]
    files.fail = None
    timers = [timer for timer in broker.world.clock.timers if isinstance(timer[2], TryAgain)]
    for timer in [timer for timer in timers if timer[1] is stream]:
        timer[1].post(timer[2])
    broker.run()
    node = broker.node.broker
    assert not node.store.storage_failed
    waiting = client.reader.accounted
    assert waiting > 0, "what came while the disk was full is not read before the next look at it"
    assert node.accounted_bytes == waiting
    assert not [job for job in node.no_space if isinstance(job, StreamCommit)]
    assert not [path for path in files.files if path.startswith("streams/")]


def test_of_segment_sizes_the_policys_holds() -> None:
    broker, _ = ready(**{"x-stream-max-segment-size-bytes": 5000})
    queue = shell(broker)
    assert queue.log.segment_bytes == 5000
    for size in (100_000, 4500):
        definition = {"stream-max-segment-size-bytes": size}
        queue.post(PolicyChanged(EffectivePolicy("p", None, definition)))
        broker.run()
        assert queue.log.segment_bytes == size
