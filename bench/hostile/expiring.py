"""Attacks by messages that are delayed, expire, are dropped or dead-lettered."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from hostile import frames
from hostile.attack import Attacker, attack
from hostile.link import press
from sluicemq.amqp.methods import (
    BasicConsume,
    BasicNack,
    BasicQos,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
)

if TYPE_CHECKING:
    from sluicemq.amqp.types import Table

KIB = 1024
SEED = 5
DEAD: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
"""Of a queue whose dead letters go to the queue `dead`."""


def declare(attacker: Attacker, name: str, arguments: Table) -> None:
    """A queue, made on a connection of its own."""
    attacker.link().call(QueueDeclare(queue=name, arguments=arguments), QueueDeclareOk)


@attack()
def delayed_messages(attacker: Attacker) -> None:
    """200,000 messages delayed by up to 8 s each, at once, again and again."""
    count = 200_000
    link = attacker.link()
    delays: Table = {"x-delayed-type": "direct"}
    link.call(ExchangeDeclare("later", "x-delayed-message", arguments=delays), ExchangeDeclareOk)
    declare(attacker, "late", {"x-max-length": 1000})
    link.write(frames.binds(["late"], "later", "k")[0])
    dice = random.Random(SEED)
    delay = [frames.with_headers({"x-delay": dice.randint(1, 8000)}) for _ in range(count)]
    chunks = frames.joined([frames.publish("later", "k", b"x", each) for each in delay])
    attacker.begin()
    while True:
        press({link: attacker.counted(chunks, "messages", count)})


def expire_together(attacker: Attacker, arguments: Table) -> None:
    """500,000 messages that expire at one moment, which is 2 s from the word."""
    count, step = 500_000, 1000
    declare(attacker, "short", arguments)
    link = attacker.link()
    moment = time.monotonic() + 30
    for _ in range(count // step):
        left = int((moment - time.monotonic()) * 1000)
        link.write(frames.publish("", "short", b"x", frames.expiring(max(left, 1))) * step)
    link.call(QueueDeclare(queue="short", passive=True), QueueDeclareOk)
    time.sleep(max(0.0, moment - 2 - time.monotonic()))
    attacker.begin()
    attacker.count("messages", count)
    attacker.hold()


@attack()
def expiry(attacker: Attacker) -> None:
    """500,000 messages expire at one moment."""
    expire_together(attacker, {})


@attack()
def expiry_to_dead_letters(attacker: Attacker) -> None:
    """500,000 messages expire at one moment and go to a dead-letter exchange."""
    declare(attacker, "dead", {})
    expire_together(attacker, DEAD)


@attack()
def dropped_heads(attacker: Attacker) -> None:
    """3 connections publish to a queue of at most 10 messages whose heads go to a dead-letter
    exchange, to a queue of at most 10."""
    declare(attacker, "dead", {"x-max-length": 10})
    declare(attacker, "full", {"x-max-length": 10, **DEAD})
    attacker.begin()
    attacker.flood(frames.publish("", "full", b"x" * KIB), "messages", links=3)


@attack()
def shrunk_queues(attacker: Attacker) -> None:
    """A policy that leaves 10 of 500,000 messages; the rest goes to a dead-letter exchange."""
    declare(attacker, "dead", {"x-max-length": 10})
    attacker.fill("full", 500_000, b"x", DEAD)
    attacker.begin()
    attacker.set_policy("^full$", '{"max-length": 10}')
    attacker.count("policies")
    attacker.hold()


@attack()
def rejected_in_circles(attacker: Attacker) -> None:
    """10,000 messages rejected and dead-lettered to the queue they come from."""
    arguments: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "circle"}
    link = attacker.fill("circle", 10_000, b"x" * 100, arguments)
    link.call(QueueDeclare(queue="circle", passive=True), QueueDeclareOk)
    link.write(BasicQos(prefetch_count=10_000).frame(1) + BasicConsume(queue="circle").frame(1))
    link.settle()
    attacker.begin()
    press({link: attacker.endless(BasicNack(0, True, False).frame(1), "rejects")})


@attack()
def purges(attacker: Attacker) -> None:
    """3 queues of a million messages purged, one every 2 s."""
    link = attacker.link()
    for number in range(3):
        attacker.leave(attacker.fill(f"million{number}", 1_000_000))
    attacker.begin()
    for number in range(3):
        link.write(QueuePurge(queue=f"million{number}").frame(1))
        attacker.count("messages", 1_000_000)
        attacker.pause(2)
    attacker.hold()


@attack()
def deleted_queues(attacker: Attacker) -> None:
    """3 queues of a million messages deleted, one every 2 s."""
    link = attacker.link()
    for number in range(3):
        attacker.leave(attacker.fill(f"million{number}", 1_000_000))
    attacker.begin()
    for number in range(3):
        link.write(QueueDelete(queue=f"million{number}").frame(1))
        attacker.count("messages", 1_000_000)
        attacker.pause(2)
    attacker.hold()
