"""What the operator changes: users, what they may do, virtual hosts.

Each function changes what holds now, at once and on open channels too, and returns the change for
the journal; nobody is told before that is durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.broker.vhost import VirtualHost
from sluicemq.chain.channel.connection_port import ConnectionFault
from sluicemq.errors import ConnectionViolation
from sluicemq.model.permissions import Permission, TopicPermission
from sluicemq.model.users import User
from sluicemq.model.vhosts import VhostDefinition
from sluicemq.queues.commands import Delete

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.access.session import Session
    from sluicemq.broker.broker import Broker
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.record import Key, Record


def put(broker: Broker, record: Record) -> bytes:
    """A user or a permission, new or changed, that has been checked."""
    assert isinstance(record, User | Permission | TopicPermission)
    change = broker.definitions.put(record)
    broker.access.changed(None if isinstance(record, User) else record.vhost)
    return change


def drop(broker: Broker, kind: str, key: Key) -> bytes:
    """A permission goes."""
    change = broker.definitions.drop(kind, key)
    broker.access.changed()
    return change


def delete_user(broker: Broker, name: str) -> bytes:
    """With all it may do; its connections are closed."""
    close(broker.access.sessions.get(name, ()), f"user '{name}' is deleted")
    return drop(broker, User.KIND, name)


def put_vhost(broker: Broker, definition: VhostDefinition) -> bytes:
    """A virtual host, new or changed."""
    if definition.name not in broker.vhosts:
        broker.vhosts[definition.name] = VirtualHost(broker, broker.store, definition.name)
    return broker.definitions.put(definition)


def empty_vhost(broker: Broker, vhost: VirtualHost, listener: Actor) -> None:
    """Nobody may enter any more, and who is in it has to leave; its queues go. `listener` hears
    VhostEmpty when they are gone; then it is time for `delete_vhost`."""
    readers = [reader for reader in broker.connections.values() if reader.vhost is vhost]
    close(readers, vhost.farewell)
    vhost.begin_end(listener)
    for queue in vhost.queues.values():
        queue.post(Delete(None, False, False))


def delete_vhost(broker: Broker, vhost: VirtualHost) -> bytes:
    """With its exchanges, bindings, permissions and policies; its queues have gone before, in the
    journal too: a crash in between leaves a virtual host with fewer queues."""
    assert not vhost.queues
    del broker.vhosts[vhost.name]
    return drop(broker, VhostDefinition.KIND, vhost.name)


def close(sessions: Iterable[Session], text: str) -> None:
    """Connections end by the operator's wish: 320."""
    for session in sessions:
        session.post(ConnectionFault(ConnectionViolation(320, text)))
