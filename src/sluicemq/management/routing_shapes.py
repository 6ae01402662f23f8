"""Exchanges and bindings as RabbitMQ's HTTP API shows them."""

from __future__ import annotations

import json
from hashlib import md5
from typing import Any, Final
from urllib.parse import quote

from sluicemq.management.inventory import Record
from sluicemq.management.message_stats import NO_SAMPLES, SampleWish, with_details
from sluicemq.management.sampler import EXCHANGE_FIGURES, BrokerSampler

EXCHANGE: Final = ("arguments", "auto_delete", "durable", "internal", "name", "type", "vhost")
RESERVED: Final = "amq."


def exchange_shape(
    row: Record, sampler: BrokerSampler, wish: SampleWish = NO_SAMPLES
) -> dict[str, Any]:
    """Return an exchange's record as RabbitMQ's API has it, with rates."""
    ring = sampler.exchanges.ring((row["vhost"], row["name"]))
    shown: dict[str, Any] = {name: row[name] for name in EXCHANGE}
    if row["policy"]:
        shown["policy"] = row["policy"]
    if row["publish_in"] or row["publish_out"]:
        span = wish.of("msg_rates")
        columns = sampler.exchanges.names
        shown["message_stats"] = with_details(row, EXCHANGE_FIGURES, ring, columns, span)
    is_own = not row["name"] or row["name"].startswith(RESERVED)
    shown["user_who_performed_action"] = "rmq-internal" if is_own else ""
    return dict(sorted(shown.items()))


def properties_key(routing_key: str, arguments: dict[str, Any]) -> str:
    """Return the name of a binding among those with the same source and destination: the routing
    key as in a URL, followed by a digest of the arguments if there are any."""
    shown = quote(routing_key, safe="", errors="surrogatepass")
    shown = shown.replace("~", "%7E")
    if arguments:
        text = json.dumps(arguments, sort_keys=True, separators=(",", ":"))
        digest = md5(text.encode(), usedforsecurity=False).hexdigest()
        return f"{shown}~{digest}"
    return shown or "~"


def binding_shape(row: Record) -> dict[str, Any]:
    """Return a binding's record as RabbitMQ's API has it."""
    return {
        "source": row["source_name"],
        "vhost": row["vhost"],
        "destination": row["destination_name"],
        "destination_type": row["destination_kind"],
        "routing_key": row["routing_key"],
        "arguments": row["arguments"],
        "properties_key": properties_key(row["routing_key"], row["arguments"]),
    }
