"""What the broker does when something was declared or deleted: that has been agreed on and applied
(metadata/agreement.py), and each of these functions hears of one kind of it.

Virtual hosts come first, for access and rounds of policies look at them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.broker.vhost import VirtualHost
from sluicemq.chain.channel.connection_port import ConnectionFault
from sluicemq.errors import ConnectionViolation
from sluicemq.metadata.events import (
    ExchangeRemoved,
    QueueAdded,
    QueueRemoved,
    RecordDropped,
    RecordPut,
    VhostClosed,
)
from sluicemq.metadata.state import close_reason
from sluicemq.model.users import User
from sluicemq.model.vhosts import VhostDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluicemq.access.session import Session
    from sluicemq.broker.policy_rounds import PolicyRounds
    from sluicemq.chain.connection.entrance import Entrance
    from sluicemq.chain.connection.reader import Reader
    from sluicemq.chain.store.message_store import MessageStore
    from sluicemq.metadata.agreement import Agreement


class Followers:
    """Those of one broker. `vhosts` and `connections` are its own tables."""

    def __init__(
        self,
        broker: Entrance,
        store: MessageStore,
        vhosts: dict[str, VirtualHost],
        connections: Mapping[int, Reader],
    ) -> None:
        self.broker = broker
        self.store = store
        self.vhosts = vhosts
        self.connections = connections

    def follow(self, agreement: Agreement, policy_rounds: PolicyRounds) -> None:
        """Have all of them hear of what happens from now on."""
        access = self.broker.access
        agreement.follow(RecordPut, self.record_put)
        agreement.follow(RecordPut, access.record_put)
        agreement.follow(RecordPut, policy_rounds.record_put)
        agreement.follow(RecordDropped, self.record_dropped)
        agreement.follow(RecordDropped, access.record_dropped)
        agreement.follow(RecordDropped, policy_rounds.record_dropped)
        agreement.follow(VhostClosed, self.vhost_closed)
        agreement.follow(ExchangeRemoved, self.exchange_removed)
        agreement.follow(QueueAdded, self.queue_added)
        agreement.follow(QueueRemoved, self.queue_removed)

    def record_put(self, event: RecordPut) -> None:
        """A virtual host may be new; a policy may not hold."""
        self.say_problems()
        record = event.record
        if isinstance(record, VhostDefinition) and record.name not in self.vhosts:
            self.vhosts[record.name] = VirtualHost(self.broker, self.store, record.name)

    def say_problems(self) -> None:
        """Policies that cannot hold, in the log."""
        problems = self.broker.definitions.problems
        for problem in problems:
            self.broker.world.log.write("error", problem)
        problems.clear()

    def record_dropped(self, event: RecordDropped) -> None:
        """The connections of a user end with it. The queues of a virtual host have gone before it,
        in the journal too: a crash in between leaves a virtual host with fewer queues."""
        record = event.record
        if isinstance(record, User):
            sessions = self.broker.access.sessions.get(record.name, ())
            close(sessions, f"user '{record.name}' is deleted")
        elif isinstance(record, VhostDefinition):
            vhost = self.vhosts.pop(record.name)
            assert not vhost.queues
            assert not vhost.queues.holding

    def vhost_closed(self, event: VhostClosed) -> None:
        """Nobody may enter any more, and who is in it has to leave; its queues go."""
        vhost = self.vhosts[event.name]
        readers = [reader for reader in self.connections.values() if reader.vhost is vhost]
        close(readers, close_reason(event.name))
        vhost.closed()

    def exchange_removed(self, event: ExchangeRemoved) -> None:
        """The queue that keeps messages back for it goes."""
        self.vhosts[event.exchange.vhost].exchange_removed(event.exchange)

    def queue_added(self, event: QueueAdded) -> None:
        """Its virtual host makes it."""
        self.vhosts[event.queue.definition.vhost].queue_added(event.queue)

    def queue_removed(self, event: QueueRemoved) -> None:
        """Its virtual host forgets it."""
        self.vhosts[event.queue.definition.vhost].queue_removed(event.queue)


def close(sessions: Iterable[Session], text: str) -> None:
    """Connections end by the operator's wish: 320."""
    for session in sessions:
        session.post(ConnectionFault(ConnectionViolation(320, text)))
