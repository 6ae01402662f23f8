"""What is stored of a virtual host besides its contents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from msgspec import field

from sluicemq.errors import Refused
from sluicemq.model.record import DefinitionRecord

NAME_BYTES_MAX: Final = 255
"""The longest name in bytes of a virtual host or a user: what a short string of AMQP holds."""

MAX_CONNECTIONS: Final = "max-connections"
MAX_QUEUES: Final = "max-queues"
VHOST_LIMITS: Final = (MAX_CONNECTIONS, MAX_QUEUES)

MAX_CHANNELS: Final = "max-channels"
USER_LIMITS: Final = (MAX_CONNECTIONS, MAX_CHANNELS)


class VhostDefinition(DefinitionRecord, frozen=True):
    """A virtual host as it is stored, without its contents. A `default_queue_type` of None means
    that it has none of its own. `limits` has max-connections and max-queues; a negative one is no
    limit."""

    KIND: ClassVar[str] = "vhost"
    TABLE: ClassVar[str] = "vhosts"

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.name


def limit_of(limits: Mapping[str, int], name: str) -> int | None:
    """Return the limit of that name; None when there is none, or a negative one."""
    limit = limits.get(name, -1)
    return limit if limit >= 0 else None


def check_limits(limits: object, known: tuple[str, ...]) -> dict[str, int]:
    """Return the limits if they are a JSON object of whole numbers with known names. Raises Refused
    if not."""
    if not isinstance(limits, dict):
        raise Refused("limits must be a JSON object")
    for name, value in limits.items():
        if name not in known:
            raise Refused(f"there is no limit {name}; there are: {', '.join(known)}")
        if type(value) is not int:
            raise Refused(f"{name} must be a whole number; a negative one lifts the limit")
    return limits
