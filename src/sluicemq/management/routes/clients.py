"""Connections, channels and consumers: list, show, close."""

from __future__ import annotations

from typing import Any, Final

from sluicemq.manage.record_columns import CHANNELS, CONNECTIONS, CONSUMERS
from sluicemq.management.api_error import not_authorised, not_found
from sluicemq.management.call import ApiAnswer, ApiRoute, Call
from sluicemq.management.client_shapes import (
    CHANNEL,
    CONNECTION,
    channel_shape,
    connection_shape,
    consumer_shape,
)
from sluicemq.management.inventory import Record
from sluicemq.management.listing import as_wanted, only, shaped_as_wanted
from sluicemq.management.sign_in import ADMINISTRATOR, MANAGEMENT

REASON: Final = "Closed via management plugin"


async def open_ones(call: Call) -> list[Record]:
    """Return the connections that the user sees, without those that have not logged in yet."""
    rows = await call.desk.inventory.all(CONNECTIONS)
    return call.own([row for row in rows if row["vhost"] and row["user"]])


async def shown_connections(call: Call, rows: list[Record]) -> ApiAnswer:
    """Return the answer with these connections."""
    node, sampler, wish = await call.desk.node_name(), call.desk.sampler, call.wish

    def shape(row: Record) -> Record:
        return connection_shape(row, sampler, node, wish)

    return ApiAnswer(await shaped_as_wanted(rows, call.query, shape, CONNECTION))


async def connections(call: Call) -> ApiAnswer:
    """Return all connections, or those of the user."""
    return await shown_connections(call, await open_ones(call))


async def connections_in(call: Call) -> ApiAnswer:
    """Return the connections in one virtual host."""
    vhost = await call.seen_vhost()
    rows = [row for row in await open_ones(call) if row["vhost"] == vhost]
    return await shown_connections(call, rows)


async def connections_of(call: Call) -> ApiAnswer:
    """Return the connections of one user."""
    rows = [row for row in await open_ones(call) if row["user"] == call.path["user"]]
    return await shown_connections(call, rows)


async def found(call: Call) -> Record:
    """Return the connection that the path names. Raises ApiError when there is none (404), or it
    belongs to another user (401)."""
    rows = await call.desk.inventory.all(CONNECTIONS)
    for row in rows:
        if row["name"] == call.path["name"]:
            if not call.own([row]):
                raise not_authorised("User not authorised to access connection")
            return row
    raise not_found()


async def connection(call: Call) -> ApiAnswer:
    """Return one connection of a client."""
    node = await call.desk.node_name()
    shown = connection_shape(await found(call), call.desk.sampler, node, call.wish)
    return ApiAnswer(only(shown, call.query["columns"]) if call.query.get("columns") else shown)


async def close(call: Call) -> ApiAnswer:
    """Close a connection; the client gets the reason in X-Reason. Users may close their own,
    administrators all."""
    row = await found(call)
    if row["user"] != call.visitor.name and not call.visitor.may(ADMINISTRATOR):
        raise not_authorised("User not authorised to close connection")
    reason = call.headers.get("x-reason") or REASON
    await call.desk.change_at(
        row["node"], "close_connection", connection=row["name"], explanation=[reason]
    )
    return ApiAnswer(None, 204)


async def close_of(call: Call) -> ApiAnswer:
    """Close all connections of a user; the clients get the reason in X-Reason."""
    name = call.path["user"]
    if name != call.visitor.name and not call.visitor.may(ADMINISTRATOR):
        raise not_authorised("User not authorised to close connection")
    reason = call.headers.get("x-reason") or REASON
    for node in ("", *call.desk.inventory.others):
        await call.desk.change_at(
            node, "close_all_user_connections", username=name, explanation=[reason]
        )
    return ApiAnswer(None, 204)


async def shown_channels(call: Call, rows: list[Record]) -> ApiAnswer:
    """Return the answer with these channels."""
    node, sampler, wish = await call.desk.node_name(), call.desk.sampler, call.wish

    def shape(row: Record) -> Record:
        return channel_shape(row, sampler, node, wish)

    return ApiAnswer(await shaped_as_wanted(rows, call.query, shape, CHANNEL))


async def channels(call: Call) -> ApiAnswer:
    """Return all channels, or those of the user."""
    return await shown_channels(call, call.own(await call.desk.inventory.all(CHANNELS)))


async def channels_in(call: Call) -> ApiAnswer:
    """Return the channels in one virtual host."""
    vhost = await call.seen_vhost()
    rows = call.own(await call.desk.inventory.all(CHANNELS))
    return await shown_channels(call, [row for row in rows if row["vhost"] == vhost])


async def channels_on(call: Call) -> ApiAnswer:
    """Return the channels of one connection."""
    name = (await found(call))["name"]
    rows = await call.desk.inventory.all(CHANNELS)
    return await shown_channels(call, [row for row in rows if row["connection"] == name])


async def channel(call: Call) -> ApiAnswer:
    """Return one channel, with its consumers."""
    node = await call.desk.node_name()
    for row in call.own(await call.desk.inventory.all(CHANNELS)):
        if row["name"] == call.path["name"]:
            shown = channel_shape(row, call.desk.sampler, node, call.wish)
            consumers = await call.desk.inventory.all(CONSUMERS)
            shown["consumer_details"] = [
                consumer_shape(each, node)
                for each in consumers
                if each["channel_name"] == row["name"]
            ]
            shown["publishes"] = shown["deliveries"] = []
            return ApiAnswer(shown)
    raise not_found()


async def consumers_shown(call: Call, rows: list[Record]) -> ApiAnswer:
    """Return the answer with these consumers."""
    node = await call.desk.node_name()
    shown: list[dict[str, Any]] = [consumer_shape(row, node) for row in rows]
    return ApiAnswer(as_wanted(shown, call.query))


async def consumers(call: Call) -> ApiAnswer:
    """Return all consumers in the virtual hosts that the user sees."""
    return await consumers_shown(call, call.visible(await call.desk.inventory.all(CONSUMERS)))


async def consumers_in(call: Call) -> ApiAnswer:
    """Return the consumers of one virtual host."""
    vhost = await call.seen_vhost()
    rows = await call.desk.inventory.all(CONSUMERS)
    return await consumers_shown(call, [row for row in rows if row["vhost"] == vhost])


ROUTES: Final = (
    ApiRoute("GET", "connections", MANAGEMENT, connections),
    ApiRoute("GET", "connections/username/{user}", MANAGEMENT, connections_of),
    ApiRoute("DELETE", "connections/username/{user}", MANAGEMENT, close_of),
    ApiRoute("GET", "connections/{name}", MANAGEMENT, connection),
    ApiRoute("DELETE", "connections/{name}", MANAGEMENT, close),
    ApiRoute("GET", "connections/{name}/channels", MANAGEMENT, channels_on),
    ApiRoute("GET", "vhosts/{vhost}/connections", MANAGEMENT, connections_in),
    ApiRoute("GET", "channels", MANAGEMENT, channels),
    ApiRoute("GET", "channels/{name}", MANAGEMENT, channel),
    ApiRoute("GET", "vhosts/{vhost}/channels", MANAGEMENT, channels_in),
    ApiRoute("GET", "consumers", MANAGEMENT, consumers),
    ApiRoute("GET", "consumers/{vhost}", MANAGEMENT, consumers_in),
)
