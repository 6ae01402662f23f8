"""RabbitMQ's `message_stats`: counters, each with its rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sluicemq.management.history import details
from sluicemq.management.ring import Ring

DELIVERED: Final = ("deliver", "deliver_no_ack", "get", "get_no_ack")
"""The counters that `deliver_get` sums up."""

PUBLISHES: Final = ("publish", "confirm", "drop_unroutable", "return_unroutable")
DELIVERIES: Final = ("ack", *DELIVERED, "get_empty", "redeliver")


class SampleWish:
    """The samples that a request wants in addition to rates: those of the last `age` seconds,
    `incr` seconds apart, for each of RabbitMQ's groups; none unless both are given."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self.query = query

    def of(self, group: str) -> tuple[int | None, int | None]:
        """Return age and step for `msg_rates`, `lengths`, `data_rates` or `node_stats`."""
        age, step = self.query.get(f"{group}_age"), self.query.get(f"{group}_incr")
        if not age or not step or not age.isdecimal() or not step.isdecimal():
            return None, None
        return min(int(age), 86_400), max(1, min(int(step), 86_400))


NO_SAMPLES: Final = SampleWish({})


def message_stats(
    row: Mapping[str, Any],
    ring: Ring | None,
    columns: Mapping[str, int],
    names: tuple[str, ...],
    wish: SampleWish = NO_SAMPLES,
) -> dict[str, Any]:
    """Return the counters of these names with their rates. Those of publishes are left out when
    nothing was published, those of deliveries when nothing was delivered or asked for."""
    shown: dict[str, Any] = {}
    age, step = wish.of("msg_rates")
    wanted = [*names] if any(row[name] for name in names) else []
    for group in (PUBLISHES, DELIVERIES):
        if not any(row[name] for name in group if name in names):
            wanted = [name for name in wanted if name not in group]
    for name in wanted:
        shown[name] = row[name]
        shown[f"{name}_details"] = details(ring, columns[name], age, step)
    if "deliver" in shown:
        shown["deliver_get"] = sum(row[name] for name in DELIVERED)
        rates = [ring.rate(columns[name]) if ring is not None else 0.0 for name in DELIVERED]
        shown["deliver_get_details"] = summed(
            [details(ring, columns[name], age, step) for name in DELIVERED], sum(rates)
        )
    return dict(sorted(shown.items()))


def summed(parts: list[dict[str, Any]], rate: float) -> dict[str, Any]:
    """Return the details of a sum, from the details of its parts."""
    shown: dict[str, Any] = {"rate": round(rate, 4)}
    if all("samples" in part for part in parts):
        columns = zip(*(part["samples"] for part in parts), strict=False)
        shown["samples"] = [
            {
                "sample": sum(each["sample"] for each in same),
                "timestamp": same[0]["timestamp"],
            }
            for same in columns
        ]
        for name in ("avg", "avg_rate"):
            shown[name] = sum(part.get(name, 0) for part in parts)
    return shown


def with_details(
    row: Mapping[str, Any],
    names: tuple[str, ...],
    ring: Ring | None,
    columns: Mapping[str, int],
    span: tuple[int | None, int | None] = (None, None),
) -> dict[str, Any]:
    """Return these figures, each with its details."""
    shown: dict[str, Any] = {}
    for name in names:
        shown[name] = row[name]
        shown[f"{name}_details"] = details(ring, columns[name], *span)
    return shown
