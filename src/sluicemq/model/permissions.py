"""What a user may do in a virtual host, as RabbitMQ's definitions describe it.

Each permission is a regular expression for names of exchanges and queues; one for topics is for the
routing keys of one exchange, and has {username} and {vhost} in it where these are meant. Who has no
permission in a virtual host may not enter; for an exchange without topic permissions every key is
allowed.
"""

from __future__ import annotations

from typing import ClassVar, Final

from sluicemq.model.patterns import NOTHING, Pattern, check_pattern, escaped
from sluicemq.model.record import Record

CONFIGURE: Final = "configure"
WRITE: Final = "write"
READ: Final = "read"
CLIENT_ID: Final = "{client_id}"
"""Of MQTT clients; AMQP clients have none, and it stands for itself."""


class Permission(Record, frozen=True):
    """Of one user in one virtual host."""

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
        """Refuse patterns that are none."""
        for text in (self.configure, self.write, self.read):
            check_pattern(text)

    def patterns(self) -> dict[str, Pattern]:
        """By permission."""
        return {
            CONFIGURE: Pattern(self.configure or NOTHING),
            WRITE: Pattern(self.write or NOTHING),
            READ: Pattern(self.read or NOTHING),
        }


class TopicPermission(Record, frozen=True):
    """For the routing keys of one exchange."""

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
        """Refuse patterns that are none."""
        for text in (self.write, self.read):
            check_pattern(self.expanded(text))

    def patterns(self) -> dict[str, Pattern]:
        """By permission."""
        return {
            WRITE: Pattern(self.expanded(self.write) or NOTHING),
            READ: Pattern(self.expanded(self.read) or NOTHING),
        }

    def expanded(self, text: str) -> str:
        """With the names in it, taken literally."""
        for variable, value in (
            ("{username}", self.user),
            ("{vhost}", self.vhost),
            (CLIENT_ID, CLIENT_ID),
        ):
            text = escaped(value).join(text.split(variable))
        return text
