"""Clusters that can be hurt: their nodes, and the network between them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Protocol

from cluster.link_proxies import LinkProxies
from cluster.namespaces import Namespaces
from cluster.rabbitmq_node import RabbitNode, port_mapper
from support.ports import free_port
from support.served import NODES_PORT, Served, own_hosts


class Node(Protocol):
    """A process that is one of the nodes."""

    number: int
    host: str
    port: int

    def start(self) -> None: ...
    def send_signal(self, number: int) -> None: ...
    def end(self, number: int) -> int: ...
    def ctl(self, *arguments: str) -> CompletedProcess[str]: ...
    @property
    def is_ready(self) -> bool: ...
    @property
    def log(self) -> str: ...


class Network(Protocol):
    """What is between the nodes."""

    def cut(self, *ways: tuple[int, int]) -> None: ...
    def heal(self) -> None: ...


class Site:
    """The nodes, and what is between them; None: nothing that can be cut."""

    def __init__(self, broker: str, nodes: Sequence[Node], network: Network | None) -> None:
        self.broker = broker
        self.nodes = list(nodes)
        self.network = network

    @property
    def numbers(self) -> list[int]:
        return [each.number for each in self.nodes]

    def node(self, number: int) -> Node:
        return self.nodes[number - 1]


@contextmanager
def proxied(root: Path, count: int) -> Iterator[Site]:
    """Our nodes on loopback, with proxies between them."""
    known, hidden = own_hosts(count), own_hosts(count, first=101)
    addresses = [f"{host}:{NODES_PORT + n}" for n, host in enumerate(known, start=1)]
    with tempfile.TemporaryDirectory(prefix="sluicemq-") as runtime:
        nodes = [
            Served(number, root, addresses, runtime, behind)
            for number, behind in enumerate(hidden, start=1)
        ]

        def pid_of(number: int) -> int | None:
            process = nodes[number - 1].process
            return None if process is None else process.pid

        shown, real = (
            [(host, NODES_PORT + n) for n, host in enumerate(hosts, start=1)]
            for hosts in (known, hidden)
        )
        proxies = LinkProxies(shown, real, pid_of)
        try:
            yield Site("sluicemq", nodes, proxies)
        finally:
            for each in nodes:
                each.close()
            proxies.close()


@contextmanager
def walled(root: Path, count: int) -> Iterator[Site]:
    """Our nodes in network namespaces."""
    network = Namespaces(count)
    hosts = [network.host(number) for number in range(1, count + 1)]
    addresses = [f"{host}:{NODES_PORT + n}" for n, host in enumerate(hosts, start=1)]
    with tempfile.TemporaryDirectory(prefix="sluicemq-") as runtime:
        nodes = [
            Served(number, root, addresses, runtime, within=network.within(number))
            for number in range(1, count + 1)
        ]
        try:
            yield Site("sluicemq", nodes, network)
        finally:
            for each in nodes:
                each.close()
            network.close()


@contextmanager
def walled_rabbitmq(root: Path, count: int) -> Iterator[Site]:
    """RabbitMQ's nodes in network namespaces."""
    network = Namespaces(count)
    numbers = range(1, count + 1)
    hosts = [network.host(number) for number in numbers]
    with ExitStack() as stack:
        stack.callback(network.close)
        for number in numbers:
            stack.enter_context(port_mapper(within=network.within(number)))
        nodes = [RabbitNode(number, root, hosts, network.within(number)) for number in numbers]
        for each in nodes:
            stack.callback(each.close)
        yield Site("rabbitmq", nodes, network)


@contextmanager
def loopback_rabbitmq(root: Path, count: int, with_api: bool = False) -> Iterator[Site]:
    """RabbitMQ's nodes on loopback, with nothing between them that can be cut; the first one has an
    HTTP API, if that is wanted."""
    hosts = own_hosts(count, first=151)
    with ExitStack() as stack:
        port = free_port(hosts[0])
        stack.enter_context(port_mapper(port))
        nodes = []
        for number in range(1, count + 1):
            kind = "rabbitmq_management" if number == 1 else "rabbitmq_management_agent"
            plugins = [kind] if with_api else []
            nodes.append(RabbitNode(number, root, hosts, epmd_port=port, plugins=plugins))
            stack.callback(nodes[-1].close)
        yield Site("rabbitmq", nodes, None)


@contextmanager
def loopback(root: Path, count: int) -> Iterator[Site]:
    """Our nodes on loopback, with nothing between them that can be cut."""
    addresses = [f"{host}:{NODES_PORT + n}" for n, host in enumerate(own_hosts(count), start=1)]
    with tempfile.TemporaryDirectory(prefix="sluicemq-") as runtime:
        nodes = [Served(number, root, addresses, runtime) for number in range(1, count + 1)]
        try:
            yield Site("sluicemq", nodes, None)
        finally:
            for each in nodes:
                each.close()
