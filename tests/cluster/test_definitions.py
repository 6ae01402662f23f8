"""Goal: what is declared on one node of a cluster is declared on all, in one order, with one
verdict; it lasts when nodes die; without a majority it is refused with a sentence, in bounded time.

Method: `sluicemq serve` three times, real clients, `sluicemq ctl`, SIGKILL and wiped disks.
"""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from support.served import Served, three_nodes
from support.waiting import await_truth


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Served]]:
    with three_nodes(tmp_path) as made:
        for each in made:
            each.start()
        await_truth(lambda: all(each.is_ready for each in made))
        yield made


def channel_at(node: Served, name: str = "guest", password: str = "guest") -> BlockingChannel:
    to = pika.ConnectionParameters(
        node.host, node.port, credentials=pika.PlainCredentials(name, password)
    )
    return pika.BlockingConnection(to).channel()


def told(node: Served, *arguments: str) -> str:
    """What a command says that has to succeed."""
    done = node.ctl(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def listed(node: Served, command: str, column: str) -> list[str]:
    has_columns = command in ("list_exchanges", "list_bindings", "list_queues", "list_vhosts")
    columns = (column,) if has_columns else ()
    rows = json.loads(told(node, command, *columns, "--formatter", "json"))
    return sorted(str(row[column]) for row in rows)


def test_what_one_node_declares_all_have_and_a_minority_refuses(nodes: list[Served]) -> None:
    one, two, three = nodes
    channel = channel_at(one)
    channel.exchange_declare("x", "topic", durable=True)
    channel.exchange_declare("passing", "fanout")
    channel.queue_declare("q", durable=True)
    channel.queue_declare("mine", exclusive=True)
    channel.queue_bind("q", "x", "a.#")
    told(two, "add_user", "u", "secret")
    told(three, "set_permissions", "u", ".*", ".*", ".*")
    told(two, "set_policy", "p", "^q$", '{"max-length": 3}')
    told(three, "add_vhost", "w")
    for each in nodes:
        # It was answered when all that are up had it.
        assert {"x", "passing"} <= {*listed(each, "list_exchanges", "name")}
        assert "a.#" in listed(each, "list_bindings", "routing_key")
        assert listed(each, "list_users", "user") == ["guest", "u"]
        assert listed(each, "list_vhosts", "name") == ["/", "w"]
        assert listed(each, "list_policies", "name") == ["p"]
        other = channel_at(each, "u", "secret")
        with pytest.raises(ChannelClosedByBroker, match="inequivalent arg 'type'"):
            other.exchange_declare("x", "fanout", durable=True)
    assert listed(one, "list_queues", "policy") == ["", "p"]

    # What is exclusive goes with its connection, what is not durable with its node.
    channel.connection.close()
    assert three.end(signal.SIGKILL) == -signal.SIGKILL
    channel = channel_at(two)
    channel.exchange_declare("made without three", "fanout", durable=True)
    told(one, "delete_user", "u")
    one.end(signal.SIGKILL)
    with pytest.raises(
        ChannelClosedByBroker, match=r"node 1, node 3 cannot be reached, and 1 of 3"
    ):
        channel.exchange_declare("in vain", "fanout", durable=True)
    refused = two.ctl("add_user", "v", "secret")
    assert refused.returncode == 70
    assert "1 of 3 are up" in refused.stderr
    channel_at(two).basic_publish("x", "a.b", b"published all the same")

    # Who was away gets what it has missed before it is ready.
    for each in (one, three):
        each.start()
    await_truth(lambda: one.is_ready and three.is_ready)
    for each in nodes:
        exchanges = listed(each, "list_exchanges", "name")
        assert "made without three" in exchanges
        assert "passing" not in exchanges, "its node has begun another life"
        assert listed(each, "list_users", "user") == ["guest"]
    assert listed(one, "list_queues", "name") == ["q"]
    channel_at(three).exchange_declare("with all", "fanout")
    assert [each.end() for each in nodes] == [0, 0, 0]


def test_an_alarm_of_one_node_stops_the_publishers_of_all(nodes: list[Served]) -> None:
    """And clears when it does, or when that node is gone."""
    one, two, three = nodes
    told(two, "await_online_nodes", "3")
    assert [row["listeners"] for row in two.rows] == [[f"amqp://{n.host}:{n.port}"] for n in nodes]
    too_many = two.ctl("await_online_nodes", "4")
    assert too_many.returncode == 65
    assert "the cluster has only 3 nodes" in too_many.stderr
    blocked: list[str] = []
    channel = channel_at(two)
    connection = channel.connection
    connection.add_on_connection_blocked_callback(lambda _, how: blocked.append(how.method.reason))
    connection.add_on_connection_unblocked_callback(lambda *_: blocked.clear())

    def is_blocked() -> bool:
        connection.process_data_events(0.01)
        channel.basic_publish("", "nowhere", b"")
        return bool(blocked)

    told(one, "set_vm_memory_high_watermark", "0")
    await_truth(is_blocked)
    assert "low on memory" in blocked[0]
    assert "on node 1" in blocked[0]
    rows = json.loads(told(two, "alarms", "--formatter", "json"))
    assert [(row["resource"], row["scope"]) for row in rows] == [("memory", "n1")]
    assert [row["alarms"] for row in three.rows] == [["memory"], [], []]
    assert two.ctl("check_alarms").returncode == 70
    told(two, "check_local_alarms")
    told(one, "set_vm_memory_high_watermark", "0.9")
    await_truth(lambda: not is_blocked())
    told(two, "check_alarms")
    told(one, "set_vm_memory_high_watermark", "0")
    await_truth(is_blocked)
    one.end(signal.SIGKILL)
    await_truth(lambda: not is_blocked())


def test_a_member_without_its_log_does_not_start(nodes: list[Served]) -> None:
    """It could vote as if it had never said anything."""
    two = nodes[1]
    two.end(signal.SIGKILL)
    kept = two.data / "cluster"
    shutil.move(kept, two.root / "kept")
    shutil.rmtree(two.data)
    two.data.mkdir()
    shutil.move(two.root / "kept", kept)
    two.start()
    assert two.wait() == 2
    assert "nothing that it has stored" in two.log
