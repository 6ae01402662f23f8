"""The overview, the nodes, the cluster's name, and the user of the request."""

from __future__ import annotations

import json
from typing import Any, Final

from sluicemq.manage.record_columns import QUEUES, VHOSTS
from sluicemq.management.api_error import bad_request, not_found
from sluicemq.management.call import ApiAnswer, ApiRoute, Call, text_in
from sluicemq.management.cluster_inventory import node_name
from sluicemq.management.inventory import CHAIN, Record
from sluicemq.management.listing import as_wanted, only
from sluicemq.management.node_shape import (
    memory_breakdown,
    node_shape,
    other_node,
    overview_shape,
)
from sluicemq.management.node_watch import NodeWatch
from sluicemq.management.sign_in import ADMINISTRATOR, MANAGEMENT, MONITORING, public

FEATURES: Final = (
    "classic_mirrored_queue_version",
    "drop_unroutable_metric",
    "empty_basic_get_metric",
    "implicit_default_bindings",
    "maintenance_mode_status",
    "quorum_queue",
    "stream_queue",
    "user_limits",
    "virtual_host_metadata",
)
"""RabbitMQ 3.10's feature flags: all are enabled, and none can be turned off."""


async def overview(call: Call) -> ApiAnswer:
    """Return the overview: for monitors of all virtual hosts, for others of the user's own."""
    desk = call.desk
    node = await desk.inventory.node()
    vhosts = await desk.inventory.all(VHOSTS)
    name = await desk.cluster_name()
    own = desk.listeners if call.is_monitor else []
    shown = overview_shape(node, desk.sampler, vhosts, own, name, call.wish)
    if not call.is_monitor:
        restrict(shown, call, vhosts, await desk.inventory.all(QUEUES))
    if call.query.get("columns"):
        shown = only(shown, call.query["columns"])
    return ApiAnswer(shown)


def restrict(shown: dict[str, Any], call: Call, vhosts: list[Record], queues: list[Record]) -> None:
    """Reduce an overview to what a user who is no monitor may see."""
    seen = {row["name"] for row in vhosts if call.sees_vhost(row["name"])}
    for name in ("churn_rates", "message_stats"):
        shown[name] = {}
    shown["listeners"] = shown["contexts"] = []
    own = [row for row in queues if row["vhost"] in seen]
    shown["object_totals"] = {"queues": len(own)}
    shown["queue_totals"] = {
        name: sum(row[name] for row in own)
        for name in ("messages", "messages_ready", "messages_unacknowledged")
    }


async def whoami(call: Call) -> ApiAnswer:
    """Return the user of the request, with its tags."""
    return ApiAnswer(public(call.visitor))


async def cluster_name(call: Call) -> ApiAnswer:
    """Return the cluster's name: the one that was set, or the node's."""
    return ApiAnswer({"name": await call.desk.cluster_name()})


async def set_cluster_name(call: Call) -> ApiAnswer:
    """Set the cluster's name, which is a global parameter."""
    name = text_in(call.body(), "name")
    if not name:
        raise bad_request("name is empty")
    await call.desk.change("set_global_parameter", name="cluster_name", value=json.dumps(name))
    return ApiAnswer(None, 204)


async def extensions(_: Call) -> ApiAnswer:
    """Return the extensions of the page, which RabbitMQ's page requests."""
    return ApiAnswer([{"javascript": "dispatcher.js"}])


async def all_nodes(call: Call) -> list[dict[str, Any]]:
    """Return all nodes of the cluster, the local one first: its figures are current, those of
    others are the last ones that they reported."""
    desk = call.desk
    node = await desk.inventory.node()
    watches = desk.sampler.nodes
    watch = watches.get(node_name(node)) or NodeWatch(desk.link.pid)
    shown = [node_shape(node, watch, desk.listeners, call.wish)]
    if node["name"] is not None:
        for row in await desk.link.ask("cluster_status"):
            other = watches.get(row["node"])
            if row["node"] == node["name"]:
                continue
            if other is None or not other.told:
                shown.append(other_node(row))
            else:
                shown.append(node_shape(other.told, other, (), call.wish, row["running"]))
    return shown


async def nodes(call: Call) -> ApiAnswer:
    """Return all nodes of the cluster."""
    return ApiAnswer(as_wanted(await all_nodes(call), call.query))


async def node(call: Call) -> ApiAnswer:
    """Return one node; with `memory=true` its memory breakdown, too."""
    for shown in await all_nodes(call):
        if shown["name"] == call.path["node"]:
            if call.query.get("memory") == "true":
                shown["memory"] = await memory_of(call, shown["name"])
            if call.query.get("columns"):
                shown = only(shown, call.query["columns"])
            return ApiAnswer(shown)
    raise not_found()


async def node_memory(call: Call) -> ApiAnswer:
    """Return the memory breakdown of a node."""
    return ApiAnswer({"memory": await memory_of(call, call.path["node"])})


async def memory_of(call: Call, name: str) -> dict[str, Any]:
    """Return the memory breakdown of the node of this name. Raises ApiError when there is no such
    node, or it has not reported yet."""
    told = await call.desk.inventory.node()
    if node_name(told) != name:
        watch = call.desk.sampler.nodes.get(name)
        if watch is None or not watch.told:
            raise not_found()
        told = watch.told
    return memory_breakdown(told, told["totals"]["queues"])


async def chain(call: Call) -> ApiAnswer:
    """Return the flow control chain: its stages and links, and for how long each is held up."""
    [row] = await call.desk.inventory.all(CHAIN)
    return ApiAnswer(row)


async def feature_flags(_: Call) -> ApiAnswer:
    """Return RabbitMQ's feature flags, all of them enabled."""
    return ApiAnswer(
        [
            {
                "name": name,
                "desc": "",
                "doc_url": "",
                "state": "enabled",
                "stability": "stable",
                "provided_by": "rabbit",
            }
            for name in FEATURES
        ]
    )


async def nothing(_: Call) -> ApiAnswer:
    """Return an empty list, for objects that SluiceMQ does not have."""
    return ApiAnswer([])


async def rebalance(call: Call) -> ApiAnswer:
    """Spread the leaders of quorum queues evenly over the nodes; a node without a cluster leads all
    of them."""
    node = await call.desk.inventory.node()
    if node["name"] is not None:
        await call.desk.change("rebalance", type="all")
    return ApiAnswer(None, 204)


async def done(_: Call) -> ApiAnswer:
    """Answer that the request has succeeded: it has no meaning here, or is in force already."""
    return ApiAnswer(None, 204)


ROUTES: Final = (
    ApiRoute("GET", "overview", MANAGEMENT, overview),
    ApiRoute("GET", "whoami", MANAGEMENT, whoami),
    ApiRoute("GET", "cluster-name", MANAGEMENT, cluster_name),
    ApiRoute("PUT", "cluster-name", ADMINISTRATOR, set_cluster_name),
    ApiRoute("GET", "extensions", MANAGEMENT, extensions),
    ApiRoute("GET", "nodes", MONITORING, nodes),
    ApiRoute("GET", "nodes/{node}", MONITORING, node),
    ApiRoute("GET", "nodes/{node}/memory", MONITORING, node_memory),
    ApiRoute("GET", "sluicemq/chain", MONITORING, chain),
    ApiRoute("GET", "feature-flags", MANAGEMENT, feature_flags),
    ApiRoute("PUT", "feature-flags/{name}/enable", ADMINISTRATOR, done),
    ApiRoute("GET", "deprecated-features", MANAGEMENT, nothing),
    ApiRoute("GET", "deprecated-features/used", MANAGEMENT, nothing),
    ApiRoute("GET", "federation-links", MONITORING, nothing),
    ApiRoute("GET", "shovels", MONITORING, nothing),
    ApiRoute("POST", "rebalance/queues", ADMINISTRATOR, rebalance),
)
