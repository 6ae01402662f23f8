"""Goal: the management process of one node shows the whole cluster: its nodes with their figures,
where queues live, who leads quorum queues, the clients of all nodes, and what becomes of that when
a node stands still or goes. Method: three nodes, `sluicemq management` beside the first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
import pytest
import requests

from support.served import Served, three_nodes
from support.waiting import await_truth

GUEST = ("guest", "guest")


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Served]]:
    with three_nodes(tmp_path) as made:
        for each in made:
            each.start()
        await_truth(lambda: all(each.is_ready for each in made))
        yield made


@pytest.fixture
def url(nodes: list[Served]) -> Iterator[str]:
    """Where the HTTP API of the first node is."""
    command = [sys.executable, "-m", "sluicemq", "management", "--port", "0"]
    command += ["--broker-port", str(nodes[0].port), "--set", "management.sample_interval_ms=200"]
    environment = {**os.environ, **nodes[0].env}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    yield f"{process.stdout.readline().decode().split()[1]}/api"
    process.terminate()
    assert process.wait(60) == 0
    process.stdout.close()


def get(url: str, path: str) -> Any:
    answer = requests.get(f"{url}/{path}", auth=GUEST, timeout=60)
    assert answer.ok, answer.text
    return answer.json()


def declare(url: str, queue: str, **arguments: str) -> None:
    body = {"durable": True, "arguments": arguments}
    place = f"{url}/queues/%2F/{queue}"
    assert requests.put(place, json=body, auth=GUEST, timeout=60).status_code == 201


def test_one_node_shows_all(nodes: list[Served], url: str) -> None:
    other_nodes_have_their_figures(url)
    queues_are_as_their_homes_know_them(url)
    clients_of_other_nodes_are_there(nodes[1], url)
    metrics_are_of_the_node_alone(url)
    mirrors_are_synchronised(url)

    def states() -> dict[str, bool]:
        return {node["name"]: node["running"] for node in get(url, "nodes")}

    nodes[1].send_signal(signal.SIGSTOP)  # its link is up, and it does not answer
    try:
        assert {row["name"] for row in get(url, "queues")} == {"here", "spread-0", "spread-1", "q"}
        assert get(url, "nodes/n2")["mem_used"] > 0
    finally:
        nodes[1].send_signal(signal.SIGCONT)
    nodes[2].end(signal.SIGKILL)
    await_truth(lambda: states() == {"n1": True, "n2": True, "n3": False})
    assert get(url, "nodes/n3")["mem_used"] > 0  # what it told last
    await_truth(lambda: get(url, "queues/%2F/q")["online"] == ["n1", "n2"])
    assert get(url, "queues/%2F/q")["leader"] in ("n1", "n2")


def other_nodes_have_their_figures(url: str) -> None:
    others = await_truth(
        lambda: len(found := [row for row in get(url, "nodes") if "mem_used" in row]) == 3 and found
    )
    for row in others[1:]:
        assert row["running"]
        assert row["mem_used"] < row["mem_limit"]
        assert row["disk_free"] > row["disk_free_limit"]
        assert (row["sockets_used"], row["uptime"] > 0) == (0, True)
        assert row["io_sync_count"] > 0
        assert row["io_sync_avg_time"] > 0
        memory = get(url, f"nodes/{row['name']}/memory")["memory"]
        parts = sum(size for size in memory.values() if isinstance(size, int))
        assert parts == memory["total"]["rss"]


def queues_are_as_their_homes_know_them(url: str) -> None:
    declare(url, "here")
    for number in range(2):
        declare(url, f"spread-{number}", **{"x-queue-master-locator": "min-masters"})
    declare(url, "q", **{"x-queue-type": "quorum"})
    homes = {queue["name"]: queue["node"] for queue in get(url, "queues")}
    assert homes["here"] == "n1"
    assert {homes["spread-0"], homes["spread-1"]} == {"n2", "n3"}
    shown = await_truth(lambda: (found := get(url, "queues/%2F/q"))["leader"] and found)
    assert shown["members"] == shown["online"] == ["n1", "n2", "n3"]
    assert requests.post(f"{url}/rebalance/queues", auth=GUEST, timeout=60).status_code == 204
    body = {"routing_key": "spread-0", "payload": "x", "payload_encoding": "string"}
    place = f"{url}/exchanges/%2F/amq.default/publish"
    sent = requests.post(place, json={**body, "properties": {}}, auth=GUEST, timeout=60)
    assert sent.json() == {"routed": True}
    there = await_truth(lambda: (found := get(url, "queues/%2F/spread-0"))["messages"] and found)
    assert there["backing_queue_status"]["len"] == there["message_stats"]["publish"] == 1
    await_truth(lambda: get(url, "overview")["queue_totals"]["messages_ready"] == 1)
    assert get(url, "overview")["message_stats"]["publish"] == 1


def clients_of_other_nodes_are_there(node: Served, url: str) -> None:
    parameters = pika.ConnectionParameters(node.host, node.port)
    with pika.BlockingConnection(parameters) as client:
        client.channel().basic_consume("q", lambda *_: None)
        [found] = await_truth(lambda: get(url, "connections"))
        assert (found["node"], found["channels"]) == ("n2", 1)
        assert [row["queue"]["name"] for row in get(url, "consumers")] == ["q"]
        await_truth(lambda: get(url, "nodes/n2")["sockets_used"] == 1)
        assert get(url, "overview")["object_totals"]["connections"] == 1
        place = f"{url}/connections/{quote(found['name'])}"
        assert requests.delete(place, auth=GUEST, timeout=60).status_code == 204
        with pytest.raises(pika.exceptions.AMQPError):
            client.process_data_events(60)


def metrics_are_of_the_node_alone(url: str) -> None:
    """Somebody who scrapes all nodes must not count a message three times."""
    text = requests.get(url.removesuffix("api") + "metrics", timeout=60).text
    assert "\nrabbitmq_queue_messages_ready 0\n" in text
    each = requests.get(url.removesuffix("api") + "metrics/per-object", timeout=60).text
    assert 'queue="here"' in each
    assert 'queue="spread-' not in each


def mirrors_are_synchronised(url: str) -> None:
    """New mirrors that a policy holds back are sent what is in the queue when somebody asks."""
    declare(url, "mirrored")
    queue, policy = f"{url}/queues/%2F/mirrored", f"{url}/policies/%2F/mirrors"
    message = {"routing_key": "mirrored", "payload": "kept", "payload_encoding": "string"}
    publish = f"{url}/exchanges/%2F/amq.default/publish"
    assert requests.post(publish, json=message | {"properties": {}}, auth=GUEST, timeout=60).ok
    definition = {"ha-mode": "all", "ha-sync-mode": "manual"}
    body: dict[str, Any] = {"pattern": "^mirrored", "definition": definition}
    assert requests.put(policy, json=body, auth=GUEST, timeout=60).ok

    def nodes_in(column: str) -> list[str]:
        found: list[str] = get(url, "queues/%2F/mirrored").get(column, [])
        return found

    def acted(action: str) -> int:
        body = {"action": action}
        return requests.post(f"{queue}/actions", json=body, auth=GUEST, timeout=60).status_code

    await_truth(lambda: len(nodes_in("slave_nodes")) == 2)
    assert nodes_in("synchronised_slave_nodes") == []
    assert acted("forget") == 400
    await_truth(lambda: acted("sync") == 204 and len(nodes_in("synchronised_slave_nodes")) == 2)
    assert acted("cancel_sync") == 204
    for place in (policy, queue):
        assert requests.delete(place, auth=GUEST, timeout=60).ok
