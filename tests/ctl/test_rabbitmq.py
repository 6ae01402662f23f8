"""Goal: RabbitMQ 3.10 takes over our definitions as they are, and we its; its policies do as ours.

Method: a RabbitMQ of its own, started with bench/brokers.py (so with `bench` on PYTHONPATH, and
skipped otherwise); documents are compared without regard to order and to how RabbitMQ writes
objects (as lists of pairs, here and there).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ctl import policy_scenario
from support import broker

brokers = pytest.importorskip("brokers")
pytestmark = pytest.mark.rabbitmq

RABBITMQCTL = brokers.RABBITMQ.with_name("rabbitmqctl")
SECTIONS = (
    "users vhosts permissions topic_permissions parameters global_parameters policies queues "
    "exchanges bindings"
)
DOCUMENT: dict[str, Any] = {
    "users": [
        {
            "name": "u",
            "password_hash": "whjmJd7nTmWPFoItzF5MGLkdGAREn0iOs1fFSQB/vKEByUfX",
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["management", "policymaker"],
            "limits": {"max-connections": 3},
        },
        {"name": "nobody", "password_hash": "", "tags": []},
    ],
    "vhosts": [
        {"name": "/"},
        {"name": "v", "metadata": {"description": "d", "tags": ["a", "b"]}},
    ],
    "permissions": [{"user": "u", "vhost": "v", "configure": "^a", "write": ".*", "read": ""}],
    "topic_permissions": [
        {"user": "u", "vhost": "v", "exchange": "amq.topic", "write": "^w", "read": "^r"}
    ],
    "parameters": [
        {
            "vhost": "v",
            "component": "operator_policy",
            "name": "o",
            "value": {"pattern": "^q", "definition": {"max-length": 10}, "apply-to": "queues"},
        },
        {"vhost": "v", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 9}},
    ],
    "global_parameters": [{"name": "cluster_name", "value": "here"}],
    "policies": [
        {
            "vhost": "v",
            "name": "p",
            "pattern": "^(?!amq)",
            "apply-to": "all",
            "definition": {"max-length": 20, "dead-letter-exchange": "dlx", "ha-mode": "all"},
            "priority": -5,
        }
    ],
    "queues": [
        {
            "name": "q",
            "vhost": "v",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-max-length": 5, "x-own": {"a": [1, "b", True, 1.5]}},
        },
        {"name": "transient", "vhost": "v", "durable": False, "auto_delete": True},
        {
            "name": "log",
            "vhost": "/",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "stream", "x-max-age": "1D"},
        },
    ],
    "exchanges": [
        {
            "name": "x",
            "vhost": "v",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "arguments": {"alternate-exchange": "y"},
        },
        {"name": "y", "vhost": "v", "type": "fanout", "durable": False, "auto_delete": True},
    ],
    "bindings": [
        {
            "source": "x",
            "vhost": "v",
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "a.*",
            "arguments": {"k": "v"},
        },
        {
            "source": "x",
            "vhost": "v",
            "destination": "y",
            "destination_type": "exchange",
            "routing_key": "#",
        },
    ],
}


def plain(value: Any) -> Any:
    """Lists of pairs are objects, and so is an empty list."""
    if isinstance(value, list) and all(isinstance(each, list) and len(each) == 2 for each in value):
        return {key: plain(each) for key, each in value}
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def normal(path: Path) -> dict[str, list[str]]:
    """Sections in an order of their own, without what only one of the two writes."""
    document = json.loads(path.read_text())
    found: dict[str, list[str]] = {}
    for section in SECTIONS.split():
        rows = []
        for each in map(plain, document[section]):
            if each.get("name") in ("guest", "internal_cluster_id"):
                continue
            each.pop("internal", None)
            if section == "vhosts":
                each.pop("limits")
            rows.append(json.dumps(each, sort_keys=True))
        found[section] = sorted(rows)
    return found


def test_rabbitmq_does_as_we_do(tmp_path: Path) -> None:
    port = brokers.free_port()
    first, theirs, second = (tmp_path / f"{name}.json" for name in ("first", "theirs", "second"))
    (tmp_path / "document.json").write_text(json.dumps(DOCUMENT))

    def rabbitmqctl(*arguments: str) -> None:
        command = [str(RABBITMQCTL), "-n", f"bench{port}@localhost", *arguments]
        environment = os.environ | {"HOME": str(home), "RABBITMQ_CONF_ENV_FILE": "/dev/null"}
        subprocess.run(command, env=environment, check=True, timeout=240, capture_output=True)

    def ctl(at: int, *arguments: str) -> None:
        command = [sys.executable, "-m", "sluicemq", "ctl", *arguments, "--port", str(at)]
        subprocess.run(command, check=True, timeout=240, capture_output=True)

    home = tmp_path / "rabbitmq"
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with broker.serving(tmp_path / "a") as target:
        ctl(target.port, "import_definitions", str(tmp_path / "document.json"))
        ctl(target.port, "export_definitions", str(first))
    with brokers.rabbitmq(port, home):
        rabbitmqctl("await_startup")
        rabbitmqctl("import_definitions", str(first))
        rabbitmqctl("export_definitions", str(theirs))
        policy_scenario.run(port, rabbitmqctl)
    with broker.serving(tmp_path / "b") as target:
        ctl(target.port, "import_definitions", str(theirs))
        ctl(target.port, "export_definitions", str(second))
    assert normal(theirs) == normal(first)
    assert normal(second) == normal(first)
    assert all(normal(first).values())
