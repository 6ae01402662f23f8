"""Goal: classic queues and streams of one node are used from the others as if they were there, and
what becomes of that when their node dies and comes back.

Method: `sluicemq serve` three times, pika at each.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError

from support.served import Served, three_nodes
from support.waiting import await_truth


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Served]]:
    with three_nodes(tmp_path) as made:
        for each in made:
            each.start()
        await_truth(lambda: all(each.is_ready for each in made))
        yield made


def channel_at(node: Served) -> BlockingChannel:
    return pika.BlockingConnection(pika.ConnectionParameters(node.host, node.port)).channel()


def test_queues_of_one_node_are_used_from_all(nodes: list[Served]) -> None:
    one, two, three = map(channel_at, nodes)
    one.queue_declare("q", durable=True)
    one.queue_declare("mine", exclusive=True)
    two.queue_bind("q", "amq.topic", "a.#")
    two.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=2)
    for number in range(50):
        two.basic_publish("amq.topic", "a.b", b"%d" % number, persistent, mandatory=True)
    two.basic_publish("", "q", b"x" * 700_000, persistent)
    assert three.queue_declare("q", passive=True).method.message_count == 51
    three.basic_qos(prefetch_count=10)
    found: list[bytes] = []
    for method, _, body in three.consume("q", inactivity_timeout=240):
        assert method is not None and body is not None
        found.append(body)
        three.basic_ack(method.delivery_tag)
        if len(found) == 51:
            break
    three.cancel()
    assert found == [*(b"%d" % number for number in range(50)), b"x" * 700_000]
    await_truth(lambda: one.queue_declare("q", passive=True).method.message_count == 0)
    with pytest.raises(ChannelClosedByBroker, match=r"405.*cannot obtain exclusive access"):
        channel_at(nodes[1]).queue_declare("mine", passive=True)
    two.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    two.basic_publish("", "s", b"first")
    three = channel_at(nodes[2])
    three.basic_qos(prefetch_count=1)
    [(_, _, body)] = take(three, "s", 1, arguments={"x-stream-offset": "first"})
    assert body == b"first"
    heard: list[bytes] = []
    three = channel_at(nodes[2])
    reply_to = "amq.rabbitmq.reply-to"
    three.basic_consume(reply_to, lambda *said: heard.append(said[3]), auto_ack=True)
    three.basic_publish("", "q", b"?", pika.BasicProperties(reply_to=reply_to))
    [(_, properties, _)] = take(one, "q", 1)
    one.cancel()
    one.basic_publish("", properties.reply_to, b"!")
    await_truth(lambda: three.connection.process_data_events(0.1) or heard == [b"!"])
    for number in range(2):
        arguments = {"x-queue-master-locator": "min-masters"}
        two.queue_declare(f"spread {number}", durable=True, arguments=arguments)
    told = nodes[0].ctl("list_queues", "name", "node", "--formatter", "json")
    homes = {row["name"]: row["node"] for row in json.loads(told.stdout)}
    assert homes["q"] == homes["mine"] == "n1"
    assert homes["spread 0"] == "n3" and homes["spread 1"] != "n1"
    assert two.queue_purge("q").method.message_count == 0
    one.queue_delete("q")
    with pytest.raises(ChannelClosedByBroker, match=r"404.*no queue 'q'"):
        two.queue_declare("q", passive=True)


def take(channel: BlockingChannel, queue: str, count: int, **options: Any) -> list[Any]:
    """The first messages that come, acknowledged."""
    found = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=240, **options):
        assert method is not None
        channel.basic_ack(method.delivery_tag)
        found.append((method, properties, body))
        if len(found) == count:
            break
    return found


def test_a_queue_is_away_with_its_node_and_comes_back_with_it(nodes: list[Served]) -> None:
    channel = channel_at(nodes[0])
    channel.queue_declare("q", durable=True)
    two = channel_at(nodes[1])
    two.confirm_delivery()
    two.basic_publish("", "q", b"kept", pika.BasicProperties(delivery_mode=2))
    cancelled: list[str] = []
    two.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    two.basic_consume("q", lambda *_: None, consumer_tag="c")
    assert nodes[0].end(signal.SIGKILL) == -signal.SIGKILL
    await_truth(lambda: two.connection.process_data_events(0.1) or cancelled == ["c"])
    with pytest.raises(NackError):
        two.basic_publish("", "q", b"refused")
    with pytest.raises(ChannelClosedByBroker, match=r"404.*home node 'n1' of durable queue 'q'"):
        channel_at(nodes[2]).queue_declare("q", durable=True)
    nodes[0].start()
    await_truth(lambda: nodes[0].is_ready)

    def is_taken() -> bool:
        try:
            two.basic_publish("", "q", b"taken")
        except NackError:
            return False
        return True

    await_truth(is_taken)
    found = take(channel_at(nodes[2]), "q", 2)
    assert [body for _, _, body in found] == [b"kept", b"taken"]
