"""Goal: the management process of one node shows the whole cluster: its nodes, where queues live,
who leads quorum queues, and what becomes of that when a node goes. Method: three nodes, `sluicemq
management` beside the first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from support.served import Served, three_nodes
from support.waiting import await_truth


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
    yield process.stdout.readline().decode().split()[1]
    process.terminate()
    assert process.wait(60) == 0
    process.stdout.close()


def test_one_node_shows_all(nodes: list[Served], url: str) -> None:
    def ask(path: str, body: Any = None) -> Any:
        how = "GET" if body is None else "PUT"
        login = ("guest", "guest")
        answer = requests.request(how, f"{url}/api/{path}", json=body, auth=login, timeout=60)
        assert answer.ok, answer.text
        return answer.json() if how == "GET" else None

    def states() -> dict[str, bool]:
        return {node["name"]: node["running"] for node in ask("nodes")}

    assert states() == {"n1": True, "n2": True, "n3": True}
    assert ask("nodes/n2")["running"] is True
    ask("queues/%2F/here", {"durable": True})
    elsewhere = {"x-queue-master-locator": "min-masters"}
    for number in range(2):
        ask(f"queues/%2F/spread-{number}", {"durable": True, "arguments": elsewhere})
    ask("queues/%2F/q", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    homes = {queue["name"]: queue["node"] for queue in ask("queues")}
    assert homes["here"] == "n1"
    assert {homes["spread-0"], homes["spread-1"]} == {"n2", "n3"}
    shown = await_truth(lambda: (found := ask("queues/%2F/q"))["leader"] and found)
    assert shown["members"] == shown["online"] == ["n1", "n2", "n3"]
    body = {"routing_key": "spread-0", "payload": "x", "payload_encoding": "string"}
    place = f"{url}/api/exchanges/%2F/amq.default/publish"
    sent = requests.post(
        place, json={**body, "properties": {}}, auth=("guest", "guest"), timeout=60
    )
    assert sent.json() == {"routed": True}
    await_truth(lambda: ask("queues/%2F/spread-0")["messages"] == 1)
    nodes[2].end(signal.SIGKILL)
    await_truth(lambda: states() == {"n1": True, "n2": True, "n3": False})
    await_truth(lambda: ask("queues/%2F/q")["online"] == ["n1", "n2"])
    assert ask("queues/%2F/q")["leader"] in ("n1", "n2")
