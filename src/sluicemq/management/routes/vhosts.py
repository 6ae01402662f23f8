"""Virtual hosts: list, show, make, change, delete; aliveness."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, Final

from sluicemq.amqp import methods as m
from sluicemq.manage.record_columns import QUEUES, VHOSTS
from sluicemq.management.api_error import not_found
from sluicemq.management.call import ApiAnswer, ApiRoute, Call, text_in
from sluicemq.management.inventory import Record
from sluicemq.management.listing import as_wanted
from sluicemq.management.node_shape import vhost_shape
from sluicemq.management.sign_in import ADMINISTRATOR, MANAGEMENT, POLICYMAKER
from sluicemq.management.user_session import NO_PROPERTIES, UserSession

ALIVENESS: Final = "aliveness-test"


async def shown(call: Call, rows: list[Record]) -> list[dict[str, Any]]:
    """Return these virtual hosts, with the counts of messages in their queues."""
    nodes = [await call.desk.node_name(), *call.desk.inventory.others]
    queues: dict[str, list[Record]] = defaultdict(list)
    for row in await call.desk.inventory.all(QUEUES):
        queues[row["vhost"]].append(row)
    sampler, wish = call.desk.sampler, call.wish
    return [vhost_shape(row, sampler, queues[row["name"]], nodes, wish) for row in rows]


async def vhosts(call: Call) -> ApiAnswer:
    """Return all virtual hosts that the user sees."""
    rows = await call.desk.inventory.all(VHOSTS)
    seen = [row for row in rows if call.sees_vhost(row["name"])]
    return ApiAnswer(as_wanted(await shown(call, seen), call.query))


async def found(call: Call) -> Record:
    """Return the virtual host that the path names. Raises ApiError when there is none."""
    name = await call.seen_vhost()
    [row] = [row for row in await call.desk.inventory.all(VHOSTS) if row["name"] == name]
    return row


async def vhost(call: Call) -> ApiAnswer:
    """Return one virtual host, with its traffic."""
    [one] = await shown(call, [await found(call)])
    return ApiAnswer(one)


async def put(call: Call) -> ApiAnswer:
    """Make a virtual host (201), or change description, tags and queue type of one (204)."""
    name, body = call.path["vhost"], call.body()
    tags = body.get("tags", "")
    tags = [each.strip() for each in tags.split(",")] if isinstance(tags, str) else tags
    tags = [each for each in tags if isinstance(each, str) and each]
    said: dict[str, Any] = {
        "vhost": name,
        "description": text_in(body, "description", ""),
        "default_queue_type": text_in(body, "default_queue_type", ""),
    }
    if said["default_queue_type"] == "undefined":
        said["default_queue_type"] = ""
    is_new = all(row["name"] != name for row in await call.desk.inventory.all(VHOSTS))
    if not is_new:
        if body:
            await call.desk.change("describe_vhost", tags=tags, **said)
        return ApiAnswer(None, 204)
    await call.desk.change("add_vhost", tags=",".join(tags), **said)
    await call.desk.change(
        "set_permissions",
        username=call.visitor.name,
        vhost=name,
        configure=".*",
        write=".*",
        read=".*",
    )
    return ApiAnswer(None, 201)


async def delete(call: Call) -> ApiAnswer:
    """Delete a virtual host and everything in it."""
    name = call.path["vhost"]
    if all(row["name"] != name for row in await call.desk.inventory.all(VHOSTS)):
        raise not_found()
    await call.desk.change("delete_vhost", vhost=name)
    return ApiAnswer(None, 204)


async def permissions(call: Call) -> ApiAnswer:
    """Return the permissions of all users in a virtual host."""
    return await permissions_in(call, "permissions")


async def topic_permissions(call: Call) -> ApiAnswer:
    """Return the topic permissions of all users in a virtual host."""
    return await permissions_in(call, "topic_permissions")


async def permissions_in(call: Call, table: str) -> ApiAnswer:
    """Return the permissions of one table in the virtual host that the path names."""
    name = (await found(call))["name"]
    rows = await call.desk.declared(table)
    return ApiAnswer(as_wanted([row for row in rows if row["vhost"] == name], call.query))


async def start(call: Call) -> ApiAnswer:
    """Answer that a virtual host runs on a node, as all of them do."""
    await found(call)
    return ApiAnswer(None, 204)


async def aliveness(call: Call) -> ApiAnswer:
    """Declare a queue, publish a message to it and get it back, in the user's name."""

    def work(session: UserSession) -> bool:
        session.call(m.QueueDeclare(queue=ALIVENESS), m.QueueDeclareOk)
        session.publish("", ALIVENESS, NO_PROPERTIES, b"test_message")
        return bool(session.get(ALIVENESS, 1, "ack_requeue_false"))

    is_alive = await call.as_user(await call.vhost(), work)
    return ApiAnswer({"status": "ok" if is_alive else "failed"}, 200 if is_alive else 503)


async def limits(call: Call) -> ApiAnswer:
    """Return the limits of all virtual hosts that have some."""
    rows = await call.desk.inventory.all(VHOSTS)
    seen = [row for row in rows if call.sees_vhost(row["name"]) and row["limits"]]
    return ApiAnswer([{"vhost": row["name"], "value": row["limits"]} for row in seen])


async def limits_of(call: Call) -> ApiAnswer:
    """Return the limits of one virtual host."""
    row = await found(call)
    return ApiAnswer([{"vhost": row["name"], "value": row["limits"]}] if row["limits"] else [])


async def set_limits(call: Call, row: Record, wanted: dict[str, Any]) -> ApiAnswer:
    """Replace all limits of a virtual host."""
    await call.desk.change("set_vhost_limits", vhost=row["name"], definition=json.dumps(wanted))
    return ApiAnswer(None, 204)


async def set_limit(call: Call) -> ApiAnswer:
    """Set one limit of a virtual host."""
    row = await found(call)
    return await set_limits(
        call, row, row["limits"] | {call.path["limit"]: call.body().get("value")}
    )


async def clear_limit(call: Call) -> ApiAnswer:
    """Remove one limit of a virtual host."""
    row = await found(call)
    left = {name: value for name, value in row["limits"].items() if name != call.path["limit"]}
    if left == row["limits"]:
        raise not_found()
    return await set_limits(call, row, left)


ROUTES: Final = (
    ApiRoute("GET", "vhosts", MANAGEMENT, vhosts),
    ApiRoute("GET", "vhosts/{vhost}", MANAGEMENT, vhost),
    ApiRoute("PUT", "vhosts/{vhost}", ADMINISTRATOR, put),
    ApiRoute("DELETE", "vhosts/{vhost}", ADMINISTRATOR, delete),
    ApiRoute("GET", "vhosts/{vhost}/permissions", ADMINISTRATOR, permissions),
    ApiRoute("GET", "vhosts/{vhost}/topic-permissions", ADMINISTRATOR, topic_permissions),
    ApiRoute("POST", "vhosts/{vhost}/start/{node}", ADMINISTRATOR, start),
    ApiRoute("GET", "aliveness-test/{vhost}", MANAGEMENT, aliveness),
    ApiRoute("GET", "vhost-limits", MANAGEMENT, limits),
    ApiRoute("GET", "vhost-limits/{vhost}", MANAGEMENT, limits_of),
    ApiRoute("PUT", "vhost-limits/{vhost}/{limit}", POLICYMAKER, set_limit),
    ApiRoute("DELETE", "vhost-limits/{vhost}/{limit}", POLICYMAKER, clear_limit),
)
