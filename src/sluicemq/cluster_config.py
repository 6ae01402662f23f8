"""What a user may set about a cluster, and which of the listed nodes this one is.

The list is the same on all nodes, in any order: a node's number is its place among the sorted
addresses.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final, NamedTuple

from sluicemq.errors import Refused
from sluicemq.options import Section, dataclass, declared

PORT: Final = 25672
"""The port of an address that names none, as RabbitMQ's of its nodes is by default."""

NODES_MAX: Final = 32
"""Nodes of a cluster at most: each has two connections to each other one."""

HOST: Final = r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+"
NAME: Final = rf"[A-Za-z0-9_.-]{{1,128}}(?:@(?:{HOST}))?"
ADDRESS: Final = rf"(?:([A-Za-z0-9_.-]{{1,128}})@)?({HOST})(?::([0-9]{{1,5}}))?"
HOST_OCTETS_MAX: Final = 120


class ListedNode(NamedTuple):
    """A node of the list. `name` is as RabbitMQ writes it, NAME@HOST; "" when the list does not say
    it."""

    host: str
    port: int
    name: str

    @property
    def address(self) -> str:
        """Return the address at which the other nodes reach it, as written in the list."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def is_called(self, name: str) -> bool:
        """Tell whether that is its name, with or without the host."""
        return name in (self.name, self.name.partition("@")[0])


@dataclass(frozen=True, kw_only=True)
class ClusterConfig(Section):
    """Several nodes that clients see as one broker ([cluster.md](cluster.md))."""

    name: str | None = declared(
        None,
        "text",
        "This node's name, such as `n1` or `rabbit@host1`. No other node may have the same.",
        default_words="none; required with `cluster.nodes`",
    )
    nodes: tuple[str, ...] = declared(
        (),
        "names",
        "All nodes that found the cluster, including this one; the list is the same on each of"
        " them. A node is `HOST:PORT`, `NAME@HOST:PORT`, or RabbitMQ's `NAME@HOST`, whose port is"
        " 25672. RabbitMQ's key names one node:"
        " `cluster_formation.classic_config.nodes.1 = rabbit@host1`.",
        keys=("cluster_formation.classic_config.nodes",),
    )
    join: tuple[str, ...] = declared(
        (),
        "names",
        "Nodes of a running cluster, as `HOST:PORT`. A new node asks them in turn to let it join;"
        " once it is a member, it does not need them any more. `cluster.port` is then required,"
        " and so is `cluster.host`, at which the other nodes reach it, unless the name contains"
        " the host.",
    )
    port: int | None = declared(
        None,
        "count",
        "The port that the other nodes connect to. If `cluster.nodes` has no names, it tells which"
        " of them this node is.",
        low=1,
        high=65535,
        default_words="the one in `cluster.nodes`",
    )
    host: str | None = declared(
        None,
        "text",
        "The address to listen on for the other nodes.",
        default_words="the one in `cluster.nodes`",
    )
    secret_file: str | None = declared(
        None,
        "text",
        "The file with the secret that all nodes share, at least 16 random bytes. Nobody but its"
        " owner may have access to it.",
        default_words="none; required with `cluster.nodes`",
    )
    down_queue: str = declared(
        "nack",
        "choice",
        "What happens to a message that is published with confirms to a classic queue or stream"
        " whose node is down: `nack` refuses it, so that the publisher knows; `drop` drops and"
        " confirms it, as RabbitMQ does. Without confirms it is dropped and counted.",
        choices=("nack", "drop"),
    )
    peer_discovery_backend: str = declared(
        "classic_config",
        "choice",
        "How the nodes find each other: by `cluster.nodes`.",
        keys=("cluster_formation.peer_discovery_backend",),
        choices=("classic_config", "rabbit_peer_discovery_classic_config"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for option in ("name", "port", "host", "secret_file"):
            if getattr(self, option) is not None and not self.takes_part:
                raise Refused(
                    f"cluster.{option} is set, so cluster.nodes or cluster.join must be, or, for a"
                    " node that is told later which cluster to join, cluster.name, cluster.port and"
                    " cluster.secret_file"
                )
        if not self.takes_part:
            return
        if self.nodes and self.join:
            raise Refused("cluster.nodes and cluster.join are set: a node founds or joins")
        needs = "cluster.nodes" if self.nodes else "cluster.join"
        if self.name is None:
            raise Refused(f"{needs} is set, so cluster.name must be")
        if not re.fullmatch(NAME, self.name):
            raise Refused(
                f"cluster.name = {self.name}: must be letters, digits, - _ and . (at most 128),"
                " and may have @HOST behind them"
            )
        if self.secret_file is None:
            raise Refused(f"{needs} is set, so cluster.secret_file must be")
        if not self.nodes and self.port is None:
            raise Refused("cluster.join is set, so cluster.port must be")
        self._demand_no_doubles()
        if not self.nodes:
            assert self.own and self.asked is not None, "addresses are checked"
            return
        assert self.listed[self.own_number - 1], "this node is in its list"

    def _demand_no_doubles(self) -> None:
        listed = self.listed
        if len(listed) > NODES_MAX:
            raise Refused(f"cluster.nodes has {len(listed)} nodes; at most {NODES_MAX} are allowed")
        for one, other in pairwise(listed):
            if one.address == other.address:
                raise Refused(f"cluster.nodes has {one.address} twice")
        names = sorted(each.name for each in listed if each.name)
        for name, next_name in pairwise(names):
            if name == next_name:
                raise Refused(f"cluster.nodes has two nodes of the name {name}")

    @property
    def takes_part(self) -> bool:
        """Tell whether this node is one of a cluster, or may be told to join one."""
        can_be_told = None not in (self.name, self.port, self.secret_file)
        return bool(self.nodes or self.join or can_be_told)

    @property
    def asked(self) -> tuple[ListedNode, ...]:
        """Return the nodes that this one asks for admission. Raises Refused when one is not an
        address."""
        return (*(listed_node(each, "cluster.join") for each in self.join),)

    @property
    def listed(self) -> tuple[ListedNode, ...]:
        """Return all nodes, by their numbers from 1 on. Raises Refused when one is not
        an address."""
        return tuple(sorted(map(listed_node, self.nodes)))

    @property
    def addresses(self) -> list[str]:
        """Return the addresses of all nodes, by their numbers."""
        return [each.address for each in self.listed]

    @property
    def own_number(self) -> int:
        """Return which of the nodes this one is. Raises Refused when the list does not tell."""
        listed = self.listed
        assert self.name is not None
        found = [each for each in listed if each.name and each.is_called(self.name)]
        if not found:
            found = self._found_by_port()
        if len(found) > 1:
            shown = " and ".join(each.name or each.address for each in found)
            raise Refused(
                f"cluster.name = {self.name}: cluster.nodes does not say which of {shown} this node"
                " is; write NAME@HOST:PORT there, and that NAME, or NAME@HOST, here"
            )
        (own,) = found
        if self.port not in (None, own.port):
            raise Refused(f"cluster.port = {self.port}: cluster.nodes has {own.port} for this node")
        return listed.index(own) + 1

    def _found_by_port(self) -> list[ListedNode]:
        unnamed = [each for each in self.listed if not each.name]
        if unnamed and self.port is None:
            raise Refused(
                "cluster.nodes is set, so cluster.port must be: it says which of the nodes this"
                " one is"
            )
        found = [each for each in unnamed if each.port == self.port]
        if len(found) > 1 and self.host is not None:
            found = [each for each in found if each.host == self.host]
        if not found:
            which = f"no port {self.port}" if unnamed else f"no node called {self.name}"
            option = f"port = {self.port}" if unnamed else f"name = {self.name}"
            raise Refused(
                f"cluster.{option}: cluster.nodes has {which}; it must have all nodes, this one too"
            )
        return found

    @property
    def own(self) -> ListedNode:
        """Return this node as listed; without a list, at its own host and port."""
        if self.nodes:
            return self.listed[self.own_number - 1]
        assert self.name is not None
        assert self.port is not None
        host = self.host or self.name.partition("@")[2]
        if not host:
            raise Refused(
                "cluster.port is set without cluster.nodes, so cluster.host must be, at which the"
                " other nodes reach this one; or a cluster.name that has @HOST behind it"
            )
        return listed_node(f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}")

    @property
    def own_name(self) -> str:
        """Return this node's name: the full one when the list has it."""
        return self.own.name or self.name or ""


def listed_node(text: str, option: str = "cluster.nodes") -> ListedNode:
    """Parse one item of the list in `option`. Raises Refused when it is not the address
    of a node."""
    found = re.fullmatch(ADDRESS, text)
    port = int(found[3] or PORT) if found else 0
    if not found or len(found[2]) > HOST_OCTETS_MAX or not 1 <= port <= 65535:
        raise Refused(
            f"{option} has {text}: must be HOST:PORT, NAME@HOST:PORT or NAME@HOST, with a port"
            " from 1 to 65535"
        )
    name = f"{found[1]}@{found[2]}" if found[1] else ""
    return ListedNode(found[2].strip("[]"), port, name)
