"""Topic routing: messages per CPU-second of the broker against RabbitMQ's, in one run.

    .venv/bin/python bench/topic.py [--bindings 10000] [--ours 200000] [--theirs 50000]

One topic exchange, that many bindings of four shapes over ten queues, whose consumer takes
everything without acknowledging. Each key fits one binding. A message has 16 octets; they are made
before the clock starts and sent as fast as the broker takes them. The cost is the broker's CPU
time, user and system, from the first publish until all is delivered: routing and all the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import tempfile
import threading
import time
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from brokers import build, free_port, rabbitmq, sluicemq
from history import keep

from sluicemq.amqp import methods as m
from sluicemq.amqp.events import Deliveries, MethodFrame
from sluicemq.amqp.frames import content_frames
from sluicemq.client.address import Address
from sluicemq.client.session import ClientSession, Opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.amqp.method import Method

QUEUES = 10
SIDE = 100
PATTERNS = ("{}.{}.*", "{}.{}.#", "{}.#.{}.#", "#.{}.{}.*")
CONTENT = content_frames(1, b"\0\0", b"x" * 16, 131072)
PATIENCE_SECONDS = 30
TICKS = os.sysconf("SC_CLK_TCK")
EXCHANGE = "bench-topic"


class Link:
    """One connection with channel 1 open."""

    def __init__(self, port: int) -> None:
        address = Address.parse(f"amqp://guest:guest@127.0.0.1:{port}/")
        self.session = ClientSession(address, "bench")
        self.socket = socket.create_connection((address.host, address.port), PATIENCE_SECONDS)
        while not isinstance(self.event(), Opened):
            pass
        self.session.open_channel(1)
        self.answer()

    def event(self) -> object:
        """What the broker says next."""
        while (event := self.session.next_event()) is None:
            if data := self.session.data_to_send():
                self.socket.sendall(data)
            data = self.socket.recv(1 << 20)
            if not data:
                raise SystemExit("the broker has closed the connection")
            self.session.receive_data(data)
        return event

    def answer(self) -> Method:
        """The next method that comes."""
        while not isinstance(event := self.event(), MethodFrame):
            pass
        return event.method

    def call(self, method: Method) -> Method:
        self.session.send(1, method)
        return self.answer()


def patterns(count: int) -> Iterator[tuple[str, str]]:
    """Patterns and the queues they are for."""
    for number in range(count):
        shape = PATTERNS[number % len(PATTERNS)]
        yield shape.format(f"s{number % SIDE}", f"d{number // SIDE}"), f"bench-{number % QUEUES}"


def keys(count: int, places: int, fresh: bool) -> list[str]:
    """Keys in random order, each fits one binding."""
    chance = Random(7)
    found = []
    for number in range(count):
        place = chance.randrange(places)
        last = f"n{number}" if fresh else "temperature"
        found.append(f"s{place % SIDE}.d{place // SIDE}.{last}")
    return found


def frames(some: list[str]) -> list[bytes]:
    """A publish for each of the keys."""
    return [m.BasicPublish(exchange=EXCHANGE, routing_key=k).frame(1) + CONTENT for k in some]


def made(bindings: int, messages: int) -> dict[str, list[bytes]]:
    """The messages of each case."""
    thousand = frames(keys(1000, bindings, False))
    return {
        "one key after the other, 100 messages each": [
            each for each in islice(cycle(thousand), messages // 100) for _ in range(100)
        ],
        "1,000 keys in turn": list(islice(cycle(thousand), messages)),
        "every key new": frames(keys(messages, bindings, True)),
    }


def declare(port: int, bindings: int) -> Link:
    """Exchange, queues, bindings; returns the connection whose end is theirs, too."""
    link = Link(port)
    link.call(m.ExchangeDeclare(exchange=EXCHANGE, exchange_type="topic", auto_delete=True))
    for number in range(QUEUES):
        link.call(m.QueueDeclare(queue=f"bench-{number}", auto_delete=True))
    for pattern, queue in patterns(bindings):
        link.session.send(
            1, m.QueueBind(queue=queue, exchange=EXCHANGE, routing_key=pattern, nowait=True)
        )
    link.call(m.QueueDeclare(queue="bench-0", passive=True))
    for number in range(QUEUES):
        link.call(m.BasicConsume(queue=f"bench-{number}", consumer_tag=f"{number}", no_ack=True))
    return link


def cpu_seconds(pid: int) -> float:
    """User and system, so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def microseconds_a_message(port: int, pid: int, consumer: Link, messages: list[bytes]) -> float:
    """CPU time of the broker for publishing and delivering them."""
    publisher = Link(port)
    data = b"".join(messages)
    sender = threading.Thread(target=publisher.socket.sendall, args=(data,))
    begun = cpu_seconds(pid)
    sender.start()
    left = len(messages)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left:
        event = consumer.event()
        if isinstance(event, Deliveries):
            left -= len(event.contents)
        if time.monotonic() > deadline:
            raise SystemExit(f"{left} of {len(messages)} messages have not come")
    sender.join()
    spent = cpu_seconds(pid) - begun
    publisher.socket.close()
    return spent * 1e6 / len(messages)


def measured(port: int, pid: int, bindings: int, messages: int) -> dict[str, float]:
    """Every case on one broker."""
    consumer = declare(port, bindings)
    found = {
        case: microseconds_a_message(port, pid, consumer, some)
        for case, some in made(bindings, messages).items()
    }
    consumer.socket.close()
    return found


def main() -> None:
    """Measure both, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bindings", type=int, default=SIDE * SIDE)
    parser.add_argument("--ours", type=int, default=200_000, help="messages a case, our broker")
    parser.add_argument("--theirs", type=int, default=50_000, help="messages a case, RabbitMQ")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        port = free_port()
        with sluicemq(port, home / "sluicemq") as pid:
            ours = measured(port, pid, options.bindings, options.ours)
        port = free_port()
        with rabbitmq(port, home / "rabbitmq") as pid:
            theirs = measured(port, pid, options.bindings, options.theirs)
    print("| keys | us/msg | RabbitMQ us/msg | messages per CPU-second, ratio |")
    print("|---|---|---|---|")
    for case, cost in ours.items():
        keep("topic", case, build=build(), us=cost, ratio=theirs[case] / cost)
        print(f"| {case} | {cost:.2f} | {theirs[case]:.2f} | {theirs[case] / cost:.1f} |")
    if options.json:
        options.json.write_text(json.dumps({"ours": ours, "theirs": theirs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
