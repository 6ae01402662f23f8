"""Exchanges: list, show, declare, delete, publish."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final
from urllib.parse import quote

from sluicemq.amqp import methods as m
from sluicemq.manage.record_columns import BINDINGS, EXCHANGES
from sluicemq.management.api_error import bad_request, not_found
from sluicemq.management.call import ApiAnswer, ApiRoute, Call, flag_in, object_in, text_in
from sluicemq.management.inventory import Record
from sluicemq.management.listing import as_wanted, shaped_as_wanted
from sluicemq.management.routing_shapes import binding_shape, exchange_shape
from sluicemq.management.sign_in import MANAGEMENT
from sluicemq.management.user_session import encoded_properties

DEFAULT: Final = "amq.default"
"""The name of the default exchange in URLs."""


async def listed(call: Call, rows: list[Record]) -> ApiAnswer:
    """Return the answer with these exchanges."""
    sampler, wish = call.desk.sampler, call.wish

    def shape(row: Record) -> Record:
        return exchange_shape(row, sampler, wish)

    return ApiAnswer(await shaped_as_wanted(rows, call.query, shape, ("name", "vhost", "type")))


async def exchanges(call: Call) -> ApiAnswer:
    """Return all exchanges in the virtual hosts that the user sees."""
    return await listed(call, call.visible(await call.desk.inventory.all(EXCHANGES)))


async def exchanges_in(call: Call) -> ApiAnswer:
    """Return the exchanges of one virtual host."""
    vhost = await call.seen_vhost()
    rows = [row for row in await call.desk.inventory.all(EXCHANGES) if row["vhost"] == vhost]
    return await listed(call, rows)


async def found(call: Call) -> Record:
    """Return the exchange that the path names. Raises ApiError when there is none."""
    vhost = await call.seen_vhost()
    name = own_name(call.path["name"])
    for row in await call.desk.inventory.all(EXCHANGES):
        if row["vhost"] == vhost and row["name"] == name:
            return row
    raise not_found()


def own_name(name: str) -> str:
    """Return an exchange's name in AMQP, given its name in a URL."""
    return "" if name == DEFAULT else name


async def exchange(call: Call) -> ApiAnswer:
    """Return one exchange, with the counters of publishes to it."""
    shown = exchange_shape(await found(call), call.desk.sampler, call.wish)
    shown["incoming"] = shown["outgoing"] = []
    return ApiAnswer(shown)


async def declare(call: Call) -> ApiAnswer:
    """Declare an exchange: 201 when it is new, 204 when an equal one exists."""
    vhost = await call.vhost()
    name, body = call.path["name"], call.body()
    rows = await call.desk.inventory.all(EXCHANGES)
    is_new = all((row["vhost"], row["name"]) != (vhost, name) for row in rows)
    method = m.ExchangeDeclare(
        name,
        text_in(body, "type"),
        durable=flag_in(body, "durable"),
        auto_delete=flag_in(body, "auto_delete"),
        internal=flag_in(body, "internal"),
        arguments=object_in(body, "arguments"),
    )
    await call.as_user(vhost, lambda session: session.call(method, m.ExchangeDeclareOk))
    if is_new:
        return ApiAnswer(None, 201, {"location": quote(name, safe="")})
    return ApiAnswer(None, 204)


async def delete(call: Call) -> ApiAnswer:
    """Delete an exchange, subject to `if-unused`."""
    row = await found(call)
    method = m.ExchangeDelete(row["name"], if_unused=call.query.get("if-unused") == "true")
    await call.as_user(row["vhost"], lambda session: session.call(method, m.ExchangeDeleteOk))
    return ApiAnswer(None, 204)


async def publish(call: Call) -> ApiAnswer:
    """Publish one message, and tell whether it was routed to any queue."""
    row = await found(call)
    body = call.body()
    key = text_in(body, "routing_key")
    encoding = text_in(body, "payload_encoding")
    payload = text_in(body, "payload")
    properties = encoded_properties(object_in(body, "properties"))
    if encoding == "base64":
        try:
            octets = base64.b64decode(payload, validate=True)
        except (binascii.Error, ValueError) as error:
            raise bad_request(f"payload is no base64: {error}") from error
    elif encoding == "string":
        octets = payload.encode("utf-8", "surrogatepass")
    else:
        raise bad_request(f"unknown payload encoding {encoding}: string or base64")
    routed = await call.as_user(
        row["vhost"], lambda session: session.publish(row["name"], key, properties, octets)
    )
    return ApiAnswer({"routed": routed})


async def bindings(call: Call, end: str) -> ApiAnswer:
    """Return the bindings of which the exchange is the given end."""
    row = await found(call)
    rows: list[dict[str, Any]] = []
    for each in await call.desk.inventory.all(BINDINGS):
        if each["vhost"] != row["vhost"] or each[f"{end}_name"] != row["name"]:
            continue
        if end == "source" or each["destination_kind"] == "exchange":
            rows.append(binding_shape(each))
    return ApiAnswer(as_wanted(rows, call.query))


async def from_it(call: Call) -> ApiAnswer:
    """Return the bindings whose source is the exchange."""
    return await bindings(call, "source")


async def to_it(call: Call) -> ApiAnswer:
    """Return the bindings whose destination is the exchange."""
    return await bindings(call, "destination")


ROUTES: Final = (
    ApiRoute("GET", "exchanges", MANAGEMENT, exchanges),
    ApiRoute("GET", "exchanges/{vhost}", MANAGEMENT, exchanges_in),
    ApiRoute("GET", "exchanges/{vhost}/{name}", MANAGEMENT, exchange),
    ApiRoute("PUT", "exchanges/{vhost}/{name}", MANAGEMENT, declare),
    ApiRoute("DELETE", "exchanges/{vhost}/{name}", MANAGEMENT, delete),
    ApiRoute("GET", "exchanges/{vhost}/{name}/bindings/source", MANAGEMENT, from_it),
    ApiRoute("GET", "exchanges/{vhost}/{name}/bindings/destination", MANAGEMENT, to_it),
    ApiRoute("POST", "exchanges/{vhost}/{name}/publish", MANAGEMENT, publish),
)
