"""What channels, the broker's own publishers and crashes see of a virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.access.session import Host
from sluicemq.chain.queue.home import QueueHome
from sluicemq.chain.queue.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluicemq.model.definitions import (
        BindingDefinition,
        ExchangeDefinition,
        QueueDefinition,
    )


class Queues(dict[str, Queue]):
    """By name. The holding queues of exchanges are found too by who asks for one that must be
    there, which only routing does; nobody else sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.holding: dict[str, Queue] = {}

    def __missing__(self, name: str) -> Queue:
        return self.holding[name]


class Namespace(QueueHome, Host):
    """A virtual host: its exchanges, bindings and queues by name, and how they come and go.
    `exclusive` has the exclusive queues by their connection's name, then by their own.

    What declares, binds or deletes returns the changes that must be in the journal before the
    client is told; none, when nothing durable has changed. Refusals are ProtocolViolations.
    """

    queues: Queues
    exclusive: dict[str, dict[str, Queue]]

    def check_alive(self) -> None:
        """Refuse with 320 when the virtual host is being deleted."""
        raise NotImplementedError

    def check_room(self, queue: str) -> None:
        """Refuse with 406 when there are as many queues as there may be; `queue` is the one more
        that was to be declared."""
        raise NotImplementedError

    def declare_queue(self, definition: QueueDefinition) -> Queue:
        """Create a queue that does not exist yet."""
        raise NotImplementedError

    def declare_exchange(self, asked: ExchangeDefinition, passive: bool) -> list[bytes]:
        """Create an exchange, or see that one that is there is what was asked for; `passive`: only
        see that it is there."""
        raise NotImplementedError

    def delete_exchange(self, name: str, if_unused: bool) -> list[bytes]:
        """Delete an exchange that is there; auto-delete exchanges may go with it. `if_unused`:
        refuse with 406 when it has bindings."""
        raise NotImplementedError

    def delete_in_pieces(self, name: str, then: Callable[[list[bytes]], None]) -> Iterator[int]:
        """Delete an exchange that may have very many bindings: each step takes some of them away
        and gives its work; `then` gets the changes after the last one."""
        raise NotImplementedError

    def bind(self, binding: BindingDefinition) -> list[bytes]:
        """Bind a queue or an exchange to an exchange."""
        raise NotImplementedError

    def unbind(self, binding: BindingDefinition) -> list[bytes]:
        """Take a binding away; auto-delete exchanges may go with their last one."""
        raise NotImplementedError

    def replace(self, queue: Queue, fresh: Queue) -> None:
        """Put `fresh`, which has what was read back, in the place of a queue that has crashed."""
        raise NotImplementedError
