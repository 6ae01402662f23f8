"""Goal: what dashboards for RabbitMQ ask for is there, with true values, and hostile names do no
harm. Method: a broker with clients; the names of a real RabbitMQ 3.10's /metrics in
rabbitmq_metrics.txt, less those that have no meaning here (docs/management.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
import requests

from support.management import Managed, managed
from support.waiting import await_truth

NAMES = (Path(__file__).parent / "rabbitmq_metrics.txt").read_text().split()
SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? ([-+0-9.eInfNa]+)')
HOSTILE = 'a"b\\cd{e}="f" 1'


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with managed(tmp_path_factory.mktemp("metrics"), "prometheus.port=0") as found:
        connection = pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", found.target.port)
        )
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(HOSTILE, durable=True)
        for _ in range(4):
            channel.basic_publish("", HOSTILE, b"x", pika.BasicProperties(delivery_mode=2))
        channel.basic_get(HOSTILE, auto_ack=True)
        method, _, _ = channel.basic_get(HOSTILE)
        channel.basic_ack(method.delivery_tag)
        await_truth(lambda: found.get("overview")["message_stats"].get("ack_details"))
        yield found
        connection.close()


def scraped(url: str) -> dict[str, float]:
    """The samples there, by name and labels; each line must be one that Prometheus can read."""
    answer = requests.get(url, timeout=60)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples: dict[str, float] = {}
    for line in answer.text.splitlines():
        if not line.startswith("#"):
            found = SAMPLE.fullmatch(line)
            assert found, line
            name = f"{found[1]}{{{found[2]}}}" if found[2] else found[1]
            assert name not in samples, name
            samples[name] = float(found[3])
    return samples


def test_every_name_of_rabbitmq_that_has_a_meaning_here_is_there(own: Managed) -> None:
    names = {name.partition("{")[0] for name in scraped(f"{own.url}/metrics")}
    assert [name for name in NAMES if name not in names] == []


def test_the_values_are_those_of_what_clients_did(own: Managed) -> None:
    samples = scraped(f"{own.others[0]}/metrics")
    assert samples["rabbitmq_queue_messages_ready"] == 2
    assert samples["rabbitmq_channel_messages_published_total"] == 4
    assert samples["rabbitmq_channel_messages_confirmed_total"] == 4
    assert samples["rabbitmq_channel_get_total"] == 1
    assert samples["rabbitmq_connections"] == 1
    assert samples["rabbitmq_queues_created_total"] == 1
    assert samples["rabbitmq_io_sync_time_seconds_total"] > 0
    assert samples['rabbitmq_global_messages_received_total{protocol="amqp091"}'] == 4
    acked = 'rabbitmq_global_messages_acknowledged_total{protocol="amqp091",'
    await_truth(
        lambda: scraped(f"{own.url}/metrics")[acked + 'queue_type="rabbit_classic_queue"}'] == 1
    )
    assert samples["sluicemq_confirm_latency_seconds_count"] > 0
    assert samples["sluicemq_group_commit_seconds_sum"] > 0
    assert samples['sluicemq_blocked_seconds_total{stage="queue"}'] >= 0


def test_objects_have_labels_that_no_name_can_break_out_of(own: Managed) -> None:
    name = 'queue="a\\"b\\\\cd{e}=\\"f\\" 1"'
    samples = scraped(f"{own.url}/metrics/per-object")
    assert samples[f'rabbitmq_queue_messages{{vhost="/",{name}}}'] == 2
    family = "family=queue_coarse_metrics&family=connection_coarse_metrics"
    samples = scraped(f"{own.url}/metrics/detailed?{family}")
    assert samples[f'rabbitmq_detailed_queue_messages_ready{{vhost="/",{name}}}'] == 2
    assert not any(each.startswith("rabbitmq_detailed_channel") for each in samples)
    elsewhere = scraped(f"{own.url}/metrics/detailed?{family}&vhost=elsewhere")
    assert not any("queue_messages_ready" in each for each in elsewhere)


def test_the_port_for_metrics_has_nothing_else(own: Managed) -> None:
    place = f"{own.others[0]}/api/overview"
    assert requests.get(place, auth=("guest", "guest"), timeout=60).status_code == 404
    assert requests.post(f"{own.others[0]}/metrics", timeout=60).status_code == 404
