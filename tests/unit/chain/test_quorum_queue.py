"""Goal: a quorum queue says what is agreed on and durable, and nothing else; what it has outlives
whatever happens to the node. Method: a whole node without sockets, on files that can be made to
fail; what there is after a restart is found by another node on the same files.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Acks, ContentMethod, Deliveries, MethodFrame
from sluicemq.amqp.frames import content_body, content_frames, content_header
from sluicemq.amqp.method import Method
from sluicemq.amqp.properties import BasicProperties
from sluicemq.chain.queue.queue import PolicyChanged
from sluicemq.chain.queue.quorum import shell as quorum_shell
from sluicemq.chain.queue.quorum.shell import SETTLES_WAIT_MS, QuorumShell
from sluicemq.config import Config, FlowConfig, RaftConfig
from support.files import DictFiles

from .client import NO_PROPERTIES, Broker, Client

QUORUM = {"x-queue-type": "quorum"}


def declare(client: Client, name: str = "q", **arguments: object) -> Any:
    arguments = {key.replace("_", "-"): value for key, value in arguments.items()}
    method = m.QueueDeclare(queue=name, durable=True, arguments={**QUORUM, **arguments})
    [answer] = client.call(1, method)
    return answer


def ready(
    files: DictFiles | None = None, config: Config | None = None, **arguments: object
) -> tuple[Broker, Client]:
    """A client with channel 1 confirming, and the quorum queue "q"."""
    broker = Broker(config, files)
    client = broker.connect()
    client.open(1, 2)
    declare(client, **arguments)
    client.call(1, m.ConfirmSelect())
    return broker, client


def shell(broker: Broker, name: str = "q") -> QuorumShell:
    queue = broker.node.broker.vhosts["/"].queues[name]
    assert isinstance(queue, QuorumShell)
    return queue


def again(broker: Broker) -> tuple[Broker, Client]:
    """Another node on what a power loss leaves of the files."""
    after = Broker(files=broker.world.disk.files.crash())
    after.run()
    client = after.connect()
    client.open(1, 2)
    return after, client


def depth(client: Client, name: str = "q") -> tuple[int, int]:
    """Ready messages, consumers."""
    client.send(1, m.QueueDeclare(queue=name, passive=True))
    [answer] = [each for each in said(client) if isinstance(each, m.QueueDeclareOk)]
    return answer.message_count, answer.consumer_count


def said(client: Client) -> list[Method]:
    """The methods that have come, confirms left out."""
    return [each.method for each in client.events() if isinstance(each, MethodFrame)]


def get(client: Client, no_ack: bool = False, name: str = "q") -> ContentMethod | None:
    client.send(1, m.BasicGet(queue=name, no_ack=no_ack))
    [event] = client.events()
    return event if isinstance(event, ContentMethod) else None


def deliveries(client: Client) -> list[tuple[int, bytes, bool]]:
    """Tag, body and whether it is redelivered, of all deliveries that have come."""
    found: list[tuple[int, bytes, bool]] = []
    for event in client.events():
        if isinstance(event, Deliveries):
            pairs = zip(event.tags, event.contents, strict=True)
            found += [(tag, content_body(each), event.redelivered) for tag, each in pairs]
    return found


def confirmed(client: Client) -> bool:
    """Has anything been confirmed since the last time?"""
    return any(
        isinstance(event, Acks)
        or (isinstance(event, MethodFrame) and isinstance(event.method, m.BasicAck))
        for event in client.events()
    )


def fault(broker: Broker) -> None:
    """In the next turn of the queue."""
    queue = shell(broker)

    def fail() -> None:
        del queue.effects_real  # type: ignore[method-assign]
        raise ZeroDivisionError

    queue.effects_real = fail  # type: ignore[method-assign]
    queue.schedule()
    broker.run()


# -- what is safe


def test_what_is_confirmed_is_there_after_a_power_loss() -> None:
    broker, client = ready()
    client.publish(1, "q", b"one", b"two")
    assert confirmed(client)
    _, other = again(broker)
    assert depth(other) == (2, 0)
    got = get(other)
    assert got is not None
    assert content_body(got.content) == b"one"


def test_nothing_is_confirmed_before_it_is_durable() -> None:
    broker, client = ready()
    finish, broker.world.disk.finish = broker.world.disk.finish, broker.world.disk.jobs.clear
    client.publish(1, "q", b"one")
    assert not confirmed(client)
    _, other = again(broker)
    assert depth(other) == (0, 0)
    del finish


def test_what_was_out_comes_back_flagged_and_counts_for_no_limit() -> None:
    broker, client = ready(x_delivery_limit=0)
    client.publish(1, "q", b"one")
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    assert deliveries(client) == [(1, b"one", False)]
    _, other = again(broker)
    other.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    assert deliveries(other) == [(1, b"one", True)]


def test_what_comes_while_much_is_under_way_is_one_entry() -> None:
    broker, client = ready()
    log = shell(broker).replicator.raft.member.log
    head = m.BasicPublish(exchange="", routing_key="q").frame(1)
    before = log.last_index
    with patch.object(quorum_shell, "QUORUM_GATHER_BYTES", 1000):
        for body in (bytes(1000), b"one", b"two", b"three"):
            client.post_bytes(head + content_frames(1, NO_PROPERTIES, body, 131072))
            while broker.node.run(1000):
                """The disk does nothing."""
        assert log.last_index == before + 1
        broker.run()
    assert log.last_index == before + 2
    assert confirmed(client)
    assert depth(client) == (4, 0)


def test_who_gets_a_message_is_told_how_often_it_has_come_back() -> None:
    """A consumer is told only what is not 0."""
    _, client = ready()
    client.publish(1, "q", b"one")
    assert confirmed(client)
    counts = []
    for _ in range(2):
        got = get(client)
        assert got is not None
        properties = BasicProperties.decode(content_header(got.content).properties)
        counts.append(properties.headers)
        assert isinstance(got.method, m.BasicGetOk)
        client.send(1, m.BasicNack(delivery_tag=got.method.delivery_tag, requeue=True))
    assert counts == [{"x-delivery-count": 0}, {"x-delivery-count": 1}]


def test_what_was_acknowledged_is_gone() -> None:
    broker, client = ready()
    client.publish(1, "q", b"one", b"two")
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    client.send(2, m.BasicAck(delivery_tag=1))
    broker.world.clock.advance(SETTLES_WAIT_MS)
    broker.run()
    _, other = again(broker)
    assert depth(other) == (1, 0)


def test_settings_hold_on() -> None:
    broker, _ = ready(x_max_length=1)
    after, client = again(broker)
    client.publish(1, "q", b"one", b"two", b"three")
    assert depth(client) == (1, 0)
    assert shell(after).fifo.settings.max_length == 1


# -- consumers


def test_what_a_cancelled_consumer_was_not_sent_is_there_as_if_nothing_had_been() -> None:
    broker, client = ready(x_delivery_limit=0)
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    window = next(iter(shell(broker).ends.values())).consumers["c"].window
    window.shut()
    client.publish(1, "q", b"one")
    assert deliveries(client) == []
    client.send(2, m.BasicCancel(consumer_tag="c"))
    client.events()
    got = get(client)
    assert got is not None
    assert not getattr(got.method, "redelivered", True)


@pytest.mark.parametrize("single", [False, True])
def test_what_a_channel_that_goes_was_not_sent_comes_back_as_if_nothing_had_been(
    single: bool,
) -> None:
    """Behind what it was sent, which has come back once, and dies where that is too often."""
    limit = {"x_delivery_limit": 0, "x_single_active_consumer": True} if single else {}
    broker, client = ready(**limit)
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    if single:
        client.send(2, m.BasicConsume(queue="q", consumer_tag="d"))
    client.publish(1, "q", b"one", b"two")
    assert [body for _, body, _ in deliveries(client)] == [b"one", b"two"]
    window = next(iter(shell(broker).ends.values())).consumers["c"].window
    window.shut()
    client.publish(1, "q", b"three", b"four")
    assert deliveries(client) == []
    client.send(2, m.ChannelClose(reply_code=200))
    client.events()
    client.send(1, m.BasicConsume(queue="q", consumer_tag="e"))
    found = [(body, redelivered) for _, body, redelivered in deliveries(client)]
    fresh = [(b"three", False), (b"four", False)]
    assert found == (fresh if single else [(b"one", True), (b"two", True), *fresh])


def test_what_is_alike_is_delivered_together_whoever_has_published_it() -> None:
    broker, client = ready()
    other = broker.connect()
    other.open(1)
    for body in (b"one", b"two"):
        client.publish(1, "q", body)
        other.publish(1, "q", body)
    client.publish(1, "q", b"longer")
    client.events()
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    wanted = [b"one", b"one", b"two", b"two", b"longer"]
    assert [body for _, body, _ in deliveries(client)] == wanted
    assert shell(broker).deliveries_due.next_run == 3, "not two runs of deliveries"
    client.send(2, *(m.BasicAck(delivery_tag=tag) for tag in (2, 1, 4)))
    client.send(2, m.ChannelClose(reply_code=200))
    other.open(2)
    other.send(2, m.BasicConsume(queue="q", consumer_tag="d"))
    assert [body for _, body, _ in deliveries(other)] == [b"two", b"longer"]


def test_what_a_channel_that_goes_gives_back_is_dealt_to_none_of_its_other_consumers() -> None:
    """It would come back once more then, and none of them was sent it twice."""
    broker, client = ready(x_delivery_limit=1)
    client.send(2, m.BasicQos(prefetch_count=2))
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    client.publish(1, "q", b"one")
    assert [body for _, body, _ in deliveries(client)] == [b"one"]
    window = next(iter(shell(broker).ends.values())).consumers["c"].window
    window.shut()
    client.publish(1, "q", b"two")
    client.send(2, m.BasicConsume(queue="q", consumer_tag="d"))
    client.send(2, m.ChannelClose(reply_code=200))
    assert deliveries(client) == []
    client.send(1, m.BasicConsume(queue="q", consumer_tag="e"))
    found = [(body, redelivered) for _, body, redelivered in deliveries(client)]
    assert found == [(b"one", True), (b"two", False)]


def test_a_start_reads_that_a_channel_has_gone_that_was_sent_nothing() -> None:
    broker, client = ready()
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    next(iter(shell(broker).ends.values())).consumers["c"].window.shut()
    client.publish(1, "q", b"one", b"two")
    client.send(2, m.ChannelClose(reply_code=200))
    assert deliveries(client) == []
    _, other = again(broker)
    assert depth(other) == (2, 0)
    got = get(other)
    assert got is not None
    assert not getattr(got.method, "redelivered", True)


def test_a_consumer_may_be_cancelled_in_the_turn_in_which_it_is_dealt_something() -> None:
    broker, client = ready()
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    publish = m.BasicPublish(exchange="", routing_key="q").frame(1)
    publish += content_frames(1, NO_PROPERTIES, b"one", 131072)
    client.send_bytes(publish + m.BasicCancel(consumer_tag="c").frame(2))
    assert deliveries(client) == []
    assert shell(broker).crash is None
    assert depth(client) == (1, 0)


def test_a_channel_that_goes_gives_back_what_it_had() -> None:
    broker, client = ready()
    client.publish(1, "q", b"one", b"two")
    client.send(2, m.BasicQos(prefetch_count=1), m.BasicConsume(queue="q", consumer_tag="c"))
    client.events()
    assert depth(client) == (1, 1)
    client.send(2, m.ChannelClose(reply_code=200))
    assert depth(client) == (2, 0)
    assert not shell(broker).deliveries_due.of_window


def test_the_next_single_active_consumer_is_told() -> None:
    broker, client = ready(x_single_active_consumer=True)
    for tag in "ab":
        client.send(2, m.BasicConsume(queue="q", consumer_tag=tag, no_ack=True))
    client.events()
    client.publish(1, "q", b"one")
    client.send(2, m.BasicCancel(consumer_tag="a"))
    client.publish(1, "q", b"two")
    assert [body for _, body, _ in deliveries(client)] == [b"one", b"two"]
    [consumer] = shell(broker).machine.consumers.all()
    assert (consumer.tag, consumer.active) == ("b", True)


def test_an_exclusive_consumer_refuses_others() -> None:
    _, client = ready()
    client.send(2, m.BasicConsume(queue="q", consumer_tag="a", exclusive=True))
    client.events()
    [answer] = client.call(1, m.BasicConsume(queue="q", consumer_tag="b"))
    assert isinstance(answer, m.ChannelClose)
    assert answer.reply_code == 403


# -- how much may be under way


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        (Config(), 32),
        (Config(flow=FlowConfig(profile="rabbitmq-3.8.3")), 256),
        (Config(raft=RaftConfig(quorum_commands_soft_limit=3)), 3),
    ],
)
def test_a_channel_with_too_many_batches_under_way_gets_no_further_credit(
    config: Config, limit: int
) -> None:
    broker, client = ready(config=config)
    end = shell(broker).end_of(client.reader.channels[1])
    with patch.object(broker.world.disk, "finish", broker.world.disk.jobs.clear):
        withheld = []
        for _ in range(limit + 2):
            client.publish(1, "q", b"x")
            withheld.append(len(end.withheld))
    assert withheld == [0] * limit + [1, 2]


# -- the end


def test_a_deleted_queue_leaves_nothing() -> None:
    broker, client = ready()
    client.publish(1, "q", b"one")
    client.send(1, m.QueueDelete(queue="q"))
    [answer] = [each for each in said(client) if isinstance(each, m.QueueDeleteOk)]
    assert answer.message_count == 1
    after, other = again(broker)
    assert not after.node.broker.store.raft.table.groups
    declare(other)
    assert depth(other) == (0, 0)


def deleted_while_out(broker: Broker, client: Client) -> QuorumShell:
    """The queue, which is deleted while channel 2 has a message of it."""
    queue = shell(broker)
    client.publish(1, "q", b"one")
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    client.events()
    client.send(1, m.QueueDelete(queue="q"))
    assert [each.NAME for each in said(client)] == ["basic.cancel", "queue.delete-ok"]
    return queue


def test_who_gets_a_message_as_the_queue_is_deleted_hears_that_it_is_gone() -> None:
    broker, client = ready()
    client.publish(1, "q", b"one")
    assert confirmed(client)
    client.post_bytes(m.BasicGet(queue="q").frame(2))
    client.send(1, m.QueueDelete(queue="q"))
    deleted, refused = sorted(said(client), key=lambda each: each.NAME, reverse=True)
    assert isinstance(deleted, m.QueueDeleteOk)
    assert isinstance(refused, m.ChannelClose)
    assert (refused.reply_code, "no queue 'q'" in refused.reply_text) == (404, True)
    assert not broker.node.broker.accounted_bytes


@pytest.mark.parametrize(
    "settled",
    [
        m.BasicAck(delivery_tag=1),
        m.BasicNack(delivery_tag=1, requeue=True),
        m.BasicReject(delivery_tag=1, requeue=False),
    ],
)
def test_what_was_of_a_deleted_queue_is_settled_without_harm(settled: Method) -> None:
    broker, client = ready()
    deleted_while_out(broker, client)
    client.send(2, settled)
    assert client.call(2, m.QueueDeclare(queue="other")) != []
    assert broker.node.broker.counters.faults == 0


def test_a_deleted_queue_hears_of_policies_without_harm() -> None:
    broker, client = ready()
    queue = deleted_while_out(broker, client)
    queue.post(PolicyChanged(None))
    broker.run()
    assert broker.node.broker.counters.faults == 0


def test_a_fault_of_a_deleted_queue_harms_nobody() -> None:
    """Its replicator is closed by then, and is not closed again."""
    broker, client = ready()
    queue = deleted_while_out(broker, client)
    queue.post(PolicyChanged(None))
    with patch.object(queue, "receive", side_effect=ZeroDivisionError):
        broker.run()
    assert broker.node.broker.counters.faults == 1
    declare(client)
    assert depth(client) == (0, 0)


# -- faults


def test_a_queue_goes_on_after_a_fault_of_its_own() -> None:
    broker, client = ready()
    client.publish(1, "q", b"one", b"two")
    client.send(2, m.BasicConsume(queue="q", consumer_tag="c"))
    client.events()
    fault(broker)
    assert [each.NAME for each in said(client)] == ["basic.cancel"]
    assert depth(client) == (2, 0)
    got = get(client)
    assert got is not None
    assert content_body(got.content) == b"one"
    client.publish(1, "q", b"three")
    assert depth(client) == (2, 0)
    _, other = again(broker)
    assert depth(other) == (3, 0)


def test_a_second_fault_keeps_it_down() -> None:
    broker, client = ready()
    client.publish(1, "q", b"one")
    fault(broker)
    fault(broker)
    client.events()
    declares = (
        m.QueueDeclare(queue="q", passive=True),
        m.QueueDeclare(queue="q", durable=True, arguments=QUORUM),
    )
    client.open(3)
    for channel, method in enumerate(declares, 2):
        [answer] = client.call(channel, method)
        assert isinstance(answer, m.ChannelClose)
        assert answer.reply_code == 404
    _, other = again(broker)
    assert depth(other) == (1, 0)


def test_nothing_is_asked_in_vain_when_the_storage_has_failed() -> None:
    broker, client = ready()
    broker.world.disk.files.fail = lambda action, _: "EIO" if action == "sync" else None
    client.publish(1, "q", b"one")
    assert not confirmed(client)
    for method in (m.BasicGet(queue="q"), m.BasicConsume(queue="q"), m.QueuePurge(queue="q")):
        other = broker.connect()
        other.open(1)
        [answer] = other.call(1, method)
        assert isinstance(answer, m.ChannelClose)
        assert answer.reply_code == 406
        assert "storage has failed" in answer.reply_text


def test_a_group_is_there_until_it_is_durable_that_it_is_gone() -> None:
    broker, client = ready()
    client.publish(1, "q", b"one")
    client.events()
    raft = broker.node.broker.store.raft
    [group] = raft.table.groups
    disk = broker.world.disk
    client.post_bytes(m.QueueDelete(queue="q").frame(1))
    seen: list[bool] = []
    while broker.node.run(1000) or disk.jobs:
        if group in raft.going:
            seen.append(group in raft.table.groups)
        if disk.jobs:
            disk.finish()
    assert seen
    assert all(seen)
    assert not raft.table.groups
    assert not raft.going
