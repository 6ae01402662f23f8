"""A virtual host, as channels, the broker's own publishers and crashes see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.access.session import Host
from sluicemq.chain.queue.queue import Queue
from sluicemq.chain.queue.vhost_port import VhostPort
from sluicemq.model.traffic import ExchangeTraffic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.model.traffic import Traffic


class Queues(dict[str, Queue]):
    """Finds queues by name. The holding queues of exchanges are only found by subscripting, which
    only routing uses; all other lookups miss them."""

    def __init__(self) -> None:
        super().__init__()
        self.holding: dict[str, Queue] = {}

    def __missing__(self, name: str) -> Queue:
        return self.holding[name]


class NamespacePort(VhostPort, Host):
    """A virtual host: its exchanges, bindings and queues by name. The cluster agrees on their
    coming and going (metadata/agreement.py). `exclusive` has the exclusive queues by their
    connection's name, then by their own."""

    queues: Queues
    exclusive: dict[str, dict[str, Queue]]
    traffic: Traffic
    exchange_traffic: dict[str, ExchangeTraffic]
    """The traffic of each exchange that was published to."""

    def traffic_of(self, exchange: str) -> ExchangeTraffic:
        """Return the counters of an existing exchange."""
        found = self.exchange_traffic.get(exchange)
        if found is None:
            found = self.exchange_traffic[exchange] = ExchangeTraffic()
        return found

    def unbind_exchange(self, name: str) -> Iterator[int]:
        """Remove all bindings of an exchange that is about to be deleted, some at each step, which
        gives its units of work."""
        raise NotImplementedError

    def forgotten(self, queue_id: int, name: str) -> None:
        """Note that this node has nothing on its disk any more of a queue of which it had a member;
        it may have another one."""
        raise NotImplementedError

    def master_begins(self, queue: Queue) -> None:
        """Let channels use a queue of which this node is the master from now on."""
        raise NotImplementedError

    def master_ended(self, queue: Queue) -> None:
        """Stop a queue of which this node is the master no more; channels use the next master's."""
        raise NotImplementedError

    def source_ended(self, queue: Queue) -> None:
        """Stop a queue without mirrors, whose messages have all moved to a mirrored one."""
        raise NotImplementedError

    def replace(self, queue: Queue, fresh: Queue) -> None:
        """Replace a crashed queue by `fresh`, which has what was read back."""
        raise NotImplementedError
