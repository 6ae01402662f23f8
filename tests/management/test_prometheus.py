"""Goal: a Prometheus that scrapes the broker has a value for what RabbitMQ's dashboards ask for.
Method: Debian's prometheus, a broker with clients; the metrics that RabbitMQ's Overview and Quorum
Queues dashboards have in their expressions, joined as these do, and all that there are of a queue,
for dashboards of single queues. What has no meaning here is in docs/management.md.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
import requests

from support import broker
from support.management import managed
from support.waiting import await_truth

PROMETHEUS = shutil.which("prometheus")
pytestmark = pytest.mark.skipif(
    PROMETHEUS is None, reason="PROMETHEUS IS MISSING: `make debian`, or apt-get install prometheus"
)

JOIN = (
    "* on(instance, job) group_left(rabbitmq_cluster, rabbitmq_node) rabbitmq_identity_info"
    '{namespace="tests", rabbitmq_cluster="shop", rabbitmq_endpoint="aggregated"}'
)
GAUGES = """
    channels connections queues global_publishers global_consumers queue_messages_ready
    queue_messages_unacked erlang_uptime_seconds process_resident_memory_bytes
    resident_memory_limit_bytes disk_space_available_bytes disk_space_available_limit_bytes
    process_open_fds process_max_fds raft_log_commit_index raft_commit_index
    raft_log_last_written_index raft_last_written_index raft_log_snapshot_index raft_snapshot_index
"""
COUNTERS = """
    channels_opened_total channels_closed_total connections_opened_total connections_closed_total
    queues_created_total queues_declared_total queues_deleted_total
    global_messages_received_total global_messages_received_confirm_total
    global_messages_routed_total global_messages_confirmed_total
    global_messages_unroutable_dropped_total global_messages_unroutable_returned_total
    global_messages_delivered_total global_messages_delivered_consume_auto_ack_total
    global_messages_delivered_consume_manual_ack_total global_messages_delivered_get_auto_ack_total
    global_messages_delivered_get_manual_ack_total global_messages_get_empty_total
    global_messages_redelivered_total global_messages_acknowledged_total
    raft_log_commit_index raft_commit_index raft_term raft_term_total
"""
QUEUE = """
    consumer_capacity consumer_utilisation consumers disk_reads_total disk_writes_total messages
    messages_bytes messages_paged_out messages_paged_out_bytes messages_persistent
    messages_persistent_bytes messages_published_total messages_ram messages_ram_bytes
    messages_ready messages_ready_bytes messages_ready_ram messages_unacked messages_unacked_bytes
    messages_unacked_ram process_memory_bytes
"""
"""What RabbitMQ 3.10 counts of each queue, but for what has no meaning here."""

CONFIGURATION = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: sluicemq
    static_configs: [{{targets: ["{metrics}"], labels: {{namespace: tests}}}}]
  - job_name: each
    metrics_path: /metrics/per-object
    static_configs: [{{targets: ["{metrics}"], labels: {{namespace: tests}}}}]
  - job_name: detailed
    metrics_path: /metrics/detailed
    params: {{family: [queue_coarse_metrics, ra_metrics]}}
    static_configs: [{{targets: ["{metrics}"], labels: {{namespace: tests}}}}]
"""


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the metrics are of a broker that clients have used in every way."""
    with managed(tmp_path_factory.mktemp("scraped"), "prometheus.port=0") as own:
        own.do("PUT", "cluster-name", json={"name": "shop"})
        parameters = pika.ConnectionParameters("127.0.0.1", own.target.port)
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("orders", durable=True)
            quorum = {"x-queue-type": "quorum"}
            channel.queue_declare("audit", durable=True, arguments=quorum)
            channel.queue_declare("log", durable=True, arguments={"x-queue-type": "stream"})
            for queue in ("orders", "audit"):
                for _ in range(3):
                    channel.basic_publish("", queue, b"x")
            channel.basic_get("orders")
            yield own.others[0].removeprefix("http://")


@pytest.fixture(scope="module")
def prometheus(metrics: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a Prometheus answers that scrapes it."""
    directory = tmp_path_factory.mktemp("prometheus")
    (directory / "prometheus.yml").write_text(CONFIGURATION.format(metrics=metrics))
    assert PROMETHEUS is not None
    command = [PROMETHEUS, f"--config.file={directory}/prometheus.yml"]
    command += [f"--storage.tsdb.path={directory}/data", "--web.listen-address=127.0.0.1:0"]
    log = directory / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stderr=out)
    try:
        place = f"http://{await_truth(lambda: listening(log))}"
        await_truth(lambda: requests.get(f"{place}/-/ready", timeout=60).ok, 0.1)
        yield place
    finally:
        process.terminate()
        process.wait(60)


def listening(log: Path) -> str:
    found = re.search(r'msg="Listening on" address=(\S+)', log.read_text(errors="replace"))
    return found[1] if found else ""


def asked(prometheus: str, expression: str) -> list[dict[str, Any]]:
    """What an expression gives now."""
    place = f"{prometheus}/api/v1/query"
    answer = requests.get(place, params={"query": expression}, timeout=60).json()
    assert answer["status"] == "success", answer
    return list(answer["data"]["result"])


def awaited(prometheus: str, expression: str, count: int = 1) -> list[dict[str, Any]]:
    """What an expression gives, when it has so many rows: on a busy machine a scrape may come too
    late, and nothing has a value until the next one."""
    deadline = time.monotonic() + broker.START_SECONDS
    while len(found := asked(prometheus, expression)) != count:
        assert time.monotonic() < deadline, f"{expression} gives {found}"
        time.sleep(0.2)
    return found


def test_everything_that_dashboards_ask_for_has_a_value(prometheus: str) -> None:
    awaited(prometheus, 'sum_over_time(up{job="sluicemq"}[1m]) > 2')
    expressions = [f"sum(rabbitmq_{name} {JOIN}) by(rabbitmq_node)" for name in GAUGES.split()]
    expressions += [f"sum(rate(rabbitmq_{name}[1m]) {JOIN})" for name in COUNTERS.split()]
    expressions.append(
        "rabbitmq_erlang_uptime_seconds * on(instance, job)"
        f" group_left(rabbitmq_version, erlang_version) rabbitmq_build_info {JOIN}"
    )
    for expression in expressions:
        awaited(prometheus, expression)
    [ready] = awaited(prometheus, f"sum(rabbitmq_queue_messages_ready {JOIN})")
    assert ready["value"][1] == "5"
    each = awaited(prometheus, 'rabbitmq_queue_messages_ready{job="each"}', 3)
    found = {row["metric"]["queue"]: row["value"][1] for row in each}
    assert found == {"orders": "2", "audit": "3", "log": "0"}
    for metric in QUEUE.split():  # what a dashboard of one queue asks for, of whatever type
        awaited(prometheus, f'rabbitmq_queue_{metric}{{job="each"}}', 3)
    [detailed] = awaited(prometheus, 'rabbitmq_detailed_raft_log_commit_index{queue="audit"}')
    assert int(detailed["value"][1]) > 0
    awaited(prometheus, "up == 1", 3)
