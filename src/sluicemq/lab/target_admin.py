"""How the lab administers a target beside AMQP: its nodes, blocked connections, leaders, mirrors.

AMQP has no methods for that. RabbitMQ's HTTP API has (`management_api.py`), and for nodes that the
lab starts itself there is the control socket. Without an admin a run only lacks these figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from sluicemq.client.address import Address
from sluicemq.errors import Refused
from sluicemq.lab.plan import MIRRORED_PREFIX, RunPlan
from sluicemq.lab.target import BrokerProcess

MIRROR_POLICY: Final = "sluicemq-lab-mirrors"
MIRROR_PATTERN: Final = f"^{MIRRORED_PREFIX}lab-"
MIRRORS: Final = {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic"}
"""The policy of the post: a master and one mirror."""

IN_FLOW: Final = "flow"
"""The state of a connection that is held up by flow control."""


class TargetNode(NamedTuple):
    """A node as the target itself names it; `pid` is its process, None when that is not known."""

    name: str
    pid: int | None


class NodeLook(NamedTuple):
    """A sample of one node: how many of its connections flow control holds up, and how many of the
    scenario's queues have their leader, or their messages, there."""

    flow_connections: int
    leaders: int


class TargetAdmin:
    """Answers questions about the nodes of a target. All methods raise BrokerError or Refused when
    there is no answer."""

    interval_s: ClassVar[int]
    """How often it is worth asking, in whole seconds."""

    def nodes(self) -> Sequence[TargetNode]:
        """Return the target's nodes, always in the same order."""
        raise NotImplementedError

    def look(self, queues: Sequence[str]) -> Sequence[NodeLook]:
        """Return a sample of each node now, in the order of `nodes`; `queues` are those whose
        leaders count."""
        raise NotImplementedError

    def set_mirrors(self) -> None:
        """Set the policy that mirrors queues whose names match MIRROR_PATTERN."""
        raise NotImplementedError

    def clear_mirrors(self) -> None:
        """Remove the policy of `set_mirrors`."""
        raise NotImplementedError


class SampledNode(NamedTuple):
    """A node of the target that is sampled each second; `process` is None when its process is not
    known."""

    name: str
    process: BrokerProcess | None


def sampled_nodes(plan: RunPlan, admin: TargetAdmin | None) -> list[SampledNode]:
    """Return the nodes to sample: none when nothing can be learnt about them. Raises Refused for a
    process that does not exist, or belongs to none of the admin's nodes."""
    pids = plan.broker_pids
    if admin is None:
        names = [Address.parse(url) for url in plan.targets]
        return [
            SampledNode(f"{address.host}:{address.port}", BrokerProcess(pid))
            for address, pid in zip(names, pids, strict=False)
        ]
    known = admin.nodes()
    strange = set(pids) - {node.pid for node in known}
    if strange:
        raise Refused(
            f"--broker-pid {min(strange)}: no node of the target has this process; it has "
            + ", ".join(f"{node.name} ({node.pid})" for node in known)
        )
    return [
        SampledNode(node.name, BrokerProcess(node.pid) if node.pid in pids and node.pid else None)
        for node in known
    ]
