"""The target of the lab: a running broker at --target, or nodes that --cluster starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sluicemq.client.address import Address
from sluicemq.config import PROFILES
from sluicemq.errors import Refused

if TYPE_CHECKING:
    from sluicemq.lab.target_admin import TargetAdmin

TARGET: Final = "amqp://guest:guest@127.0.0.1:5672"
DEFAULT_PROFILE: Final = "adaptive"
NODES_MAX: Final = 7
"""The most nodes that --cluster starts: more than a machine has use for."""

OPTIONS: Final = (
    click.option(
        "--target",
        "targets",
        metavar="URL",
        multiple=True,
        help="The URL of the broker; may be repeated, once for each node of a cluster [default: "
        f"{TARGET}].",
    ),
    click.option(
        "--cluster",
        type=click.IntRange(1, NODES_MAX),
        metavar="N",
        help="Start so many nodes of SluiceMQ for the run, on this machine, instead of --target.",
    ),
    click.option(
        "--profile",
        type=click.Choice(PROFILES),
        help=f"The flow profile of the nodes that --cluster starts [default: {DEFAULT_PROFILE}].",
    ),
    click.option(
        "--broker-pid",
        "broker_pids",
        type=int,
        metavar="PID",
        multiple=True,
        help="Measure CPU time and memory of this process, too; once for each --target, in the same"
        " order.",
    ),
    click.option(
        "--management",
        metavar="URL",
        help="The HTTP API of one node: it says which connections are held up and where leaders"
        " are, and sets the policy for --queue-type mirrored.",
    ),
)


def target_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose the target; `LabTarget` takes them."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class OpenTarget:
    """A target that is up."""

    urls: tuple[str, ...]
    pids: tuple[int, ...]
    admin: TargetAdmin | None


class LabTarget:
    """The target that the options choose. Raises Refused for options that exclude one another."""

    def __init__(
        self,
        targets: tuple[str, ...],
        cluster: int | None,
        profile: str | None,
        broker_pids: tuple[int, ...],
        management: str | None,
    ) -> None:
        given: dict[str, Any] = {
            "--target": targets,
            "--broker-pid": broker_pids,
            "--management": management,
        }
        for option, value in given.items():
            if cluster is not None and value:
                raise Refused(
                    f"{option} and --cluster exclude each other: the latter's nodes are new"
                )
        if profile is not None and cluster is None:
            raise Refused(
                "--profile is for the nodes that --cluster starts; a broker at --target has its own"
            )
        self.cluster = cluster
        self.profile = (profile or DEFAULT_PROFILE) if cluster else None
        """The flow profile of started nodes; None: no nodes are started."""
        self.pids = broker_pids
        self.urls = targets or (TARGET,) * (cluster or 1)
        """The targets; the ports of --cluster's nodes are known only when they are up."""
        self._management = management

    def with_profile(self, profile: str | None) -> LabTarget:
        """Return the same target; nodes that it starts have this flow profile, None for the usual
        one."""
        other = copy(self)
        if self.cluster is not None:
            other.profile = profile or DEFAULT_PROFILE
        return other

    @contextmanager
    def opened(self, directory: Path) -> Iterator[OpenTarget]:
        """Keep the target up while inside; nodes that are started write their logs below
        `directory`. Raises Refused when they do not start."""
        from sluicemq.cli.own_nodes import own_nodes  # noqa: PLC0415 (imports the lab)
        from sluicemq.lab.management_api import ManagementApi  # noqa: PLC0415

        if self.cluster is not None:
            assert self.profile is not None
            with own_nodes(self.cluster, directory / "brokers", self.profile) as nodes:
                yield OpenTarget(nodes.urls, nodes.pids, nodes)
            return
        admin = None
        if self._management is not None:
            admin = ManagementApi(self._management, Address.parse(self.urls[0]))
        yield OpenTarget(self.urls, self.pids, admin)
