"""What the broker does when something was declared or deleted. The change is agreed on and applied
by then (metadata/agreement.py), and each function here handles one kind of event.

Virtual hosts come first, because access and policy rounds look at them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.broker.vhost import VirtualHost
from sluicemq.chain.channel.connection_port import ConnectionFault
from sluicemq.errors import ConnectionViolation
from sluicemq.metadata.events import (
    ExchangeRemoved,
    LeaderMoved,
    MembersChanged,
    QueueAdded,
    QueueRemoved,
    RecordDeleted,
    RecordUpserted,
    VhostClosed,
)
from sluicemq.metadata.state import close_reason
from sluicemq.model.users import User
from sluicemq.model.vhosts import VhostDefinition
from sluicemq.queues.commands import Delete

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sluicemq.access.session import Session
    from sluicemq.broker.policy_rounds import PolicyRounds
    from sluicemq.chain.connection.broker_port import BrokerPort
    from sluicemq.chain.connection.reader import Reader
    from sluicemq.chain.remote.queue_post import QueuePost
    from sluicemq.chain.store.message_store import MessageStore
    from sluicemq.metadata.agreement import Agreement


class Followers:
    """The actions of one broker for each kind of event. `vhosts`, `connections` and `named`, which
    has queues by their names, are the broker's own tables; `post` leads to the queues of other
    nodes, None on a node alone."""

    def __init__(
        self,
        broker: BrokerPort,
        store: MessageStore,
        vhosts: dict[str, VirtualHost],
        connections: Mapping[int, Reader],
        named: Mapping[str, Reader],
        agreement: Agreement,
        post: QueuePost | None = None,
    ) -> None:
        self.broker = broker
        self.named = named
        self.agreement = agreement
        self.post = post
        self.store = store
        self.vhosts = vhosts
        self.connections = connections

    def follow(self, policy_rounds: PolicyRounds) -> None:
        """Register access, the policy rounds and the methods of this class for the events of the
        agreement from now on."""
        access = self.broker.access
        agreement = self.agreement
        agreement.follow(RecordUpserted, self.record_upserted)
        agreement.follow(RecordUpserted, access.record_upserted)
        agreement.follow(RecordUpserted, policy_rounds.record_upserted)
        agreement.follow(RecordDeleted, self.record_deleted)
        agreement.follow(RecordDeleted, access.record_deleted)
        agreement.follow(RecordDeleted, policy_rounds.record_deleted)
        agreement.follow(VhostClosed, self.vhost_closed)
        agreement.follow(ExchangeRemoved, self.exchange_removed)
        agreement.follow(QueueAdded, self.queue_added)
        agreement.follow(QueueRemoved, self.queue_removed)
        agreement.follow(MembersChanged, self.members_changed)
        agreement.follow(LeaderMoved, self.leader_moved)

    def record_upserted(self, event: RecordUpserted) -> None:
        """Make a virtual host that is new, and log policies that cannot be applied."""
        self.say_problems()
        record = event.record
        if isinstance(record, VhostDefinition) and record.name not in self.vhosts:
            self.vhosts[record.name] = VirtualHost(self.broker, self.store, record.name, self.post)

    def say_problems(self) -> None:
        """Log the policies that cannot be applied, once each."""
        problems = self.broker.definitions.problems
        for problem in problems:
            self.broker.world.log.write("error", problem)
        problems.clear()

    def record_deleted(self, event: RecordDeleted) -> None:
        """Close the connections of a deleted user, or forget a deleted virtual host. The queues of
        a virtual host are deleted before it, in the journal too, so a crash in between leaves a
        virtual host with fewer queues."""
        record = event.record
        if isinstance(record, User):
            sessions = self.broker.access.sessions.get(record.name, ())
            close(sessions, f"user '{record.name}' is deleted")
        elif isinstance(record, VhostDefinition):
            vhost = self.vhosts.pop(record.name)
            assert not vhost.queues
            assert not vhost.queues.holding

    def vhost_closed(self, event: VhostClosed) -> None:
        """Close all connections in a virtual host that is about to be deleted, and delete its
        queues. Nobody may enter it any more."""
        vhost = self.vhosts[event.name]
        readers = [reader for reader in self.connections.values() if reader.vhost is vhost]
        close(readers, close_reason(event.name))
        vhost.closed()

    def exchange_removed(self, event: ExchangeRemoved) -> None:
        """Delete the queue that held delayed messages for a deleted exchange, if there is one."""
        self.vhosts[event.exchange.vhost].exchange_removed(event.exchange)

    def queue_added(self, event: QueueAdded) -> None:
        """Let the virtual host make a declared queue. It is deleted at once if its owner left
        before the declaration was agreed on. Channels of other nodes may have asked for it already.
        """
        self.broker.counters.queues_created += 1
        declared = event.queue
        vhost = self.vhosts[declared.definition.vhost]
        vhost.queue_added(declared)
        if self.post is not None:
            self.post.queue_added(declared)
        owner = declared.definition.owner
        if owner is None or self.agreement.applies_at_once or declared.life != self.broker.life:
            return
        reader = self.named.get(owner)
        if reader is None or not reader.is_open():
            vhost.queues[declared.definition.name].post(Delete(None, False, False))

    def members_changed(self, event: MembersChanged) -> None:
        """Let the virtual host add this node's member of a quorum queue, or remove it."""
        self.vhosts[event.queue.definition.vhost].members_changed(event.queue)

    def leader_moved(self, event: LeaderMoved) -> None:
        """Have the member here hand over, if it leads and another one should."""
        self.vhosts[event.queue.definition.vhost].leader_moved(event.queue)

    def queue_removed(self, event: QueueRemoved) -> None:
        """Let the virtual host forget a deleted queue. If the connection that owns it did not ask
        for that, because this node was taken for dead, the connection is closed, too."""
        self.broker.counters.queues_deleted += 1
        if self.broker.ask_post is not None:
            self.broker.ask_post.forget(event.queue.id)
        definition = event.queue.definition
        went_on = self.vhosts[definition.vhost].queue_removed(event.queue)
        owner = None if definition.owner is None else self.named.get(definition.owner)
        if went_on is not None and owner is not None:
            text = f"{went_on.title} is gone, for the other nodes believed this one dead"
            close([owner], text)


def close(sessions: Iterable[Session], text: str) -> None:
    """Close these connections on the operator's behalf (320); `text` tells the clients why."""
    for session in sessions:
        session.post(ConnectionFault(ConnectionViolation(320, text)))
