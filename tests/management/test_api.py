"""Goal: the HTTP API says what is, under RabbitMQ's names, and does what is asked. Method: a broker
and its management process, pika as the client whose doings are looked at.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pika
import pytest

from support.management import Managed, managed
from support.waiting import PATIENCE_S, await_truth


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with managed(tmp_path_factory.mktemp("management")) as found:
        yield found


@pytest.fixture
def channel(own: Managed) -> Iterator[Any]:
    port = own.target.port
    connection = pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1", port, client_properties={"connection_name": "the client"}
        )
    )
    yield connection.channel()
    if connection.is_open:
        connection.close()


def test_a_queue_with_traffic_is_shown_with_counts_rates_and_stages(
    own: Managed, channel: Any
) -> None:
    channel.confirm_delivery()
    channel.queue_declare("busy", durable=True, arguments={"x-max-length": 1000})
    for _ in range(5):
        channel.basic_publish("", "busy", b"12345", pika.BasicProperties(delivery_mode=2))
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume("busy", lambda *_: None, consumer_tag="ct")
    channel.connection.process_data_events(0)
    shown = await_truth(
        lambda: (
            (found := own.get("queues/%2F/busy"))
            and found["messages_unacknowledged"] == 2
            and found
        )
    )
    assert (shown["messages"], shown["messages_ready"], shown["consumers"]) == (5, 3, 1)
    assert shown["arguments"] == {"x-max-length": 1000}
    assert (shown["type"], shown["policy"], shown["durable"]) == ("classic", None, True)
    stages = shown["backing_queue_status"]
    assert stages["delta"] == ["delta", "undefined", 0, 0, "undefined"]
    assert stages["q1"] + stages["q2"] + stages["q3"] + stages["q4"] == 3
    [consumer] = shown["consumer_details"]
    assert (consumer["consumer_tag"], consumer["prefetch_count"]) == ("ct", 2)
    assert shown["message_stats"]["publish"] == 5
    assert shown["message_stats"]["deliver_get"] == 2
    [listed] = [each for each in own.get("queues") if each["name"] == "busy"]
    assert listed["messages"] == 5

    def rates() -> bool:
        channel.basic_publish("", "busy", b"x")
        found = own.get("queues/%2F/busy?msg_rates_age=60&msg_rates_incr=1")
        stats = found["message_stats"]["publish_details"]
        return stats["rate"] > 0 and len(stats["samples"]) > 0

    await_truth(rates)
    [exchange] = [each for each in own.get("exchanges/%2F") if each["name"] == ""]
    assert exchange["message_stats"]["publish_in"] >= 6
    assert own.get("overview")["message_stats"]["confirm"] >= 6
    [vhost] = own.get("vhosts")
    assert vhost["message_stats"]["publish"] >= 6
    channel.connection.close()
    own.do("DELETE", "queues/%2F/busy")


def test_a_client_is_shown_and_closed_with_the_reason_that_was_given(
    own: Managed, channel: Any
) -> None:
    [connection] = own.get("connections")
    assert connection["user_provided_name"] == "the client"
    assert (connection["user"], connection["vhost"], connection["channels"]) == ("guest", "/", 1)
    assert connection["recv_oct"] > 0
    [shown] = own.get(f"connections/{quote(connection['name'], safe='')}/channels")
    assert shown["name"] == f"{connection['name']} (1)"
    assert shown["connection_details"]["peer_port"] == connection["peer_port"]
    place = f"connections/{quote(connection['name'], safe='')}"
    own.do("DELETE", place, 204, headers={"X-Reason": "tea time"})
    with pytest.raises(pika.exceptions.AMQPError, match="tea time"):
        channel.connection.process_data_events(PATIENCE_S)
    await_truth(lambda: not own.get("connections"))
    own.do("DELETE", place, 404)


def test_queues_exchanges_and_bindings_are_declared_and_deleted(own: Managed) -> None:
    odd = quote("a/b ä%", safe="")
    assert own.do("PUT", f"queues/%2F/{odd}", json={"durable": True}).status_code == 201
    assert own.do("PUT", f"queues/%2F/{odd}", json={"durable": True}).status_code == 204
    refused = own.do("PUT", f"queues/%2F/{odd}", 400, json={"durable": False}).json()
    assert refused["error"] == "bad_request"
    assert "inequivalent arg 'durable'" in refused["reason"]
    assert own.get(f"queues/%2F/{odd}")["name"] == "a/b ä%"
    assert own.do("PUT", "exchanges/%2F/x", json={"type": "topic"}).status_code == 201
    made = own.do(
        "POST",
        f"bindings/%2F/e/x/q/{odd}",
        json={"routing_key": "a.#", "arguments": {"k": 1}},
    )
    assert made.status_code == 201
    [binding] = own.get(f"bindings/%2F/e/x/q/{odd}")
    assert (binding["routing_key"], binding["arguments"]) == ("a.#", {"k": 1})
    assert made.headers["location"].endswith(quote(binding["properties_key"], safe=""))
    assert [each["source"] for each in own.get(f"queues/%2F/{odd}/bindings")] == ["", "x"]
    assert len(own.get("exchanges/%2F/x/bindings/source")) == 1
    place = f"bindings/%2F/e/x/q/{odd}/{quote(binding['properties_key'], safe='')}"
    assert own.get(place) == binding
    own.do("DELETE", place, 204)
    own.do("DELETE", place, 404)
    own.do("DELETE", "exchanges/%2F/x", 204)
    own.do("DELETE", f"queues/%2F/{odd}", 204)
    own.do("GET", f"queues/%2F/{odd}", 404)


def test_messages_are_published_got_and_purged(own: Managed) -> None:
    own.do("PUT", "queues/%2F/box", json={})
    properties = {"delivery_mode": 2, "headers": {"a": [1, {"b": "c"}]}, "timestamp": 5}
    sent = {"routing_key": "box", "properties": properties}
    text = sent | {"payload": "häh", "payload_encoding": "string"}
    raw = sent | {"payload": base64.b64encode(b"\xff\x00").decode(), "payload_encoding": "base64"}
    for message in (text, raw):
        assert own.do("POST", "exchanges/%2F/amq.default/publish", json=message).json() == {
            "routed": True
        }
    lost = own.do("POST", "exchanges/%2F/amq.default/publish", json=text | {"routing_key": "no"})
    assert lost.json() == {"routed": False}
    asked = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    one, two = own.do("POST", "queues/%2F/box/get", json=asked).json()
    assert (one["payload"], one["payload_encoding"]) == ("häh", "string")
    assert one["properties"] == properties
    assert (two["payload"], two["payload_encoding"]) == ("/wA=", "base64")
    assert (one["message_count"], two["message_count"], two["redelivered"]) == (1, 0, False)
    asked |= {"count": 1, "ackmode": "ack_requeue_false", "truncate": 1}
    [cut] = own.do("POST", "queues/%2F/box/get", json=asked).json()
    assert (cut["payload"], cut["payload_bytes"], cut["redelivered"]) == ("h", 4, True)
    assert own.get("queues/%2F/box")["messages"] == 1
    own.do("DELETE", "queues/%2F/box/contents", 204)
    assert own.get("queues/%2F/box")["messages"] == 0
    for wrong in (asked | {"ackmode": "maybe"}, asked | {"count": "x"}, asked | {"encoding": "?"}):
        own.do("POST", "queues/%2F/box/get", 400, json=wrong)
    own.do("POST", "exchanges/%2F/amq.default/publish", 400, json=text | {"properties": {"x": 1}})
    own.do("DELETE", "queues/%2F/box?if-empty=true&if-unused=true", 204)


def test_lists_come_by_pages_sorted_filtered_and_with_some_columns(own: Managed) -> None:
    for number in range(7):
        own.do("PUT", f"queues/%2F/page-{number}", json={})
    page = own.get("queues?page=2&page_size=3&name=PAGE&sort=name&sort_reverse=true&columns=name")
    assert page == {
        "filtered_count": 7,
        "item_count": 3,
        "items": [{"name": "page-3"}, {"name": "page-2"}, {"name": "page-1"}],
        "page": 2,
        "page_count": 3,
        "page_size": 3,
        "total_count": len(own.get("queues")),
    }
    assert len(own.get("queues?page=1&name=page-[0-2]$&use_regex=true")["items"]) == 3
    [row] = own.get("queues/%2F?name=page-5&columns=name,backing_queue_status.q1")
    assert row == {"name": "page-5", "backing_queue_status": {"q1": 0}}
    assert own.do("GET", "queues?page=99", 400).json()["error"] == "page_out_of_range"
    for wrong in ("page=0", "page=x", "page=1&page_size=501", "page=1&name=(&use_regex=true"):
        own.do("GET", f"queues?{wrong}", 400)
    for number in range(7):
        own.do("DELETE", f"queues/%2F/page-{number}")


def test_users_rights_and_tags_decide_who_sees_what(own: Managed) -> None:
    own.do("PUT", "vhosts/other", json={"description": "theirs", "tags": "a,b"})
    own.do("PUT", "queues/other/hidden", json={})
    for name, tags in (("man", "management"), ("mon", "monitoring"), ("none", "")):
        made = own.do("PUT", f"users/{name}", json={"password": "p", "tags": tags})
        assert made.status_code == 201
    rights = {"configure": "^man-", "write": ".*", "read": ".*"}
    assert own.do("PUT", "permissions/%2F/man", json=rights).status_code == 201
    man = {"user": "man", "password": "p"}
    assert own.get("whoami", **man) == {"name": "man", "tags": ["management"]}
    assert [each["name"] for each in own.get("vhosts", **man)] == ["/"]
    assert "hidden" not in [each["name"] for each in own.get("queues", **man)]
    own.do("GET", "queues/other/hidden", 401, **man)
    own.do("GET", "queues/nowhere/hidden", 404, **man)
    own.do("GET", "nodes", 401, **man)
    own.do("GET", "users", 401, **man)
    own.do("PUT", "queues/%2F/man-1", 201, json={}, **man)
    refused = own.do("PUT", "queues/%2F/other-1", 401, json={}, **man).json()
    assert "access to queue 'other-1' in vhost '/' refused for user 'man'" in refused["reason"]
    assert "churn_rates" in own.get("overview", **man)
    mon = {"user": "mon", "password": "p"}
    assert "hidden" in [each["name"] for each in own.get("queues", **mon)]
    assert own.get("nodes", **mon)[0]["running"]
    own.do("DELETE", "queues/other/hidden", 401, **mon)
    own.do("PUT", "vhosts/third", 401, json={}, **mon)
    own.do("GET", "whoami", 401, user="none", password="p")
    own.do("GET", "whoami", 401, user="nobody", password="p")
    [tried] = own.get(f"auth/attempts/{own.get('overview')['node']}")
    assert tried["auth_attempts"] > tried["auth_attempts_failed"] >= 1
    own.do("DELETE", "queues/%2F/man-1", 204, **man)
    own.do("POST", "users/bulk-delete", 204, json={"users": ["man", "mon", "none", "gone"]})
    own.do("DELETE", "vhosts/other", 204)
    own.do("GET", "vhosts/other", 404)


def test_policies_parameters_and_limits_are_set_and_cleared(own: Managed) -> None:
    policy = {"pattern": "^p", "definition": {"max-length": 5}, "priority": 2, "apply-to": "queues"}
    assert own.do("PUT", "policies/%2F/one", json=policy).status_code == 201
    assert own.do("PUT", "policies/%2F/one", json=policy).status_code == 204
    assert own.get("policies/%2F/one") == {"vhost": "/", "name": "one", **policy}
    own.do("PUT", "queues/%2F/paged", json={})
    assert own.get("queues/%2F/paged")["policy"] == "one"
    own.do("PUT", "policies/%2F/two", 400, json=policy | {"definition": {"rubbish": 1}})
    own.do("DELETE", "policies/%2F/one", 204)
    own.do("DELETE", "policies/%2F/one", 404)
    own.do("PUT", "operator-policies/%2F/op", 201, json=policy)
    own.do("DELETE", "operator-policies/%2F/op", 204)
    own.do("PUT", "parameters/c/%2F/n", 201, json={"value": {"a": 1}})
    assert own.get("parameters/c/%2F") == [
        {"component": "c", "vhost": "/", "name": "n", "value": {"a": 1}}
    ]
    own.do("DELETE", "parameters/c/%2F/n", 204)
    own.do("PUT", "cluster-name", 204, json={"name": "wharf"})
    assert own.get("cluster-name") == {"name": "wharf"}
    assert own.get("global-parameters/cluster_name")["value"] == "wharf"
    own.do("DELETE", "global-parameters/cluster_name", 204)
    own.do("PUT", "vhost-limits/%2F/max-queues", 204, json={"value": 100})
    assert own.get("vhost-limits/%2F") == [{"vhost": "/", "value": {"max-queues": 100}}]
    own.do("DELETE", "vhost-limits/%2F/max-queues", 204)
    own.do("PUT", "user-limits/guest/max-channels", 204, json={"value": 50})
    assert own.get("user-limits/guest") == [{"user": "guest", "value": {"max-channels": 50}}]
    own.do("DELETE", "user-limits/guest/max-channels", 204)
    assert own.get("user-limits") == []
    own.do("DELETE", "queues/%2F/paged")


def test_definitions_go_out_and_in_all_or_nothing(own: Managed) -> None:
    own.do("PUT", "queues/%2F/kept", json={"durable": True})
    document = own.get("definitions")
    assert [each["name"] for each in document["queues"]] == ["kept"]
    own.do("DELETE", "queues/%2F/kept")
    [change] = own.do("POST", "definitions?dry_run=true", 200, json=document).json()
    assert "kept" in str(change)
    own.do("GET", "queues/%2F/kept", 404)
    own.do("POST", "definitions", 204, json=document)
    assert own.get("queues/%2F/kept")["durable"]
    broken = document | {"queues": [{"name": "half"}]}
    assert "queues[0]" in own.do("POST", "definitions", 400, json=broken).json()["reason"]
    part = own.get("definitions/%2F?download=file.json")
    assert "users" not in part
    own.do("POST", "definitions/%2F", 204, json=part)
    own.do("DELETE", "queues/%2F/kept")


def test_the_node_its_memory_and_its_health_are_shown(own: Managed) -> None:
    [node] = own.get("nodes")
    assert node["os_pid"] == str(own.target.pid)
    assert node["fd_used"] > 5
    assert node["io_sync_count"] > 0
    assert node["io_sync_count_details"]["rate"] >= 0
    memory = own.get(f"nodes/{node['name']}/memory")["memory"]
    total = memory.pop("total")["rss"]
    parts = [size for name, size in memory.items() if name != "strategy"]
    assert sum(parts) == pytest.approx(total, rel=0.1)
    own.do("GET", "nodes/other", 404)
    own.do("POST", "rebalance/queues", 204)
    for check in ("alarms", "local-alarms", "virtual-hosts", "is-in-service"):
        assert own.get(f"health/checks/{check}") == {"status": "ok"}
    assert own.get("health/checks/node-is-quorum-critical") == {
        "status": "ok",
        "reason": "single node cluster",
    }
    port = own.target.port
    assert own.get(f"health/checks/port-listener/{port}") == {"status": "ok", "port": port}
    failed = own.do("GET", "health/checks/port-listener/1", 503).json()
    assert (failed["reason"], failed["missing"]) == ("No active listener", 1)
    assert own.get("health/checks/protocol-listener/amqp")["status"] == "ok"
    own.do("GET", "health/checks/certificate-expiration/1/weeks", 200)
    assert own.get("aliveness-test/%2F") == {"status": "ok"}
    own.do("DELETE", "queues/%2F/aliveness-test", 204)


def test_what_makes_no_sense_is_refused_and_get_changes_nothing(own: Managed) -> None:
    assert own.do("GET", "rubbish", 404).json()["error"] == "Object Not Found"
    answer = own.do("PATCH", "queues/%2F/q", 405)
    assert "PUT" in answer.headers["allow"]
    own.do("GET", "queues/%2F/q/contents", 405)
    own.do("PUT", "queues/%2F/q", 400, data=b"{")
    own.do("PUT", "queues/%2F/q", 400, data=b"[1]")
    own.do("PUT", "queues/%2F/q", 400, json={"durable": "maybe"})
    own.do("PUT", "queues/%2F/amq.q", 401, 400, json={})
    assert "content-security-policy" in answer.headers
    assert (
        own.ask("GET", "whoami", password="wrong").headers["www-authenticate"].startswith("Basic")
    )
