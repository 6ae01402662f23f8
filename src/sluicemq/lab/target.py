"""The broker under test, seen from outside: its nodes, its queues, its process."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sluicemq.client.address import Address
from sluicemq.client.blocking import BlockingClient, connect
from sluicemq.client.resolved_address import ResolvedAddress
from sluicemq.client.session import BrokerError
from sluicemq.errors import Refused
from sluicemq.lab.plan import NS, RunPlan

ADMIN_TIMEOUT_S: Final = 30.0
"""Seconds to wait for an answer of an idle broker, with a margin for one that has to elect leaders
first."""

COUNT_TIMEOUT_S: Final = 60.0
"""Seconds to wait for the counts after a run: an overloaded broker is still busy then."""


def resolve(url: str) -> ResolvedAddress:
    """Return one address of a broker, resolved. Raises `Refused` when its host has none."""
    address = Address.parse(url)
    try:
        return ResolvedAddress(address)
    except OSError as error:
        raise Refused(f"cannot resolve {address.host!r}: {error}") from error


class TargetQueues:
    """The scenario's queues on the target: declared before a run, deleted after it."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._names = plan.queue_names

    def make(self) -> tuple[str, str]:
        """Delete the queues of an earlier run, and declare them anew. Queue q is declared through
        node q modulo their number, so that leaders spread. Returns the broker's product and
        version."""
        targets = self._plan.targets
        clients = [connect(url, timeout_s=ADMIN_TIMEOUT_S) for url in targets]
        try:
            for index, name in enumerate(self._names):
                client = clients[index % len(clients)]
                client.delete_queue(name)
                client.declare_queue(name, durable=True, arguments=self._plan.declare_arguments)
            return clients[0].product, clients[0].version
        finally:
            for client in clients:
                client.close()

    def count(self) -> int:
        """Return how many messages are ready in all of the queues."""
        with self.connect(COUNT_TIMEOUT_S) as client:
            return client.count_queues(self._names)

    def delete(self) -> None:
        """Delete the scenario's queues and the messages in them."""
        with self.connect() as client:
            for name in self._names:
                client.delete_queue(name)

    def connect(self, timeout_s: float = ADMIN_TIMEOUT_S) -> BlockingClient:
        """Open an administrative connection to the first node."""
        return connect(self._plan.targets[0], timeout_s=timeout_s)

    @property
    def addresses(self) -> Sequence[Address]:
        """Return the addresses of all nodes of the target."""
        return [Address.parse(url) for url in self._plan.targets]

    @property
    def names(self) -> Sequence[str]:
        """Return the names of the scenario's queues, in order."""
        return self._names


class BrokerProcess:
    """Reads CPU time and memory of the broker's process from /proc."""

    _TICK_NS: Final = NS // os.sysconf("SC_CLK_TCK")
    _PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

    def __init__(self, pid: int) -> None:
        self._folder = Path("/proc") / str(pid)
        if not self._folder.is_dir():
            raise Refused(f"there is no process {pid}")

    def cpu_ns(self) -> int:
        """Return the user and system time so far, in nanoseconds. Raises BrokerError when the
        process is gone."""
        # After the command name, which may hold spaces and parentheses.
        fields = self._read("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * self._TICK_NS

    def rss_bytes(self) -> int:
        """Return the process's resident memory in bytes. Raises BrokerError when the process is
        gone."""
        return int(self._read("statm").split()[1]) * self._PAGE_BYTES

    def _read(self, name: str) -> str:
        try:
            return (self._folder / name).read_text()
        except OSError as error:
            raise BrokerError(f"the broker's process is gone: {error}") from error
