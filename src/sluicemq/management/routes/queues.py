"""Queues: list, show, declare, delete, purge, get."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from sluicemq.amqp import methods as m
from sluicemq.manage.record_columns import BINDINGS, CONSUMERS, QUEUES
from sluicemq.management.api_error import bad_request, not_found
from sluicemq.management.call import ApiAnswer, ApiRoute, Call, flag_in, object_in, text_in
from sluicemq.management.client_shapes import consumer_shape
from sluicemq.management.inventory import Record
from sluicemq.management.listing import as_wanted, only, shaped_as_wanted
from sluicemq.management.queue_shape import DEPTHS, PLAIN, queue_shape
from sluicemq.management.routing_shapes import binding_shape
from sluicemq.management.sign_in import ADMINISTRATOR, MANAGEMENT
from sluicemq.management.user_session import GOT_MAX, UserSession, shown_message

ACKMODES: Final = (
    "ack_requeue_true",
    "ack_requeue_false",
    "reject_requeue_true",
    "reject_requeue_false",
)


SYNC_ACTIONS: Final = {"sync": "sync_queue", "cancel_sync": "cancel_sync_queue"}


async def listed(call: Call, rows: list[Record]) -> ApiAnswer:
    """Return the answer with these queues."""
    node, sampler, wish = await call.desk.node_name(), call.desk.sampler, call.wish

    def shape(row: Record) -> Record:
        return queue_shape(row, sampler, node, wish)

    return ApiAnswer(await shaped_as_wanted(rows, call.query, shape, (*PLAIN, *DEPTHS)))


async def queues(call: Call) -> ApiAnswer:
    """Return all queues in the virtual hosts that the user sees."""
    return await listed(call, call.visible(await call.desk.inventory.all(QUEUES)))


async def queues_in(call: Call) -> ApiAnswer:
    """Return the queues of one virtual host."""
    vhost = await call.seen_vhost()
    rows = await call.desk.inventory.all(QUEUES)
    return await listed(call, [row for row in rows if row["vhost"] == vhost])


async def streams(call: Call) -> ApiAnswer:
    """Return the streams in the virtual hosts that the user sees."""
    rows = call.visible(await call.desk.inventory.all(QUEUES))
    return await listed(call, [row for row in rows if row["type"] == "stream"])


async def found(call: Call) -> Record:
    """Return the queue that the path names. Raises ApiError when there is none."""
    vhost = await call.seen_vhost()
    row = await call.desk.inventory.queue(vhost, call.path["name"])
    if row is None:
        raise not_found()
    return row


async def queue(call: Call) -> ApiAnswer:
    """Return one queue, with its consumers."""
    row = await found(call)
    node = await call.desk.node_name()
    shown = queue_shape(row, call.desk.sampler, node, call.wish)
    consumers = await call.desk.inventory.all(CONSUMERS) if row["consumers"] else []
    shown["consumer_details"] = [
        consumer_shape(each, node)
        for each in consumers
        if each["vhost"] == row["vhost"] and each["queue_name"] == row["name"]
    ]
    shown["deliveries"] = shown["incoming"] = []
    if call.query.get("columns"):
        shown = only(shown, call.query["columns"])
    return ApiAnswer(shown)


async def declare(call: Call) -> ApiAnswer:
    """Declare a queue: 201 when it is new, 204 when an equal one exists."""
    vhost = await call.vhost()
    name, body = call.path["name"], call.body()
    is_new = await call.desk.inventory.queue(vhost, name) is None
    method = m.QueueDeclare(
        queue=name,
        durable=flag_in(body, "durable"),
        auto_delete=flag_in(body, "auto_delete"),
        arguments=object_in(body, "arguments"),
    )
    await call.as_user(vhost, lambda session: session.call(method, m.QueueDeclareOk))
    if is_new:
        return ApiAnswer(None, 201, {"location": quote(name, safe="")})
    return ApiAnswer(None, 204)


async def delete(call: Call) -> ApiAnswer:
    """Delete a queue, subject to `if-empty` and `if-unused`."""
    row = await found(call)
    method = m.QueueDelete(
        queue=row["name"],
        if_unused=call.query.get("if-unused") == "true",
        if_empty=call.query.get("if-empty") == "true",
    )
    await call.as_user(row["vhost"], lambda session: session.call(method, m.QueueDeleteOk))
    return ApiAnswer(None, 204)


async def purge(call: Call) -> ApiAnswer:
    """Drop the ready messages of a queue."""
    row = await found(call)
    method = m.QueuePurge(queue=row["name"])
    await call.as_user(row["vhost"], lambda session: session.call(method, m.QueuePurgeOk))
    return ApiAnswer(None, 204)


async def bindings(call: Call) -> ApiAnswer:
    """Return the bindings to a queue."""
    row = await found(call)
    every = await call.desk.inventory.all(BINDINGS)
    return ApiAnswer(
        as_wanted(
            [
                binding_shape(each)
                for each in every
                if each["vhost"] == row["vhost"]
                and each["destination_kind"] == "queue"
                and each["destination_name"] == row["name"]
            ],
            call.query,
        )
    )


async def get(call: Call) -> ApiAnswer:
    """Get messages of a queue, and requeue them or not, as `ackmode` says."""
    row = await found(call)
    body = call.body()
    count = number_in(body, "count")
    ackmode = text_in(body, "ackmode", "ack_requeue_true")
    if ackmode not in ACKMODES:
        raise bad_request(f"ackmode must be one of {', '.join(ACKMODES)}")
    encoding = text_in(body, "encoding")
    if encoding not in ("auto", "base64"):
        raise bad_request("encoding must be auto or base64")
    truncate = number_in(body, "truncate") if "truncate" in body else None

    def work(session: UserSession) -> list[dict[str, Any]]:
        messages = session.get(row["name"], min(count, GOT_MAX), ackmode)
        return [
            shown_message(each["method"], each["content"], encoding, truncate) for each in messages
        ]

    return ApiAnswer(await call.as_user(row["vhost"], work))


def number_in(body: dict[str, Any], name: str) -> int:
    """Return a number of a body, which may be given as text. Raises ApiError when it is neither."""
    value = body.get(name)
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        value = int(value)
    if type(value) is not int or value < 0:
        raise bad_request(f"{name} is missing or not a number")
    return value


async def act(call: Call) -> ApiAnswer:
    """Begin or stop the synchronisation of mirrors; answers 204 for queues without mirrors, too, as
    RabbitMQ does."""
    row = await found(call)
    action = text_in(call.body(), "action")
    if action not in SYNC_ACTIONS:
        raise bad_request(f"unknown action {action}")
    if row["slave_pids"]:
        await call.desk.change(SYNC_ACTIONS[action], queue=row["name"], vhost=row["vhost"])
    return ApiAnswer(None, 204)


ROUTES: Final = (
    ApiRoute("GET", "queues", MANAGEMENT, queues),
    ApiRoute("GET", "queues/detailed", MANAGEMENT, queues),
    ApiRoute("GET", "queues/{vhost}", MANAGEMENT, queues_in),
    ApiRoute("GET", "sluicemq/streams", MANAGEMENT, streams),
    ApiRoute("GET", "queues/{vhost}/{name}", MANAGEMENT, queue),
    ApiRoute("PUT", "queues/{vhost}/{name}", MANAGEMENT, declare),
    ApiRoute("DELETE", "queues/{vhost}/{name}", MANAGEMENT, delete),
    ApiRoute("GET", "queues/{vhost}/{name}/bindings", MANAGEMENT, bindings),
    ApiRoute("DELETE", "queues/{vhost}/{name}/contents", MANAGEMENT, purge),
    ApiRoute("POST", "queues/{vhost}/{name}/get", MANAGEMENT, get),
    ApiRoute("POST", "queues/{vhost}/{name}/actions", ADMINISTRATOR, act),
)
