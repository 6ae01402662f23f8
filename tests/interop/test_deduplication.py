"""Goal: a queue that deduplicates takes each name once, and confirms what it drops.

Method: our own client against our broker; RabbitMQ needs a plug-in for it, which remembers less.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicemq.client.address import Address
from sluicemq.client.blocking import BlockingClient, connect
from sluicemq.client.consuming import Subscription
from sluicemq.client.messages import BasicProperties, body_of, content, publish_frame
from sluicemq.client.publishing import Publisher, RefusedMessage
from sluicemq.client.session import ClosedByBrokerError
from sluicemq.client.wire import Wire
from support import broker
from support.broker import Target

DEDUPLICATE = {"x-message-deduplication": True}


@pytest.fixture
def client(target: Target) -> Iterator[BlockingClient]:
    if not target.is_own:
        pytest.skip("needs a plug-in elsewhere")
    with connect(target.url) as made:
        yield made


def publish(
    url: str, queue: str, names: list[str | None], size: int = 10, mandatory: bool = True
) -> None:
    """One message a name, all confirmed; the body begins with the name."""
    wire = Wire(Address.parse(url), 240.0, "publisher")
    publisher = Publisher(wire, 1000)
    frame = publish_frame("", queue, mandatory)
    messages = []
    for name in names:
        headers = {} if name is None else {"x-deduplication-header": name}
        properties = BasicProperties(delivery_mode=2, headers=headers)
        body = str(name).encode().ljust(size, b".")
        messages.append(frame + content(properties.encode(), body, wire.frame_max))
    publisher.publish(messages)
    publisher.settle()
    assert publisher.confirmed == len(names)
    wire.close()


def taken(url: str, queue: str, count: int) -> list[str]:
    """The names of so many messages, acknowledged."""
    wire = Wire(Address.parse(url), 240.0, "consumer")
    subscription = Subscription(wire, queue, 1000)
    found: list[str] = []
    deadline = time.monotonic() + 240
    while len(found) < count and time.monotonic() < deadline:
        for event in subscription.poll(1.0):
            found += [body_of(each).rstrip(b".").decode() for each in event.contents]
            subscription.acknowledge(event.tags[0], event.tags[-1])
    wire.close()
    return found


@pytest.mark.parametrize("size", [10, 6000])
def test_each_name_is_taken_once(client: BlockingClient, name: str, size: int) -> None:
    client.declare_queue(name, arguments=DEDUPLICATE)
    url = f"amqp://{client.address.host}:{client.address.port}/"
    publish(url, name, ["a", "b", "a", None, "c", None, "b", "d" * 200], size)
    assert taken(url, name, 6) == ["a", "b", "None", "c", "None", "d" * 200]
    publish(url, name, ["d" * 200, "c"], size)
    publish(url, name, ["e", "c", "f"], size)
    assert taken(url, name, 2) == ["e", "f"]
    count = client.count_queue(name)
    assert count is not None
    assert count.messages_ready == 0


def test_many_at_once_keep_their_order(client: BlockingClient, name: str) -> None:
    client.declare_queue(name, arguments=DEDUPLICATE)
    url = f"amqp://{client.address.host}:{client.address.port}/"
    names: list[str | None] = [str(n // 3 if n % 2 else n) for n in range(3000)]
    publish(url, name, names)
    expected = list(dict.fromkeys(names))
    assert taken(url, name, len(expected)) == expected


def test_the_oldest_names_are_forgotten(client: BlockingClient, name: str) -> None:
    client.declare_queue(name, arguments={**DEDUPLICATE, "x-cache-size": 2})
    url = f"amqp://{client.address.host}:{client.address.port}/"
    for each in ("a", "b", "c", "a", "c", "b"):
        publish(url, name, [each])
    assert taken(url, name, 5) == ["a", "b", "c", "a", "b"]


def test_a_message_that_did_not_fit_is_not_remembered(client: BlockingClient, name: str) -> None:
    arguments = {**DEDUPLICATE, "x-max-length": 1, "x-overflow": "reject-publish"}
    client.declare_queue(name, arguments=arguments)
    url = f"amqp://{client.address.host}:{client.address.port}/"
    publish(url, name, ["a"])
    with pytest.raises(RefusedMessage, match="nack"):
        publish(url, name, ["b"])
    assert taken(url, name, 1) == ["a"]
    publish(url, name, ["b"])
    assert taken(url, name, 1) == ["b"]


def test_wrong_arguments_are_refused(client: BlockingClient, name: str) -> None:
    for wrong in ({"x-message-deduplication": 1}, {"x-cache-size": 0}, {"x-cache-ttl": -1}):
        with pytest.raises(ClosedByBrokerError, match="406 PRECONDITION_FAILED - invalid arg"):
            client.declare_queue(name, arguments=wrong)


def test_a_restart_forgets_the_names_and_keeps_the_messages(name: str, tmp_path: Path) -> None:
    for start in range(2):
        with broker.serving(tmp_path) as target:
            with connect(target.url) as client:
                client.declare_queue(name, arguments=DEDUPLICATE)
            publish(target.url, name, ["a", "a"])
            if start:
                assert taken(target.url, name, 2) == ["a", "a"]
