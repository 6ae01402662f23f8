"""Goal: rabbitmqadmin v2 works unchanged, command by command. Method: its binary comes from no
registry that there is here, so each of its requests stands here as its client library makes it, in
the order of somebody's day; `fields` are those without which it does not read the answer, with
their types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pika
import pytest

from support.management import Managed, managed
from support.waiting import await_truth

TYPES = {"string": str, "number": int | float, "boolean": bool, "list": list, "object": dict}
QUEUE = "name:string vhost:string type:string durable:boolean auto_delete:boolean exclusive:boolean"
EXCHANGE = "name:string vhost:string type:string durable:boolean auto_delete:boolean"
BINDING = "vhost:string source:string destination:string destination_type:string routing_key:string"
POLICY = "name:string vhost:string pattern:string apply-to:string priority:number definition:object"
FLAG = "name:string state:string desc:string doc_url:string stability:string provided_by:string"
PAGE = "filtered_count:number item_count:number items:list page:number page_count:number"
MEMORY = """
    connection_readers connection_writers connection_channels connection_other queue_procs
    quorum_queue_procs stream_queue_procs stream_queue_replica_reader_procs
    stream_queue_coordinator_procs plugins metadata_store other_proc metrics mgmt_db mnesia
    quorum_ets metadata_store_ets other_ets binary msg_index code atom other_system
    allocated_unused reserved_unallocated
"""


class Step(NamedTuple):
    """One request; `codes` are those with which the command succeeds."""

    command: str
    method: str
    path: str
    fields: str = ""
    body: Any = None
    codes: tuple[int, ...] = (200, 201, 204)


RIGHTS = {"configure": ".*", "write": ".*", "read": ".*"}
HASH = "KSgnRxnRIfBFVYpVOLJhjbtyPAnyAXq3qAYr9Y8LBq5tHQ6Q"
STEPS = (
    Step(
        "vhosts declare", "PUT", "vhosts/v2", body={"name": "v2", "tracing": False, "tags": ["a"]}
    ),
    Step("vhosts list", "GET", "vhosts", "name:string"),
    Step(
        "users declare",
        "PUT",
        "users/u",
        body={"name": "u", "password_hash": HASH, "tags": "monitoring"},
    ),
    Step("users list", "GET", "users", "name:string tags:list password_hash:string"),
    Step(
        "permissions declare", "PUT", "permissions/v2/u", body={"user": "u", "vhost": "v2"} | RIGHTS
    ),
    Step(
        "permissions list",
        "GET",
        "permissions",
        "user:string vhost:string configure:string read:string write:string",
    ),
    Step(
        "queues declare",
        "PUT",
        "queues/%2F/q",
        body={"name": "q", "durable": True, "auto_delete": False, "exclusive": False}
        | {"arguments": {"x-queue-type": "quorum"}},
    ),
    Step(
        "streams declare",
        "PUT",
        "queues/%2F/s",
        body={"name": "s", "durable": True, "auto_delete": False, "exclusive": False}
        | {"arguments": {"x-queue-type": "stream"}},
    ),
    Step("queues list", "GET", "queues", QUEUE + " arguments:object"),
    Step("queues list --page", "GET", "queues/%2F?page=1&page_size=100", PAGE),
    Step("queues show", "GET", "queues/%2F/q", QUEUE),
    Step("queues list, detailed", "GET", "queues/detailed", QUEUE),
    Step(
        "exchanges declare",
        "PUT",
        "exchanges/%2F/x",
        body={"type": "topic", "durable": True, "auto_delete": False},
    ),
    Step("exchanges list", "GET", "exchanges", EXCHANGE + " arguments:object"),
    Step("bindings declare", "POST", "bindings/%2F/e/x/q/q", body={"routing_key": "a.#"}),
    Step("bindings list", "GET", "bindings", BINDING + " arguments:object"),
    Step("exchanges, bindings of", "GET", "exchanges/%2F/x/bindings/source", BINDING),
    Step(
        "publish message",
        "POST",
        "exchanges/%2F/x/publish",
        "routed:boolean",
        {"routing_key": "a.b", "payload": "hi", "payload_encoding": "string", "properties": {}},
    ),
    Step(
        "get messages",
        "POST",
        "queues/%2F/q/get",
        "payload_bytes:number redelivered:boolean exchange:string routing_key:string"
        " message_count:number payload:string payload_encoding:string",
        {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"},
    ),
    Step("queues purge", "DELETE", "queues/%2F/q/contents"),
    Step(
        "policies declare",
        "PUT",
        "policies/%2F/p",
        body={"vhost": "/", "name": "p", "pattern": "^p$", "apply-to": "quorum_queues"}
        | {"priority": 1, "definition": {"max-length": 9}},
    ),
    Step("policies list", "GET", "policies", POLICY),
    Step("policies list_in", "GET", "policies/%2F", POLICY),
    Step("policies show", "GET", "policies/%2F/p", POLICY),
    Step("policies delete", "DELETE", "policies/%2F/p"),
    Step(
        "operator_policies declare",
        "PUT",
        "operator-policies/%2F/o",
        body={"vhost": "/", "name": "o", "pattern": "^p$", "apply-to": "queues"}
        | {"priority": 1, "definition": {"max-length": 9}},
    ),
    Step("operator_policies list", "GET", "operator-policies", POLICY),
    Step("operator_policies delete", "DELETE", "operator-policies/%2F/o"),
    Step(
        "parameters set",
        "PUT",
        "parameters/c/%2F/n",
        body={"name": "n", "vhost": "/", "component": "c", "value": {"a": 1}},
    ),
    Step("parameters list_all", "GET", "parameters", "name:string vhost:string component:string"),
    Step("parameters clear", "DELETE", "parameters/c/%2F/n"),
    Step("global_parameters set", "PUT", "global-parameters/g", body={"name": "g", "value": 1}),
    Step("global_parameters list", "GET", "global-parameters", "name:string"),
    Step("global_parameters clear", "DELETE", "global-parameters/g"),
    Step("vhost_limits declare", "PUT", "vhost-limits/v2/max-queues", body={"value": 3}),
    Step("vhost_limits list", "GET", "vhost-limits", "vhost:string value:object"),
    Step("vhost_limits delete", "DELETE", "vhost-limits/v2/max-queues"),
    Step("user_limits declare", "PUT", "user-limits/u/max-channels", body={"value": 3}),
    Step("user_limits list", "GET", "user-limits", "user:string value:object"),
    Step("user_limits delete", "DELETE", "user-limits/u/max-channels"),
    Step("show overview", "GET", "overview", "cluster_name:string node:string"),
    Step(
        "show churn",
        "GET",
        "overview",
        "churn_rates.connection_created:number churn_rates.connection_closed:number"
        " churn_rates.queue_declared:number churn_rates.channel_closed:number"
        " object_totals.connections:number queue_totals.messages:number"
        " queue_totals.messages_details.rate:number statistics_db_event_queue:number",
    ),
    Step(
        "nodes list",
        "GET",
        "nodes",
        "name:string uptime:number run_queue:number processors:number os_pid:string fd_total:number"
        " proc_total:number mem_limit:number mem_alarm:boolean disk_free_limit:number"
        " disk_free_alarm:boolean rates_mode:string enabled_plugins:list being_drained:boolean",
    ),
    Step(
        "nodes memory_breakdown_in_bytes",
        "GET",
        "nodes/NODE/memory",
        " ".join(f"memory.{name}:number" for name in MEMORY.split())
        + " memory.total.rss:number memory.total.allocated:number memory.total.erlang:number"
        " memory.strategy:string",
    ),
    Step(
        "auth_attempts stats",
        "GET",
        "auth/attempts/NODE",
        "protocol:string auth_attempts:number auth_attempts_failed:number"
        " auth_attempts_succeeded:number",
    ),
    Step(
        "connections list",
        "GET",
        "connections",
        "name:string node:string protocol:string user:string connected_at:number",
    ),
    Step(
        "connections list_of_user", "GET", "connections/username/guest", "name:string node:string"
    ),
    Step(
        "channels list",
        "GET",
        "channels",
        "number:number name:string vhost:string state:string consumer_count:number confirm:boolean"
        " prefetch_count:number messages_unacknowledged:number messages_unconfirmed:number",
    ),
    Step(
        "consumers list",
        "GET",
        "consumers",
        "consumer_tag:string active:boolean ack_required:boolean prefetch_count:number"
        " exclusive:boolean arguments:object consumer_timeout:number queue.name:string"
        " queue.vhost:string channel_details.number:number channel_details.connection_name:string"
        " channel_details.peer_port:number",
    ),
    Step("feature_flags list", "GET", "feature-flags", FLAG),
    Step(
        "feature_flags enable",
        "PUT",
        "feature-flags/quorum_queue/enable",
        body={"name": "quorum_queue"},
    ),
    Step("deprecated_features list", "GET", "deprecated-features"),
    Step("deprecated_features list_used", "GET", "deprecated-features/used"),
    Step("federation list_all_links", "GET", "federation-links"),
    Step("shovels list_all", "GET", "shovels"),
    Step("rebalance queues", "POST", "rebalance/queues", body={}),
    Step("health_check cluster_wide_alarms", "GET", "health/checks/alarms", codes=(200,)),
    Step("health_check local_alarms", "GET", "health/checks/local-alarms", codes=(200,)),
    Step(
        "health_check node_is_quorum_critical",
        "GET",
        "health/checks/node-is-quorum-critical",
        codes=(200,),
    ),
    Step("health_check port_listener", "GET", "health/checks/port-listener/PORT", codes=(200,)),
    Step(
        "health_check port_listener, of none",
        "GET",
        "health/checks/port-listener/1",
        "status:string reason:string",
        codes=(503,),
    ),
    Step(
        "health_check protocol_listener",
        "GET",
        "health/checks/protocol-listener/amqp",
        codes=(200,),
    ),
    Step(
        "definitions export",
        "GET",
        "definitions",
        "users:list vhosts:list permissions:list parameters:list policies:list queues:list"
        " exchanges:list bindings:list",
    ),
    Step(
        "definitions export_from_vhost",
        "GET",
        "definitions/v2",
        "parameters:list policies:list queues:list exchanges:list bindings:list",
    ),
    Step("definitions import", "POST", "definitions", body={"queues": []}),
    Step("definitions import_into_vhost", "POST", "definitions/v2", body={"queues": []}),
    Step("bindings delete", "DELETE", "bindings/%2F/e/x/q/q/a.%2523"),
    Step("exchanges delete", "DELETE", "exchanges/%2F/x"),
    Step("queues delete", "DELETE", "queues/%2F/q"),
    Step("queues delete --idempotently", "DELETE", "queues/%2F/q", codes=(404,)),
    Step("permissions delete", "DELETE", "permissions/v2/u"),
    Step("users delete", "DELETE", "users/u"),
    Step("vhosts delete", "DELETE", "vhosts/v2"),
    Step("connections close_of_user", "DELETE", "connections/username/guest"),
)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with managed(tmp_path_factory.mktemp("v2")) as found:
        yield found


def lacking(answer: Any, fields: str) -> list[str]:
    """The fields that an answer has not, or of another type; of a list, its first item has them."""
    found = []
    for field in fields.split():
        path, _, kind = field.rpartition(":")
        value = answer[0] if isinstance(answer, list) else answer
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        is_flag = isinstance(value, bool)
        if not isinstance(value, TYPES[kind]) or is_flag != (kind == "boolean"):
            found.append(f"{field} is {value!r}")
    return found


def problem_of(step: Step, own: Managed, names: dict[str, str]) -> str:
    """What is wrong with the answer to a request; "" when nothing is."""
    path = step.path
    for word, name in names.items():
        path = path.replace(word, name)
    answer = own.ask(step.method, path, json=step.body)
    if answer.status_code not in step.codes:
        return f"{answer.status_code} {answer.text}"
    lost = lacking(answer.json(), step.fields) if step.fields else []
    return ", ".join(lost)


def test_every_command_of_rabbitmqadmin_v2(own: Managed) -> None:
    client = pika.BlockingConnection(pika.ConnectionParameters(port=own.target.port))
    channel = client.channel()
    channel.queue_declare("consumed", exclusive=True)
    channel.basic_consume("consumed", lambda *_: None)
    await_truth(lambda: own.get("consumers"))
    names = {"NODE": own.get("overview")["node"], "PORT": str(own.target.port)}
    problems = {step.command: problem_of(step, own, names) for step in STEPS}
    assert {command: problem for command, problem in problems.items() if problem} == {}
    with pytest.raises(pika.exceptions.AMQPError):  # the last step has closed it
        client.process_data_events(60)
