"""What a user may set about queues, under RabbitMQ's names."""

from __future__ import annotations

from typing import Final

from sluicemq.options import Section, dataclass, declared

QUEUE_TYPES: Final = ("classic", "quorum", "stream")


@dataclass(frozen=True, kw_only=True)
class QueueConfig(Section):
    """What a queue is like when its declaration does not say."""

    default_queue_type: str = declared(
        "classic",
        "choice",
        "The type of queues that are declared without a type in a virtual host that has no default"
        " of its own. Queues that cannot be of that type, because they are exclusive, auto-delete"
        " or not durable, are classic. Those that exist stay what they are.",
        keys=("default_queue_type",),
        choices=QUEUE_TYPES,
    )
