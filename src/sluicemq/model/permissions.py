"""What a user may do in a virtual host, as RabbitMQ's definitions describe it.

Each permission is a regular expression for names of exchanges and queues; a topic permission is one
for the routing keys of one exchange, in which {username} and {vhost} stand for these names. A user
without any permission in a virtual host may not enter it; for an exchange without topic permissions
every key is allowed.
"""

from __future__ import annotations

from typing import ClassVar, Final

from sluicemq.model.patterns import NOTHING, Pattern, check_pattern, escaped
from sluicemq.model.record import DefinitionRecord

CONFIGURE: Final = "configure"
WRITE: Final = "write"
READ: Final = "read"
CLIENT_ID: Final = "{client_id}"
"""The variable for the client id of MQTT. AMQP clients have none, so for them it stands for
itself."""


class Permission(DefinitionRecord, frozen=True):
    """What one user may do with the queues and exchanges of one virtual host: patterns for the
    names that it may configure, write to and read from."""

    KIND: ClassVar[str] = "permission"
    TABLE: ClassVar[str] = "permissions"

    user: str
    vhost: str
    configure: str
    write: str
    read: str

    @property
    def key(self) -> tuple[str, str]:
        return self.user, self.vhost

    def check(self) -> None:
        """Raise Refused when one of the patterns is no regular expression."""
        for text in (self.configure, self.write, self.read):
            check_pattern(text)

    def patterns(self) -> dict[str, Pattern]:
        """Return the compiled patterns, by permission. Raises Refused when one is no regular
        expression."""
        return {
            CONFIGURE: Pattern(self.configure or NOTHING),
            WRITE: Pattern(self.write or NOTHING),
            READ: Pattern(self.read or NOTHING),
        }


class TopicPermission(DefinitionRecord, frozen=True):
    """The routing keys that one user may write to and read from at one topic exchange: a pattern
    for each."""

    KIND: ClassVar[str] = "topic_permission"
    TABLE: ClassVar[str] = "topic_permissions"

    user: str
    vhost: str
    exchange: str
    write: str
    read: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.user, self.vhost, self.exchange

    def check(self) -> None:
        """Raise Refused when one of the patterns is no regular expression."""
        for text in (self.write, self.read):
            check_pattern(self.expanded(text))

    def patterns(self) -> dict[str, Pattern]:
        """Return the compiled patterns, by permission. Raises Refused when one is no regular
        expression."""
        return {
            WRITE: Pattern(self.expanded(self.write) or NOTHING),
            READ: Pattern(self.expanded(self.read) or NOTHING),
        }

    def expanded(self, text: str) -> str:
        """Return the pattern with the names of the user and the virtual host, taken literally, in
        place of {username} and {vhost}."""
        for variable, value in (
            ("{username}", self.user),
            ("{vhost}", self.vhost),
            (CLIENT_ID, CLIENT_ID),
        ):
            text = escaped(value).join(text.split(variable))
        return text
