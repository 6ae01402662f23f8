"""Goal: what an operator does to queues, connections and the broker is done, or refused in words.

Method: the node of bench.py.
"""

from __future__ import annotations

import pytest

from sluicemq.amqp.methods import QueueDeclare
from sluicemq.chain.connection.reader import RUNNING

from .bench import Bench


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.say(QueueDeclare(queue="orders", durable=True).frame(1))
    return bench


def test_a_connection_is_closed_by_its_name(bench: Bench) -> None:
    other = bench.connect(40313)
    assert bench.ask("close_connection", connection="nobody").code == 69
    bench.do("close_connection", connection=other.name, explanation=["go", "away"])
    assert other.phase != RUNNING
    assert bench.reader.phase == RUNNING


def test_connections_are_closed_by_virtual_host_user_and_number(bench: Bench) -> None:
    readers = [bench.reader, *(bench.connect(port) for port in range(40313, 40317))]
    bench.do("add_vhost", vhost="v")
    assert bench.do("close_all_connections", vhost="v") == [{"closed": 0}]
    assert bench.do("close_all_connections", limit=2) == [{"closed": 2}]
    assert bench.do("close_all_user_connections", username="nobody") == [{"closed": 0}]
    assert bench.do("close_all_user_connections", username="guest") != [{"closed": 0}]
    assert all(reader.phase != RUNNING for reader in readers)


def test_limits_are_set_while_it_runs_and_publishers_hear(bench: Bench) -> None:
    assert bench.do("alarms") == []
    bench.do("check_alarms")
    bench.do("set_vm_memory_high_watermark", fraction="absolute", size="1MB")
    (alarm,) = bench.do("alarms")
    assert (alarm["resource"], alarm["scope"]) == ("memory", "local")
    refused = bench.ask("check_local_alarms")
    assert refused.error.startswith("alarms are raised:\nmemory: low on memory")
    assert refused.code == 70
    bench.do("set_vm_memory_high_watermark", fraction="0.5")
    assert bench.node.monitor.alarm.limit_bytes == (1 << 30) // 2
    assert bench.do("alarms") == []
    bench.do("set_disk_free_limit", limit="4TB")
    (alarm,) = bench.do("alarms")
    assert alarm["resource"] == "disk"
    bench.do("set_disk_free_limit", limit="mem_relative", fraction="0.001")
    assert bench.node.monitor.disk_alarm.limit_bytes == (1 << 30) // 1000
    assert bench.do("alarms") == []


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("set_vm_memory_high_watermark", {"fraction": "3"}),
        ("set_vm_memory_high_watermark", {"fraction": "-0.1"}),
        ("set_vm_memory_high_watermark", {"fraction": "nan"}),
        ("set_vm_memory_high_watermark", {"fraction": "absolute", "size": "100XB"}),
        ("set_vm_memory_high_watermark", {"fraction": "absolute"}),
        ("set_disk_free_limit", {"limit": "abc"}),
        ("set_disk_free_limit", {"limit": "mem_relative", "fraction": "x"}),
        ("set_disk_free_limit", {"limit": "mem_relative"}),
    ],
)
def test_what_is_no_limit_is_refused(bench: Bench, command: str, given: dict[str, str]) -> None:
    assert bench.ask(command, **given).code == 65


def test_the_broker_tells_about_itself(bench: Bench) -> None:
    bench.node.urls.append("amqp://127.0.0.1:5672")
    (node,) = bench.do("cluster_status")
    assert node["running"] is True
    assert node["listeners"] == ["amqp://127.0.0.1:5672"]
    (status,) = bench.rows("status")
    assert status["Listeners"] == {"listener 1": "amqp://127.0.0.1:5672"}
    options = {row["name"]: row["value"] for row in bench.do("environment")}
    assert options["net.frame_max"] == 4096
    assert options["auth.default_pass"] == "(hidden)"
    assert "firehose" in bench.ask("trace_on").error
    bench.do("ping")
    bench.do("await_startup")


def test_stop_asks_its_host(bench: Bench) -> None:
    asked: list[bool] = []
    bench.node.stop = lambda: asked.append(True)
    bench.do("stop")
    assert asked == [True]


def test_every_queue_answers(bench: Bench) -> None:
    assert bench.do("list_unresponsive_queues") == []
    bench.do("add_vhost", vhost="v")
    assert bench.do("list_unresponsive_queues", vhost="v") == []


def test_a_queue_that_has_had_a_fault_is_named_and_is_not_purged(bench: Bench) -> None:
    bench.disk.slow = True
    queue = bench.node.broker.vhosts["/"].queues["orders"]
    queue.vhost.crashed(queue, ValueError())
    bench.settle()
    assert bench.do("list_unresponsive_queues") == [{"name": "orders"}]
    assert "has crashed and is being restarted" in bench.ask("purge_queue", queue="orders").error
    bench.disk.catch_up()
    bench.settle()
    assert bench.do("list_unresponsive_queues") == []
    bench.do("purge_queue", queue="orders")


def test_a_stream_is_not_purged(bench: Bench) -> None:
    stream = QueueDeclare(queue="log", durable=True, arguments={"x-queue-type": "stream"})
    bench.say(stream.frame(1))
    refused = bench.ask("purge_queue", queue="log")
    assert "not supported by stream queues" in refused.error
    assert bench.do("list_unresponsive_queues") == []
    bench.do("delete_queue", queue="log")
