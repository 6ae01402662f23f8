"""What policies do, as a client sees it: the same for both brokers.

RabbitMQ tells its queues of a policy after it has answered, so everything is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

Ctl = Callable[..., object]
"""A command and its arguments, for rabbitmqctl or `sluicemq ctl`."""
SECONDS = 240


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_routed(channel: BlockingChannel) -> bool:
    try:
        channel.basic_publish("in", "nowhere", b"x", mandatory=True)
    except pika.exceptions.UnroutableError:
        return False
    return True


def run(port: int, ctl: Ctl) -> None:
    """On a broker that is new."""
    channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)).channel()
    channel.confirm_delivery()
    channel.exchange_declare("in", "direct")
    channel.exchange_declare("inner", "direct", arguments={"alternate-exchange": "amq.topic"})
    for name in ("short", "brief", "rest"):
        channel.queue_declare(name, durable=True)
    channel.queue_declare("short.own", durable=True, arguments={"x-max-length": 3})
    channel.queue_bind("rest", "amq.fanout")

    def count(queue: str) -> int:
        found: int = channel.queue_declare(queue, passive=True, durable=True).method.message_count
        return found

    def fill(queue: str) -> int:
        for _ in range(6):
            channel.basic_publish("", queue, b"x")
        return count(queue)

    ctl("set_policy", "all", ".*", '{"max-length": 1}', "--priority", "1")
    ctl("set_policy", "short", "^short", '{"max-length": 4}', "--priority", "2")
    eventually(lambda: fill("rest") == 1)
    eventually(lambda: fill("short") == 4)
    eventually(lambda: fill("short.own") == 3)
    ctl("set_operator_policy", "cap", "^short", '{"max-length": 2}')
    eventually(lambda: (count("short"), count("short.own")) == (2, 2))
    ctl("clear_operator_policy", "cap")
    eventually(lambda: fill("short") == 4)
    ctl("clear_policy", "short")
    eventually(lambda: count("short") == 1)
    ctl("clear_policy", "all")
    eventually(lambda: fill("short") > 5)

    ctl("set_policy", "brief", "brief", '{"message-ttl": 0}', "--apply-to", "queues")
    eventually(lambda: fill("brief") == 0)
    ctl("set_policy", "full", "brief", '{"max-length": 1, "overflow": "reject-publish"}')

    assert not is_routed(channel)
    alternate = '{"alternate-exchange": "amq.fanout"}'
    ctl("set_policy", "in", "^in", alternate, "--apply-to", "exchanges")
    eventually(lambda: is_routed(channel))
    channel.basic_publish("inner", "nowhere", b"x")  # its own argument wins
    ctl("clear_policy", "in")
    eventually(lambda: not is_routed(channel))
    channel.connection.close()
