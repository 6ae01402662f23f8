"""Bindings: list, show, make, delete."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from sluicemq.amqp import methods as m
from sluicemq.manage.record_columns import BINDINGS
from sluicemq.management.api_error import not_found
from sluicemq.management.call import ApiAnswer, ApiRoute, Call, object_in, text_in
from sluicemq.management.listing import as_wanted, shaped_as_wanted
from sluicemq.management.routes.exchanges import own_name
from sluicemq.management.routing_shapes import binding_shape, properties_key
from sluicemq.management.sign_in import MANAGEMENT

KINDS: Final = {"q": "queue", "e": "exchange"}


async def bindings(call: Call) -> ApiAnswer:
    """Return all bindings in the virtual hosts that the user sees."""
    rows = call.visible(await call.desk.inventory.all(BINDINGS))
    return ApiAnswer(
        await shaped_as_wanted(rows, call.query, binding_shape, ("vhost", "routing_key"))
    )


async def bindings_in(call: Call) -> ApiAnswer:
    """Return the bindings of one virtual host."""
    vhost = await call.seen_vhost()
    rows = [row for row in await call.desk.inventory.all(BINDINGS) if row["vhost"] == vhost]
    return ApiAnswer(
        await shaped_as_wanted(rows, call.query, binding_shape, ("vhost", "routing_key"))
    )


async def between(call: Call) -> list[dict[str, Any]]:
    """Return the bindings between the exchange and the queue or exchange of the path."""
    vhost = await call.seen_vhost()
    source = own_name(call.path["source"])
    kind = KINDS.get(call.path["kind"])
    if kind is None:
        raise not_found()
    return [
        binding_shape(row)
        for row in await call.desk.inventory.all(BINDINGS)
        if (row["vhost"], row["source_name"]) == (vhost, source)
        and row["destination_kind"] == kind
        and row["destination_name"] == call.path["destination"]
    ]


async def all_between(call: Call) -> ApiAnswer:
    """Return all bindings between an exchange and a queue or exchange."""
    return ApiAnswer(as_wanted(await between(call), call.query))


async def bind(call: Call) -> ApiAnswer:
    """Make a binding; the answer's Location has its path."""
    vhost = await call.vhost()
    body = call.body()
    key, arguments = text_in(body, "routing_key", ""), object_in(body, "arguments")
    source, destination = own_name(call.path["source"]), call.path["destination"]
    method: m.QueueBind | m.ExchangeBind
    if call.path["kind"] == "q":
        method = m.QueueBind(
            queue=destination, exchange=source, routing_key=key, arguments=arguments
        )
        await call.as_user(vhost, lambda session: session.call(method, m.QueueBindOk))
    elif call.path["kind"] == "e":
        method = m.ExchangeBind(
            destination=destination, source=source, routing_key=key, arguments=arguments
        )
        await call.as_user(vhost, lambda session: session.call(method, m.ExchangeBindOk))
    else:
        raise not_found()
    place = quote(properties_key(key, arguments), safe="")
    return ApiAnswer(None, 201, {"location": f"{quote(destination, safe='')}/{place}"})


async def found(call: Call) -> dict[str, Any]:
    """Return the binding that the path names. Raises ApiError when there is none."""
    for shown in await between(call):
        if shown["properties_key"] == call.path["properties"]:
            return shown
    raise not_found()


async def binding(call: Call) -> ApiAnswer:
    """Return one binding, with its arguments."""
    return ApiAnswer(await found(call))


async def unbind(call: Call) -> ApiAnswer:
    """Remove a binding by its name in the URL."""
    vhost = await call.vhost()
    there = await found(call)
    method: m.QueueUnbind | m.ExchangeUnbind
    if there["destination_type"] == "queue":
        method = m.QueueUnbind(
            queue=there["destination"],
            exchange=there["source"],
            routing_key=there["routing_key"],
            arguments=there["arguments"],
        )
        await call.as_user(vhost, lambda session: session.call(method, m.QueueUnbindOk))
    else:
        method = m.ExchangeUnbind(
            destination=there["destination"],
            source=there["source"],
            routing_key=there["routing_key"],
            arguments=there["arguments"],
        )
        await call.as_user(vhost, lambda session: session.call(method, m.ExchangeUnbindOk))
    return ApiAnswer(None, 204)


BETWEEN: Final = "bindings/{vhost}/e/{source}/{kind}/{destination}"
ROUTES: Final = (
    ApiRoute("GET", "bindings", MANAGEMENT, bindings),
    ApiRoute("GET", "bindings/{vhost}", MANAGEMENT, bindings_in),
    ApiRoute("GET", BETWEEN, MANAGEMENT, all_between),
    ApiRoute("POST", BETWEEN, MANAGEMENT, bind),
    ApiRoute("GET", f"{BETWEEN}/{{properties}}", MANAGEMENT, binding),
    ApiRoute("DELETE", f"{BETWEEN}/{{properties}}", MANAGEMENT, unbind),
)
