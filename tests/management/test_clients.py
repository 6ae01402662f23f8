"""Goal: what was made for RabbitMQ's HTTP API works unchanged. Method: rabbitmqadmin as Debian's
RabbitMQ has it and pyrabbit2, command by command, and the fields of answers that a real RabbitMQ
3.10 gave (rabbitmq_fields.json has their names and types, by the request).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pyrabbit2.api import Client
from pyrabbit2.http import HTTPError

from sluicemq.spark.discovery import find_queues
from sluicemq.spark.options import Options
from support.management import Managed, managed
from support.waiting import await_truth

PLACES = Path("/usr/lib/rabbitmq/lib")
FIELDS: dict[str, str] = json.loads((Path(__file__).parent / "rabbitmq_fields.json").read_text())


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with managed(tmp_path_factory.mktemp("clients")) as found:
        yield found


def admin(own: Managed, *arguments: str) -> str:
    """What rabbitmqadmin says to a command that succeeds."""
    found = sorted(PLACES.glob("*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin"))
    if not found:
        pytest.skip("rabbitmqadmin is not there: apt-get install rabbitmq-server")
    command = [sys.executable, str(found[-1]), "-P", str(own.port), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def test_rabbitmqadmin_declares_lists_publishes_gets_and_deletes(
    own: Managed, tmp_path: Path
) -> None:
    for command in (
        "declare vhost name=test",
        "declare user name=u password=p tags=monitoring",
        "declare permission vhost=test user=u configure=.* write=.* read=.*",
        "declare queue name=q durable=true",
        "declare exchange name=x type=topic",
        "declare binding source=x destination=q routing_key=a.#",
        'declare policy name=p pattern=.* definition={"max-length":9} apply-to=queues',
        'declare operator_policy name=o pattern=.* definition={"max-length":9} apply-to=queues',
        'declare parameter component=c name=n value={"a":1}',
        "declare vhost_limit vhost=test name=max-queues value=10",
    ):
        assert "declared" in admin(own, *command.split())
    assert "NOT routed" in admin(own, "publish", "routing_key=nowhere", "payload=hi")
    assert "published" in admin(own, "publish", "exchange=x", "routing_key=a.b", "payload=hello")
    got = admin(own, "get", "queue=q", "ackmode=ack_requeue_true", "-f", "raw_json")
    assert json.loads(got)[0]["payload"] == "hello"
    listed = admin(own, "list", "queues", "vhost", "name", "messages", "policy", "-f", "tsv")
    assert listed.split() == ["vhost", "name", "messages", "policy", "/", "q", "1", "p"]
    for noun, wanted in (
        ("exchanges", "topic"),
        ("bindings", "a.#"),
        ("vhosts", "test"),
        ("users", "monitoring"),
        ("permissions", "u"),
        ("parameters", "n"),
        ("policies", "max-length"),
        ("operator_policies", "max-length"),
        ("vhost_limits", "max-queues"),
        ("nodes", "sluicemq@"),
    ):
        assert wanted in admin(own, "list", noun)
    for noun in ("connections", "channels", "consumers"):
        assert "No items" in admin(own, "list", noun)
    assert "3.10" in admin(own, "show", "overview")
    file = str(tmp_path / "definitions.json")
    admin(own, "export", file)
    admin(own, "import", file)
    admin(own, "purge", "queue", "name=q")
    for command in (
        "delete binding source=x destination_type=queue destination=q properties_key=a.%23",
        "delete exchange name=x",
        "delete queue name=q",
        "delete policy name=p",
        "delete operator_policy name=o",
        "delete parameter component=c name=n",
        "delete vhost_limit vhost=test name=max-queues",
        "delete permission vhost=test user=u",
        "delete user name=u",
        "delete vhost name=test",
    ):
        assert "deleted" in admin(own, *command.split())


def test_rabbitmqadmin_closes_a_connection(own: Managed) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters(port=own.target.port))
    [row] = own.get("connections")
    assert "closed" in admin(own, "close", "connection", f"name={row['name']}")
    with pytest.raises(pika.exceptions.AMQPError):
        connection.process_data_events(60)


def test_pyrabbit_does_what_it_can(own: Managed) -> None:
    client = Client(f"127.0.0.1:{own.port}", "guest", "guest", timeout=60)
    assert client.is_alive()
    assert client.get_whoami()["name"] == "guest"
    assert client.get_overview()["rabbitmq_version"].startswith("3.10")
    assert client.get_nodes()[0]["running"]
    client.create_vhost("v")
    assert set(client.get_vhost_names()) == {"/", "v"}
    client.create_user("w", "p", tags="management")
    client.set_vhost_permissions("v", "w", ".*", ".*", ".*")
    assert client.get_permission("v", "w")["read"] == ".*"
    assert len(client.get_vhost_permissions("v")) == 2
    client.create_exchange("v", "x", "direct")
    client.create_queue("v", "q")
    client.create_binding("v", "x", "q", "k")
    assert len(client.get_queue_bindings("v", "q")) == 2
    assert client.publish("v", "x", "k", "text")
    await_truth(lambda: client.get_queue_depth("v", "q") == 1)
    assert client.get_messages("v", "q", count=1)[0]["payload"] == "text"
    client.create_policy("v", "p", pattern=".*", definition={"max-length": 5})
    assert client.get_policy("v", "p")["definition"] == {"max-length": 5}
    client.delete_policy("v", "p")
    client.purge_queue("v", "q")
    client.delete_binding("v", "x", "q", "k")
    client.delete_queue("v", "q")
    client.delete_exchange("v", "x")
    client.delete_permission("v", "w")
    client.delete_user("w")
    client.delete_vhost("v")
    client.delete_queue("/", "aliveness-test")
    assert client.get_queues() == []
    assert client.get_connections() == []
    assert client.get_definitions()["queues"] == []
    with pytest.raises(HTTPError, match="404"):
        client.get_queue("/", "nothing")


def test_the_spark_source_finds_queues_by_a_pattern(own: Managed) -> None:
    for name in ("orders.eu", "orders.us", "others"):
        own.do("PUT", f"queues/%2F/{name}", 201, json={"durable": True})
    given = {"queuePattern": "orders[.].*", "managementUrl": own.url}
    options = Options.parse({"uri": own.target.url, **given}, "source")
    assert find_queues(options) == ("orders.eu", "orders.us")
    for name in ("orders.eu", "orders.us", "others"):
        own.do("DELETE", f"queues/%2F/{name}", 204)


LEFT_OUT = (
    "recv_oct",
    "send_oct",
    "sockets_used_details.",
    "contexts.cowboy_opts",
    "contexts.protocol",
    "contexts.ssl_opts",
    "listeners.socket_opts.",
    "metrics_gc_queue_length.",
)
"""Fields that docs/management.md says are left out, or that are in no answer without TLS."""

TYPES = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    type(None): "null",
    list: "list",
    dict: "object",
}


def fields_of(value: Any, before: str = "") -> dict[str, set[str]]:
    """The names of all fields in an answer, those of nested objects behind a dot, with the types of
    their values."""
    found: dict[str, set[str]] = {}
    if isinstance(value, list):
        for item in value:
            for field, types in fields_of(item, before).items():
                found.setdefault(field, set()).update(types)
    elif isinstance(value, dict):
        for key, item in value.items():
            found |= {before + key: {TYPES[type(item)]}} | fields_of(item, f"{before}{key}.")
    return found


def test_every_field_of_rabbitmqs_answers_is_there_and_of_its_type(own: Managed) -> None:
    """With the very objects that RabbitMQ had: two queues, an exchange, a publisher, a consumer."""
    connection = pika.BlockingConnection(
        pika.ConnectionParameters(
            port=own.target.port, client_properties={"connection_name": "both"}
        )
    )
    publisher, consumer = connection.channel(), connection.channel()
    publisher.confirm_delivery()
    publisher.queue_declare("q.classic", durable=True)
    publisher.queue_declare("q.quorum", durable=True, arguments={"x-queue-type": "quorum"})
    publisher.exchange_declare("x.topic", "topic", durable=True)
    for queue in ("q.classic", "q.quorum"):
        publisher.queue_bind(queue, "x.topic", "a.#")
    for _ in range(5):
        publisher.basic_publish("x.topic", "a.b", b"x", pika.BasicProperties(delivery_mode=2))
    consumer.basic_qos(prefetch_count=2)
    consumer.basic_consume("q.classic", lambda *_: None)
    await_truth(lambda: own.get("queues/%2F/q.classic")["messages_unacknowledged"])
    differing = {}
    for path, text in FIELDS.items():
        there = fields_of(own.ask("GET", path).json())
        for wanted in text.split():
            field, _, types = wanted.rpartition(":")
            if not field.startswith(LEFT_OUT) and not (
                there.get(field, set()) and there[field] <= set(types.split("|"))
            ):
                differing[f"{path} {wanted}"] = there.get(field)
    connection.close()
    assert differing == {}
