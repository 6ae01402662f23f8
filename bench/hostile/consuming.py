"""Attacks by consumers, basic.get and what is not acknowledged."""

from __future__ import annotations

import itertools
import re

from hostile import frames
from hostile.attack import Attacker, attack, close_all
from hostile.link import Link, press
from sluicemq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicRecover,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)

KIB = 1024
MIB = 1024 * KIB


def consume_often(attacker: Attacker, consumers: int, prefetch: int = 0) -> Link:
    """A connection with so many consumers of the queue `crowded` on one channel."""
    link = attacker.link()
    link.call(QueueDeclare(queue="crowded"), QueueDeclareOk)
    link.write(BasicQos(prefetch_count=prefetch).frame(1))
    wanted = [
        BasicConsume(
            queue="crowded", consumer_tag=str(number), no_ack=not prefetch, nowait=True
        ).frame(1)
        for number in range(consumers)
    ]
    link.write_all(frames.joined(wanted))
    link.settle()
    return link


def publish_and_read(attacker: Attacker, reader: Link) -> None:
    """A flood of empty messages to `crowded` with confirms, while the consumers read."""
    writer = attacker.link()
    writer.call(ConfirmSelect(), ConfirmSelectOk)
    attacker.begin()
    message = frames.publish("", "crowded")
    press({writer: attacker.endless(message, "messages"), reader: iter(())})


@attack()
def consumers_2000(attacker: Attacker) -> None:
    """Publishes to a queue with 2,000 consumers."""
    publish_and_read(attacker, consume_often(attacker, 2000))


@attack()
def consumers_50000(attacker: Attacker) -> None:
    """Publishes to a queue with 50,000 consumers."""
    publish_and_read(attacker, consume_often(attacker, 50_000))


@attack()
def consumers_spent(attacker: Attacker) -> None:
    """Publishes to a queue with 20,000 consumers, each of which takes one message and keeps it."""
    publish_and_read(attacker, consume_often(attacker, 20_000, prefetch=1))


@attack()
def consumers_of_a_channel(attacker: Attacker) -> None:
    """65,535 consumers on one channel, all gone with their connection, again and again."""
    attacker.begin()
    while True:
        attacker.leave(consume_often(attacker, 65_535))
        attacker.count("consumers", 65_535)


@attack()
def consume_and_cancel(attacker: Attacker) -> None:
    """basic.consume and cancel in a pipeline on a queue with 1,000 messages."""
    attacker.leave(attacker.fill("waiting", 1000, b"x"))
    cycle = BasicConsume(queue="waiting", consumer_tag="c", nowait=True).frame(1)
    cycle += BasicCancel("c", True).frame(1) + BasicNack(0, True, True).frame(1)
    attacker.begin()
    attacker.flood(cycle, "consumers")


@attack(limit_mib=128)
def deaf_consumers(attacker: Attacker) -> None:
    """200 channels of one connection consume a lazy queue of 200 MB and read nothing."""
    filler = attacker.fill("lazy", 200_000, b"x" * KIB, {"x-queue-mode": "lazy"})
    attacker.leave(filler)
    deaf = attacker.link(200, receive_buffer=4096)
    attacker.begin()
    wanted = [BasicConsume(queue="lazy").frame(channel) for channel in range(1, 201)]
    deaf.send(memoryview(b"".join(wanted)))
    attacker.count("consumers", 200)
    attacker.hold()


@attack()
def unacknowledged(attacker: Attacker) -> None:
    """A million messages delivered and not acknowledged, then all requeued by the end of the
    connection, again and again."""
    count = 1_000_000
    attacker.leave(attacker.fill("held", count))
    attacker.begin()
    while True:
        link = attacker.link()
        link.write(BasicConsume(queue="held", consumer_tag="c").frame(1))
        link.await_pattern(re.compile(re.escape(count.to_bytes(8, "big"))))
        attacker.count("messages", count)
        attacker.leave(link)


def hold_messages(attacker: Attacker, count: int) -> Link:
    """A connection to which so many messages were delivered that it has not acknowledged."""
    attacker.leave(attacker.fill("held", count, b"x"))
    link = attacker.link()
    link.write(BasicQos(prefetch_count=min(count, 65_535)).frame(1))
    link.write(BasicConsume(queue="held", consumer_tag="c").frame(1))
    link.settle()
    return link


@attack()
def requeued(attacker: Attacker) -> None:
    """60,000 messages requeued to the consumer that gave them back, without a pause."""
    link = hold_messages(attacker, 60_000)
    attacker.begin()
    press({link: attacker.endless(BasicNack(0, True, True).frame(1), "methods")})


@attack()
def recovered(attacker: Attacker) -> None:
    """basic.recover in a pipeline with 10,000 unacknowledged messages."""
    link = hold_messages(attacker, 10_000)
    attacker.begin()
    press({link: attacker.endless(BasicRecover(True).frame(1), "methods")})


@attack()
def gets_of_nothing(attacker: Attacker) -> None:
    """basic.get in a pipeline on an empty queue, on 3 connections."""
    attacker.link().call(QueueDeclare(queue="empty"), QueueDeclareOk)
    attacker.begin()
    attacker.flood(BasicGet("empty", True).frame(1), "methods", links=3)


@attack()
def gets(attacker: Attacker) -> None:
    """basic.get and its requeueing in a pipeline on a queue with 100,000 messages, on 3
    connections."""
    attacker.leave(attacker.fill("full", 100_000, b"x" * KIB))
    attacker.begin()
    cycle = BasicGet("full").frame(1) * 10 + BasicNack(0, True, True).frame(1)
    attacker.flood(cycle, "gets", links=3, each=10)


@attack()
def wrong_tags(attacker: Attacker) -> None:
    """Acknowledgements of what was never delivered, which close all 2,047 channels of a connection,
    again and again."""
    link = attacker.link(frames.CHANNEL_MAX)
    attacker.begin()
    while True:
        close_all(attacker, link, BasicAck(99))


@attack()
def cut_connections(attacker: Attacker) -> None:
    """3 connections with 2,000 channels and 50,000 unacknowledged messages, one cut every 2 s."""
    channels, each = 2000, 25
    links: list[Link] = []
    for number in range(3):
        queue = f"cut{number}"
        attacker.leave(attacker.fill(queue, channels * each, b"x"))
        link = attacker.link(channels)
        for channel in range(1, channels + 1):
            said = BasicQos(prefetch_count=each).frame(channel)
            link.write(said + BasicConsume(queue=queue).frame(channel))
        link.settle()
        links.append(link)
    attacker.pause(1)
    attacker.begin()
    for link in links:
        attacker.leave(link)
        attacker.count("messages", channels * each)
        attacker.pause(2)
    attacker.hold()


@attack()
def stream_readers(attacker: Attacker) -> None:
    """100 consumers read a stream of 200,000 messages from its first on, again and again."""
    count = 200_000
    stream = {"x-queue-type": "stream"}
    filler = attacker.link()
    filler.call(QueueDeclare(queue="stream", durable=True, arguments=stream), QueueDeclareOk)
    chunk, times = frames.repeated(frames.publish("", "stream", b"x" * 200))
    press({filler: itertools.repeat(chunk, count // times)})
    filler.settle()
    first = {"x-stream-offset": "first"}
    wanted = [
        BasicQos(prefetch_count=2000).frame(channel)
        + BasicConsume(queue="stream", arguments=first).frame(channel)
        for channel in range(1, 101)
    ]
    acks = b"".join(BasicAck(0, True).frame(channel) for channel in range(1, 101))
    attacker.begin()
    while True:
        link = attacker.link(100)
        link.write_all(wanted)
        for _ in range(1000):
            link.write(acks)
        attacker.count("acks", 100_000)
        attacker.leave(link)
