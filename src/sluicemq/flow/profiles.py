"""The numbers of flow control: three profiles, and any number by itself under RabbitMQ's name.

profile        credit_flow_         msg_store_           msg_store_      budget
               default_credit       credit_disc_bound    io_batch_size
rabbitmq-3.5   {200,50}             {2000,500}           2048
rabbitmq-3.8   {400,200}            {4000,800}           4096
adaptive       {200,50} at most     {4000,800}           4096            20000 messages, 64 MiB
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from sluicemq.errors import Refused
from sluicemq.flow.alarm import parse_size
from sluicemq.flow.budget import Budget
from sluicemq.flow.credit import LinkSpec

Setting: TypeAlias = int | str | Sequence[int]
"""A number, a size such as "64MiB", or a pair: "{200,50}", "200,50" or [200, 50]."""


class FlowProfile:
    """One set of numbers. Without `budget_messages` all links have fixed credit."""

    __slots__ = (
        "credit_flow_default_credit",
        "flow_budget_bytes",
        "flow_budget_floor",
        "flow_budget_messages",
        "msg_store_credit_disc_bound",
        "msg_store_io_batch_size",
        "name",
    )

    def __init__(
        self,
        name: str,
        credit_flow_default_credit: LinkSpec,
        msg_store_credit_disc_bound: LinkSpec,
        msg_store_io_batch_size: int,
        flow_budget_messages: int = 0,
        flow_budget_bytes: int = 0,
        flow_budget_floor: int = 0,
    ) -> None:
        self.name = name
        self.credit_flow_default_credit = credit_flow_default_credit
        """reader -> channel, channel -> queue and its mirrors."""
        self.msg_store_credit_disc_bound = msg_store_credit_disc_bound
        """queue -> message store."""
        self.msg_store_io_batch_size = msg_store_io_batch_size
        """Positions are paged out only in batches of at least this many messages."""
        self.flow_budget_messages = flow_budget_messages
        self.flow_budget_bytes = flow_budget_bytes
        self.flow_budget_floor = flow_budget_floor

    def make_budget(self) -> Budget | None:
        """The node's one budget for links of `credit_flow_default_credit`, if it adapts."""
        if not self.flow_budget_messages:
            return None
        ceiling = self.credit_flow_default_credit.initial
        floor = min(self.flow_budget_floor, ceiling)
        return Budget(self.flow_budget_messages, self.flow_budget_bytes, floor, ceiling)


PROFILES: Final[dict[str, FlowProfile]] = {
    "rabbitmq-3.5": FlowProfile("rabbitmq-3.5", LinkSpec(200, 50), LinkSpec(2000, 500), 2048),
    "rabbitmq-3.8": FlowProfile("rabbitmq-3.8", LinkSpec(400, 200), LinkSpec(4000, 800), 4096),
    "adaptive": FlowProfile(
        "adaptive", LinkSpec(200, 50), LinkSpec(4000, 800), 4096, 20_000, 64 * 2**20, 4
    ),
}


def flow_profile(name: str, overrides: Mapping[str, Setting] | None = None) -> FlowProfile:
    """The profile `name` with some numbers replaced; what cannot work is refused here."""
    base = PROFILES.get(name)
    if base is None:
        raise Refused(f"flow profile {name!r} is unknown: there are {', '.join(PROFILES)}")
    given = dict(overrides or {})
    profile = FlowProfile(
        name,
        _pair(given, "credit_flow_default_credit", base.credit_flow_default_credit),
        _pair(given, "msg_store_credit_disc_bound", base.msg_store_credit_disc_bound),
        _number(given, "msg_store_io_batch_size", base.msg_store_io_batch_size),
        _number(given, "flow_budget_messages", base.flow_budget_messages),
        _number(given, "flow_budget_bytes", base.flow_budget_bytes),
        _number(given, "flow_budget_floor", base.flow_budget_floor),
    )
    if given:
        raise Refused(f"flow setting {min(given)!r} is unknown")
    if profile.msg_store_io_batch_size < 1:
        raise Refused("msg_store_io_batch_size must be at least 1")
    profile.make_budget()
    return profile


def _number(given: dict[str, Setting], name: str, default: int) -> int:
    value = given.pop(name, default)
    if isinstance(value, int | str):
        return parse_size(value)
    raise Refused(f"{name} must be one number, not {value!r}")


def _pair(given: dict[str, Setting], name: str, default: LinkSpec) -> LinkSpec:
    value = given.pop(name, None)
    if value is None:
        return default
    if isinstance(value, str):
        parts: Sequence[int | str] = value.strip().removeprefix("{").removesuffix("}").split(",")
    else:
        parts = [] if isinstance(value, int) else value
    if len(parts) != 2:
        raise Refused(f"{name} must be a pair {{initial, more_after}}, not {value!r}")
    return LinkSpec(parse_size(parts[0]), parse_size(parts[1]))
