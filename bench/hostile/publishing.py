"""Attacks by messages."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hostile import frames
from hostile.attack import Attacker, attack
from hostile.link import Gone, Link, press
from sluicemq.amqp.methods import (
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxSelect,
    TxSelectOk,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

KIB = 1024
MIB = 1024 * KIB
MESSAGES = 1_000_000


@attack(limit_mib=300, may_block=True)
def bodies_begun(attacker: Attacker) -> None:
    """3 connections with 2,046 channels each, on each a body of 1 MiB that is begun with 4 frames
    of 128 KiB and never finished."""
    channels = 2046
    links = [attacker.link(channels) for _ in range(3)]
    attacker.begin()
    press({link: begun(attacker, channels) for link in links})
    attacker.hold()


def begun(attacker: Attacker, channels: int) -> Iterator[bytes]:
    """A body begun on each channel."""
    for channel in range(1, channels + 1):
        yield frames.begun_body(channel, "q", MIB, 4)
        attacker.count("frames", 4)


@attack(limit_mib=300, may_block=True)
def publishes_under_alarm(attacker: Attacker) -> None:
    """The memory alarm is up; new connections publish 300 messages of 1 KiB each, 20 at a time."""
    watcher = attacker.link()
    watcher.call(QueueDeclare(queue="alarmed"), QueueDeclareOk)
    attacker.ctl("set_vm_memory_high_watermark", fraction="absolute", size="10MB")
    said = frames.login() + frames.publish("", "alarmed", b"x" * KIB) * 300
    attacker.begin()
    links: list[Link] = []
    while time.monotonic() < attacker.ends - 1:
        link = Link(attacker.port)
        link.send(memoryview(said[len(frames.login()) :]))
        links.append(link)
        attacker.count("connections")
        if len(links) > 20:
            links.pop(0).close()
    found = watcher.call(QueueDeclare(queue="alarmed", passive=True), QueueDeclareOk)
    length = found[0]
    attacker.count("messages let in", int.from_bytes(found[1 + length : 5 + length], "big"))
    attacker.hold()


@attack(limit_mib=300, may_block=True)
def huge_bodies(attacker: Attacker) -> None:
    """5 connections that publish messages of 100 MiB to nowhere."""
    message = frames.publish("", "nowhere", bytes(100 * MIB))
    links = [attacker.link() for _ in range(5)]
    attacker.begin()

    def bodies() -> Iterator[bytes]:
        while True:
            yield message
            attacker.count("messages")

    press({link: bodies() for link in links})


@attack(limit_mib=300, may_block=True)
def flood(attacker: Attacker) -> None:
    """10 connections publish 1 KiB messages to one queue that nobody consumes."""
    attacker.link().call(QueueDeclare(queue="flooded"), QueueDeclareOk)
    attacker.begin()
    attacker.flood(frames.publish("", "flooded", b"x" * KIB), "messages", links=10)


@attack(limit_mib=300, may_block=True)
def small_messages(attacker: Attacker) -> None:
    """10 connections publish empty messages to one queue that nobody consumes."""
    attacker.link().call(QueueDeclare(queue="flooded"), QueueDeclareOk)
    attacker.begin()
    attacker.flood(frames.publish("", "flooded"), "messages", links=10)


@attack()
def unroutable(attacker: Attacker) -> None:
    """10 connections publish empty messages to nowhere, with confirms."""
    links = [attacker.link() for _ in range(10)]
    for link in links:
        link.call(ConfirmSelect(), ConfirmSelectOk)
    attacker.begin()
    message = frames.publish("", "nowhere")
    press({link: attacker.endless(message, "messages") for link in links})


@attack()
def persistent_flood(attacker: Attacker) -> None:
    """3 connections publish persistent messages of 1 KiB, with confirms, to a durable queue of at
    most 10,000."""
    links = [attacker.link() for _ in range(3)]
    limited = QueueDeclare(queue="kept", durable=True, arguments={"x-max-length": 10_000})
    links[0].call(limited, QueueDeclareOk)
    for link in links:
        link.call(ConfirmSelect(), ConfirmSelectOk)
    attacker.begin()
    message = frames.publish("", "kept", b"x" * KIB, frames.persistent())
    press({link: attacker.endless(message, "messages") for link in links})


@attack()
def transaction(attacker: Attacker) -> None:
    """A transaction of 1,000,000 empty messages, committed, again and again; the queue keeps 10."""
    link = attacker.link()
    link.call(QueueDeclare(queue="tx", arguments={"x-max-length": 10}), QueueDeclareOk)
    link.call(TxSelect(), TxSelectOk)
    chunk, times = frames.repeated(frames.publish("", "tx"))
    chunks = [chunk] * (MESSAGES // times)
    attacker.begin()
    while True:
        press({link: attacker.counted(chunks, "messages", MESSAGES)})
        link.call(TxCommit(), TxCommitOk)
        attacker.count("commits")


@attack()
def rollbacks(attacker: Attacker) -> None:
    """Transactions of 100 messages to 100 queues, rolled back, in a pipeline."""
    names = [f"r{number}" for number in range(100)]
    link = attacker.link()
    link.write_all(frames.declares(names, nowait=True))
    link.call(TxSelect(), TxSelectOk)
    published = b"".join(frames.publish("", name, b"x") for name in names)
    attacker.begin()
    frame = published + TxRollback().frame(1)
    press({link: attacker.endless(frame, "messages", each=100)})


@attack()
def many_keys(attacker: Attacker) -> None:
    """Messages whose CC header names 4,000 queues that are not there."""
    keys = [f"key{number}" for number in range(4000)]
    message = frames.publish("", "nowhere", b"x", frames.with_headers({"CC": keys}))
    attacker.begin()
    attacker.flood(message, "messages")


@attack()
def more_keys(attacker: Attacker) -> None:
    """Messages whose CC header names 500 queues that are there, of at most 10, in an order that is
    always another."""
    names = [f"k{number}" for number in range(500)]
    link = attacker.link()
    limited = frames.declares(names, nowait=True, arguments={"x-max-length": 10})
    link.write_all(frames.joined(limited))
    link.settle()
    turned = [names[at:] + names[:at] for at in range(500)]
    messages = [
        frames.publish("", "nowhere", b"x", frames.with_headers({"CC": each})) for each in turned
    ]
    chunks = frames.joined(messages)
    attacker.begin()
    while True:
        press({link: attacker.counted(chunks, "messages", len(messages))})


@attack()
def returns(attacker: Attacker) -> None:
    """Mandatory messages of 1 KiB to nowhere, all returned, on 3 connections."""
    message = frames.publish("", "nowhere", b"x" * KIB, mandatory=True)
    attacker.begin()
    attacker.flood(message, "messages", links=3)


@attack(limit_mib=300, may_block=True)
def returns_unread(attacker: Attacker) -> None:
    """The same on 50 connections that do not read."""
    message = frames.publish("", "nowhere", b"x" * KIB, mandatory=True)
    chunk, times = frames.repeated(message)
    links = [attacker.link() for _ in range(50)]
    attacker.begin()
    while True:
        for link in links:
            if link.send(memoryview(chunk)) == len(chunk):
                attacker.count("messages", times)
            if link.closed:
                raise Gone(link.closed)
        time.sleep(0.01)
