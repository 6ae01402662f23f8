"""Attacks by queues, exchanges and bindings."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from hostile import frames
from hostile.attack import Attacker, attack, close_all
from hostile.link import press
from sluicemq.amqp.methods import (
    BasicCancel,
    BasicConsume,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    QueueDeclare,
    QueueDeclareOk,
)

if TYPE_CHECKING:
    from sluicemq.amqp.types import Table


@attack()
def exclusive_queues(attacker: Attacker) -> None:
    """50,000 exclusive queues declared, the connection cut, again and again."""
    count = 50_000
    chunks = frames.joined(frames.declares((f"x{i}" for i in range(count)), exclusive=True))
    attacker.begin()
    while True:
        link = attacker.link()
        press({link: attacker.counted(chunks, "queues", count)})
        link.settle()
        attacker.leave(link)


def come_and_go(attacker: Attacker, count: int, **options: Any) -> None:
    """So many queues declared in a pipeline without wait, and deleted, again and again."""
    names = [f"q{i}" for i in range(count)]
    made = frames.joined(frames.declares(names, nowait=True, **options))
    gone = frames.joined(frames.deletes(names))
    link = attacker.link()
    attacker.begin()
    while True:
        press({link: attacker.counted(made, "queues", count)})
        press({link: iter(gone)})


@attack()
def declares_without_wait(attacker: Attacker) -> None:
    """50,000 queues declared without wait and deleted, again and again."""
    come_and_go(attacker, 50_000)


@attack()
def priority_queues(attacker: Attacker) -> None:
    """2,000 queues of 255 priorities declared and deleted, again and again."""
    come_and_go(attacker, 2000, arguments={"x-max-priority": 255})


@attack()
def durable_queues(attacker: Attacker) -> None:
    """30,000 durable queues declared and deleted, again and again."""
    come_and_go(attacker, 30_000, durable=True)


@attack()
def bindings(attacker: Attacker) -> None:
    """50,000 bindings of one queue, which is then deleted, again and again."""
    count = 50_000
    link = attacker.link()
    bound = [frames.binds(["b"], "amq.topic", f"key.{i}.*")[0] for i in range(count)]
    chunks = frames.joined([*frames.declares(["b"]), *bound])
    attacker.begin()
    while True:
        press({link: attacker.counted(chunks, "bindings", count)})
        link.write(frames.deletes(["b"], nowait=False)[0])


@attack()
def exchanges(attacker: Attacker) -> None:
    """Exchanges declared, bound to one another and deleted in a pipeline."""
    cycle = b"".join(
        (
            ExchangeDeclare("from", "topic", nowait=True).frame(1),
            ExchangeDeclare("to", "fanout", nowait=True).frame(1),
            ExchangeBind("to", "from", "a.#", True).frame(1),
            ExchangeDelete("to", nowait=True).frame(1),
            ExchangeDelete("from", nowait=True).frame(1),
        )
    )
    attacker.begin()
    attacker.flood(cycle, "methods", each=5)


def nested(depth: int, values: int) -> Table:
    """A table so deep, with so many values in all."""
    table: Table = {f"key{i}": i for i in range(values)}
    for level in range(depth):
        table = {f"level{level}": table}
    return table


@attack()
def argument_tables(attacker: Attacker) -> None:
    """queue.declare in a pipeline with 4,000 arguments, 30 tables deep, of which none matters."""
    frame = frames.declares(["t"], arguments={"note": nested(29, 4000)})[0]
    attacker.begin()
    attacker.flood(frame, "declares")


@attack()
def automatic_deletion(attacker: Attacker) -> None:
    """An auto-delete queue declared, consumed, cancelled: it comes and goes, in a pipeline."""
    cycle = b"".join(
        (
            QueueDeclare(queue="auto", auto_delete=True, nowait=True).frame(1),
            BasicConsume(queue="auto", consumer_tag="c", nowait=True).frame(1),
            BasicCancel(consumer_tag="c", nowait=True).frame(1),
        )
    )
    attacker.begin()
    attacker.flood(cycle, "queues")


@attack()
def bad_pattern(attacker: Attacker) -> None:
    """Declares by a user whose permission is the pattern (a+)+$, of names it takes long for, on all
    channels of a connection."""
    user, password = "slow", "pass"
    attacker.ctl("add_user", username=user, password=password)
    rights = {"configure": "(a+)+$", "write": "", "read": ""}
    attacker.ctl("set_permissions", username=user, vhost="/", **rights)
    link = attacker.link(frames.CHANNEL_MAX, user=user, password=password)
    attacker.begin()
    name = "a" * 26
    for turn in itertools.count():
        close_all(attacker, link, QueueDeclare(queue=f"{name}{turn}!"))


@attack()
def exchange_chain(attacker: Attacker) -> None:
    """Messages with always other keys through 255 exchanges, one bound to the next, to a queue of
    at most 100."""
    link = attacker.link()
    for number in range(255):
        link.call(ExchangeDeclare(f"e{number}", "fanout"), ExchangeDeclareOk)
    for number in range(254):
        link.write(ExchangeBind(f"e{number + 1}", f"e{number}", nowait=True).frame(1))
    link.call(QueueDeclare(queue="end", arguments={"x-max-length": 100}), QueueDeclareOk)
    link.write(frames.binds(["end"], "e254")[0])
    link.settle()
    chunks = frames.joined([frames.publish("e0", f"key{i}", b"x") for i in range(20_000)])
    attacker.begin()
    while True:
        press({link: attacker.counted(chunks, "messages", 20_000)})


def bound_to(attacker: Attacker, exchange: str, kind: str, count: int) -> list[str]:
    """An exchange, and so many queues of at most 10 messages; the queues' names."""
    link = attacker.link()
    link.call(ExchangeDeclare(exchange, kind), ExchangeDeclareOk)
    names = [f"{exchange}{number}" for number in range(count)]
    limited: Table = {"x-max-length": 10}
    link.write_all(frames.joined(frames.declares(names, nowait=True, arguments=limited)))
    link.settle()
    return names


@attack()
def fanout(attacker: Attacker) -> None:
    """Messages to a fanout of 20,000 queues of at most 10."""
    names = bound_to(attacker, "fan", "fanout", 20_000)
    link = attacker.links[0]
    link.write_all(frames.joined(frames.binds(names, "fan")))
    link.settle()
    attacker.begin()
    message = frames.publish("fan", "key", b"x")
    while True:
        press({link: attacker.counted([message] * 100, "messages", 100)})


@attack()
def header_bindings(attacker: Attacker) -> None:
    """Messages to a headers exchange with 10,000 bindings, of which none fits."""
    (name,) = bound_to(attacker, "head", "headers", 1)
    link = attacker.links[0]
    for number in range(10_000):
        wanted: Table = {"x-match": "all", "a": number, "b": f"value {number}"}
        link.write(frames.binds([name], "head", "", wanted)[0])
    link.settle()
    attacker.begin()
    properties = [frames.with_headers({"a": number, "b": "other"}) for number in range(5000)]
    chunks = frames.joined([frames.publish("head", "", b"x", each) for each in properties])
    while True:
        press({link: attacker.counted(chunks, "messages", len(properties))})


@attack()
def topic_patterns(attacker: Attacker) -> None:
    """Keys of 120 words to 200 bindings such as #.a.#.b.#.c.#, all keys different."""
    (name,) = bound_to(attacker, "top", "topic", 1)
    link = attacker.links[0]
    for number in range(200):
        words = ".#.".join("ab"[number >> bit & 1] for bit in range(8))
        link.write(frames.binds([name], "top", f"#.{words}.#.z.#")[0])
    link.settle()
    attacker.begin()
    keys = [f"{number}." + "a.b." * 58 + "a" for number in range(5000)]
    chunks = frames.joined([frames.publish("top", key, b"x") for key in keys])
    while True:
        press({link: attacker.counted(chunks, "messages", len(keys))})
