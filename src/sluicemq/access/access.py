"""Who may do what: handshakes and channels ask; a change applies from the next question on.

The checks are RabbitMQ's, in its order and words. Publishing asks once a Route: `changed` makes the
routes stale, so that the next publish on each asks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.errors import ChannelViolation, ConnectionViolation, Refused
from sluicemq.limits import RIGHTS_MAX
from sluicemq.metadata.changes import UpsertRecord
from sluicemq.model.definitions import EXCHANGE, QUEUE
from sluicemq.model.patterns import NEVER, Pattern
from sluicemq.model.permissions import CONFIGURE, READ, WRITE, Permission, TopicPermission
from sluicemq.model.users import IMPERSONATOR, User, password_fits
from sluicemq.model.vhosts import MAX_CHANNELS, MAX_CONNECTIONS, VhostDefinition, limit_of
from sluicemq.routing.topology import check_not_default, check_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sluicemq.access.session import Host, Session
    from sluicemq.config import AuthConfig
    from sluicemq.kernel.world import Log
    from sluicemq.metadata.events import RecordDeleted, RecordUpserted
    from sluicemq.metadata.record_tables import RecordTables
    from sluicemq.metadata.tables import DurableTables
    from sluicemq.model.definitions import (
        BindingDefinition,
        ExchangeDefinition,
        QueueDefinition,
    )
    from sluicemq.routing.topology import Topology

DEFAULT_EXCHANGE: Final = "amq.default"
"""The name by which permissions know the exchange without a name."""
DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"
TOPIC: Final = "topic"


class Access:
    """Answers who may do what on one node. `epoch` rises with every change of users or permissions;
    `sessions` has the open connections of each user, by its name."""

    def __init__(
        self,
        definitions: RecordTables,
        vhosts: Mapping[str, Host],
        auth: AuthConfig,
        log: Log,
    ) -> None:
        self.definitions = definitions
        self.vhosts = vhosts
        self.auth = auth
        self.log = log
        self.epoch = 0
        self.refuses_all = ""
        """Why nobody may log in now, as a text for the log; "": who is known may."""
        self.sessions: dict[str, dict[Session, None]] = {}
        self._patterns: dict[tuple[str, ...], dict[str, Pattern]] = {}

    def record_upserted(self, event: RecordUpserted) -> None:
        """Make earlier answers stale when the record is a user or a permission."""
        record = event.record
        if isinstance(record, User):
            self.changed()
        elif isinstance(record, Permission | TopicPermission):
            self.changed(record.vhost)

    def record_deleted(self, event: RecordDeleted) -> None:
        """Make earlier answers stale when the deleted record is a permission, or a user or a
        virtual host, whose permissions are deleted with it."""
        if isinstance(event.record, User | VhostDefinition | Permission | TopicPermission):
            self.changed()

    def changed(self, where: str | None = None) -> None:
        """Make all earlier answers about users and permissions stale: in the virtual host `where`,
        or in all of them when that is None."""
        self.epoch += 1
        self._patterns.clear()
        for vhost in self.vhosts.values() if where is None else (self.vhosts[where],):
            vhost.topology.epoch += 1

    def refusal(self, name: str, password: str | None, from_loopback: bool) -> str:
        """Return why that user may not log in, as a text for the log; "" when it may. A `password`
        of None means that something else vouches for the user, who must only exist."""
        user = self.definitions.users.get(name)
        fits = user is not None if password is None else password_fits(user, password)
        if self.refuses_all:
            return self.refuses_all
        if password == "":
            return f"user '{name}' attempted to log in with a blank password"
        if not fits:
            return f"user '{name}' - invalid credentials"
        if not from_loopback and name in self.auth.loopback_users:
            return f"user '{name}' can only connect via localhost"
        return ""

    def may_enter(self, user: str, vhost: str) -> bool:
        """Tell whether the user may open connections in a virtual host: any permission there is
        enough."""
        return (user, vhost) in self.definitions.permissions

    def check_entry(self, user: str, vhost: str) -> None:
        """Raise ConnectionViolation (530) unless that user may open a connection in the virtual
        host now: the virtual host must exist, not be about to be deleted, and have room; the user
        must have room for a connection, too, and a permission there."""
        found = self.vhosts.get(vhost)
        if found is None or not found.is_open:
            raise not_allowed(f"vhost {vhost} not found")
        self.check_room(user, vhost)
        if not self.may_enter(user, vhost):
            raise not_allowed(f"access to vhost '{vhost}' refused for user '{user}'")

    def check_room(self, user: str, vhost: str) -> None:
        """Raise ConnectionViolation (530) when the virtual host, which must exist, or the user has
        as many connections as its limit allows."""
        most = limit_of(self.definitions.vhosts[vhost].limits, MAX_CONNECTIONS)
        if most is not None and self.vhosts[vhost].connections >= most:
            text = f"access to vhost '{vhost}' refused for user '{user}'"
            raise not_allowed(f"{text}: connection limit ({most}) is reached")
        known = self.definitions.users.get(user)
        most = limit_of(known.limits, MAX_CONNECTIONS) if known is not None else None
        if most is not None and len(self.sessions.get(user, ())) >= most:
            text = f"connection refused for user '{user}'"
            raise not_allowed(f"{text}: user connection limit ({most}) is reached")

    def check_channels(self, user: str) -> None:
        """Raise ConnectionViolation (530) when that user has as many open channels as its limit
        allows."""
        known = self.definitions.users.get(user)
        most = limit_of(known.limits, MAX_CHANNELS) if known is not None else None
        if most is not None and self.channels_of(user) >= most:
            raise not_allowed(
                f"number of channels opened for user '{user}' has reached the maximum allowed user"
                f" limit of ({most})"
            )

    def allows(self, user: str, vhost: str, permission: str, name: str) -> bool:
        """Tell whether the user may do what `permission` says (CONFIGURE, WRITE or READ) with the
        queue or exchange `name`."""
        record = self.definitions.permissions.get((user, vhost))
        return record is not None and self._matches(record, permission, name)

    def looks_at_topics(self, user: str, vhost: str, exchange: str) -> bool:
        """Tell whether it depends on the routing key what the user may do at a topic exchange."""
        return (user, vhost, exchange) in self.definitions.topic_permissions

    def allows_topic(
        self, user: str, vhost: str, exchange: str, permission: str, routing_key: str
    ) -> bool:
        """Tell whether the user may do what `permission` says (WRITE or READ) with that routing key
        at a topic exchange. Without a topic permission for the exchange every key is allowed."""
        record = self.definitions.topic_permissions.get((user, vhost, exchange))
        return record is None or self._matches(record, permission, routing_key)

    def pattern_of(self, record: Permission | TopicPermission, permission: str) -> Pattern:
        """Return the compiled pattern of one permission in a record; it is compiled when first
        needed. A pattern that this version of the library does not accept, though an earlier one
        did, allows nothing, and the log says so."""
        patterns = self._patterns.get(record.key)
        if patterns is None:
            try:
                patterns = record.patterns()
            except Refused as refused:
                whose = f"user '{record.user}' in vhost '{record.vhost}'"
                text = f"{whose} is denied everything: {refused}"
                self.log.write("error", text)
                patterns = dict.fromkeys((CONFIGURE, WRITE, READ), Pattern(NEVER))
            self._patterns[record.key] = patterns
        return patterns[permission]

    def _matches(self, record: Permission | TopicPermission, permission: str, subject: str) -> bool:
        pattern = self.pattern_of(record, permission)
        strikes = pattern.strikes
        matches = pattern.matches(subject)
        if pattern.strikes != strikes:
            self._complain(record, permission, pattern)
        return matches

    def _complain(
        self, record: Permission | TopicPermission, permission: str, pattern: Pattern
    ) -> None:
        """Log that a match was given up, because it would have held up all clients."""
        whose = f"user '{record.user}' in vhost '{record.vhost}'"
        text = f"the {permission} pattern of {whose} took too"
        if pattern.spent:
            text += " long too often, so it is not tried any more"
        elif pattern.strikes == 1:
            text += " long to match a name, so access was denied"
        else:
            return
        self.log.write("warning", f"{text}: {pattern.text}")

    def channels_of(self, user: str) -> int:
        """Return the number of channels that are open on all connections of a user."""
        return sum(len(session.channels) for session in self.sessions.get(user, ()))

    def enter(self, session: Session) -> None:
        """Count an open connection for its user and its virtual host."""
        self.sessions.setdefault(session.user, {})[session] = None
        if session.vhost is not None:
            session.vhost.connections += 1

    def leave(self, session: Session) -> None:
        """Stop counting a closed connection; does nothing for one that is not counted."""
        of_user = self.sessions.get(session.user)
        if of_user is None or of_user.pop(session, self) is self:
            return
        if not of_user:
            del self.sessions[session.user]
        if session.vhost is not None:
            session.vhost.connections -= 1


class Rights:
    """What one connection may do in its virtual host. Permissions that were granted once are
    remembered until users or permissions change."""

    __slots__ = ("_allowed", "access", "epoch", "user", "vhost")

    def __init__(self, access: Access, user: str, vhost: str) -> None:
        self.access = access
        self.user = user
        self.vhost = vhost
        self.epoch = access.epoch
        self._allowed: dict[tuple[str, ...], None] = {}

    def check_queue(self, permission: str, name: str) -> None:
        """Raise ChannelViolation (403) unless the user has this permission for the queue `name`."""
        self._check(permission, QUEUE, name)

    def check_exchange(self, permission: str, name: str) -> None:
        """Raise ChannelViolation (403) unless the user has this permission for the exchange `name`;
        "" is the default exchange."""
        self._check(permission, EXCHANGE, name or DEFAULT_EXCHANGE)

    def check_any(self, kind: str, name: str) -> None:
        """Raise ChannelViolation (403) unless the user has some permission for that queue or
        exchange (`kind`): a user without any must not find out whether it exists (RabbitMQ 4.3,
        CVE-2026-57221)."""
        shown = name or DEFAULT_EXCHANGE if kind == EXCHANGE else name
        may = self.access.allows
        if not any(may(self.user, self.vhost, each, shown) for each in (READ, WRITE, CONFIGURE)):
            raise refused(f"{kind} '{shown}' in vhost '{self.vhost}'", self.user)

    def check_topic(self, permission: str, exchange: str, routing_key: str) -> None:
        """Raise ChannelViolation (403) unless the user has this permission for the routing key at
        the topic exchange `exchange`."""
        if not self.access.looks_at_topics(self.user, self.vhost, exchange):
            return
        allowed = self._remembered()
        asked = (permission, exchange, routing_key)
        if asked in allowed:
            return
        if not self.access.allows_topic(self.user, self.vhost, exchange, permission, routing_key):
            place = f"exchange '{exchange}' in vhost '{self.vhost}'"
            raise refused(f"topic '{routing_key}' in {place}", self.user)
        allowed[asked] = None

    def _check(self, permission: str, kind: str, name: str) -> None:
        allowed = self._remembered()
        asked = (permission, name)
        if asked in allowed:
            return
        if not self.access.allows(self.user, self.vhost, permission, name):
            raise refused(f"{kind} '{name}' in vhost '{self.vhost}'", self.user)
        allowed[asked] = None

    def _remembered(self) -> dict[tuple[str, ...], None]:
        """Return the granted permissions; refused ones are not remembered, because the first
        refusal closes the channel."""
        allowed = self._allowed
        if self.epoch != self.access.epoch or len(allowed) >= RIGHTS_MAX:
            allowed.clear()
            self.epoch = self.access.epoch
        return allowed

    def check_exchange_declaration(self, topology: Topology, asked: ExchangeDefinition) -> None:
        """Raise ChannelViolation (403) unless the user may declare this exchange: that requires
        permission to configure it and, when it is new and has an alternate exchange, to read from
        the new one and to write to the alternate. Nobody may declare the default exchange (403),
        nor one of an unknown type (ConnectionViolation, 503)."""
        check_type(asked.type)
        check_not_default(asked.name)
        self.check_exchange(CONFIGURE, asked.name)
        if asked.alternate is not None and asked.name not in topology.exchanges:
            self.check_exchange(READ, asked.name)
            self.check_exchange(WRITE, asked.alternate)

    def check_dead_lettering(self, asked: QueueDefinition) -> None:
        """Raise ChannelViolation (403) unless the user may declare this queue with its dead letter
        exchange, if it has one: that requires permission to read from the queue and to write to the
        exchange."""
        exchange = asked.arguments.get(DEAD_LETTER_EXCHANGE)
        if isinstance(exchange, str):
            self.check_queue(READ, asked.name)
            self.check_exchange(WRITE, exchange)

    def check_binding(self, topology: Topology, binding: BindingDefinition) -> None:
        """Raise ChannelViolation (403) unless the user may bind or unbind these two: that requires
        permission to write to the destination and to read from the source and, at a topic exchange,
        for this key. Nobody may when either end is the default exchange."""
        if binding.destination_type == QUEUE:
            self.check_queue(WRITE, binding.destination)
        else:
            self.check_exchange(WRITE, binding.destination)
            check_not_default(binding.destination)
        check_not_default(binding.source)
        self.check_exchange(READ, binding.source)
        source = topology.exchanges.get(binding.source)
        if source is not None and source.definition.type == TOPIC:
            self.check_topic(READ, binding.source, binding.routing_key)

    def check_publish(self, topology: Topology, exchange: str, routing_key: str) -> None:
        """Raise ChannelViolation (403) unless the user may publish to the exchange, which must not
        be internal, and at a topic exchange with this key; 404 when there is no such exchange."""
        self.check_exchange(WRITE, exchange)
        topology.check_publish(exchange)
        if self.looks_at_keys(topology, exchange):
            self.check_topic(WRITE, exchange, routing_key)

    def looks_at_keys(self, topology: Topology, exchange: str) -> bool:
        """Tell whether it depends on the routing key whether the user may publish to an existing
        exchange."""
        if not exchange or topology.exchanges[exchange].definition.type != TOPIC:
            return False
        return self.access.looks_at_topics(self.user, self.vhost, exchange)

    @property
    def is_impersonator(self) -> bool:
        """Tell whether the user may publish with another user's name in the property user_id."""
        user = self.access.definitions.users.get(self.user)
        return user is not None and IMPERSONATOR in user.tags


def refused(what: str, user: str) -> ChannelViolation:
    """Return the error 403, in RabbitMQ's words: `user` has no access to `what`."""
    return ChannelViolation(403, f"access to {what} refused for user '{user}'")


def not_allowed(text: str) -> ConnectionViolation:
    """Return the error 530 with this text, which closes the connection."""
    return ConnectionViolation(530, text)


def bootstrap(definitions: DurableTables, auth: AuthConfig, hashed: Callable[[str], str]) -> None:
    """Put the definitions of a new node into the tables, unless these have a user, a virtual host
    or a permission already. `hashed` makes a hash of a password."""
    if definitions.users or definitions.vhosts or definitions.permissions:
        return
    for change in first_changes(auth, hashed):
        definitions.take(change)


def first_changes(auth: AuthConfig, hashed: Callable[[str], str]) -> list[UpsertRecord]:
    """Return the changes that make the default user, with all permissions in the default virtual
    host. `hashed` makes a hash of a password."""
    user, vhost = auth.default_user, auth.default_vhost
    rights = Permission(
        user,
        vhost,
        auth.default_permissions_configure,
        auth.default_permissions_write,
        auth.default_permissions_read,
    )
    default_user = User(user, hashed(auth.default_pass), tags=auth.default_user_tags)
    records = VhostDefinition(vhost, "Default virtual host"), default_user, rights
    return [*map(UpsertRecord, records)]
