"""What channels, the broker's own publishers and crashes see of a virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.access.session import Host
from sluicemq.chain.queue.queue import Queue
from sluicemq.chain.queue.vhost_port import VhostPort

if TYPE_CHECKING:
    from collections.abc import Iterator


class Queues(dict[str, Queue]):
    """Finds queues by name. The holding queues of exchanges are found too by who asks for one that
    must be there, which only routing does; nobody else sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.holding: dict[str, Queue] = {}

    def __missing__(self, name: str) -> Queue:
        return self.holding[name]


class NamespacePort(VhostPort, Host):
    """This is a virtual host: its exchanges, bindings and queues by name. They come and go by what
    is agreed on (metadata/agreement.py). `exclusive` has the exclusive queues by their connection's
    name, then by their own."""

    queues: Queues
    exclusive: dict[str, dict[str, Queue]]

    def unbind_exchange(self, name: str) -> Iterator[int]:
        """Take away all bindings of an exchange that is about to be deleted, some at each step,
        which gives its units of work."""
        raise NotImplementedError

    def replace(self, queue: Queue, fresh: Queue) -> None:
        """Put `fresh`, which has what was read back, in the place of a queue that has crashed."""
        raise NotImplementedError
