"""The records of a run's history: published streams, deliveries and their holders, queues by name;
and the words for the promises of queues and the outcomes of messages. `history.py` checks them.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from sluicemq.errors import SluiceError
from sluicemq.sim.messages import MessageId

WORK: Final = "work"
"""It loses nothing: consumers acknowledge, or are no-ack on connections that do not break."""
LOSSY: Final = "lossy"
"""No-ack consumers on connections that break: messages in flight to them are lost."""
VOLATILE: Final = "volatile"
"""It is purged, deleted and redeclared while in use."""
LISTENING: Final = "listening"
"""Exclusive or auto-delete, declared by its consumer, gone with it."""

DYING: Final = "dying"
"""Messages that are not acknowledged here are dead-lettered to the graves."""
GRAVE: Final = "grave"
"""Takes dead letters: in no order, and twice when the broker is killed in between."""
FADING: Final = "fading"
"""Messages that are not acknowledged here are dead-lettered to the graves at most once."""
LOG: Final = "log"
"""A stream: everything in it stays."""
LASTING: Final = (WORK, DYING, GRAVE, LOG)
"""Queues that always exist, and lose nothing."""

UNSEEN: Final = (LOSSY, DYING, LOG)
"""In these a confirmed message may be gone without having been on the disk, or need not be
acknowledged."""
PASSING: Final = (VOLATILE, LISTENING)
"""Queues that are deleted and redeclared: a message sent to one may get in or not, and may be lost
again."""

OUT, ACKED, REQUEUED, NO_ACK = "out", "acked", "requeued", "no-ack"
REJECTED: Final = "rejected"
"""A consumer rejected it, so that it was dead-lettered."""

ENDED_WELL: Final = "closed"
BROKEN: Final = "broken"

KILL: Final = "kill"
"""The process is killed."""
POWER: Final = "power"
"""The machine loses its power."""
STOP: Final = "stop"
"""The broker is stopped orderly."""

NEVER: Final = 1 << 62
"""A moment that is not known to have happened."""


class PromiseBroken(SluiceError):
    """A checker's verdict: a promise that was not kept."""


def promise(kept: bool, *words: object) -> None:
    """Raise PromiseBroken with these words unless `kept`."""
    if not kept:
        raise PromiseBroken(" ".join(map(str, words)))


class Holder:
    """One channel of one client, while it is open."""

    __slots__ = ("ended", "held", "limit", "name", "queues", "unanswered")

    def __init__(self, name: str) -> None:
        self.name = name
        self.ended = ""
        self.held = 0
        self.limit = 0
        """basic.qos with global: its consumers together hold no more."""
        self.queues: dict[str, None] = {}
        self.unanswered: list[Delivery] = []
        """Acknowledged messages of which the broker may not know yet."""

    def __repr__(self) -> str:
        return self.name


class Consumption:
    """One consumer of a holder, or all its basic.gets."""

    __slots__ = ("held", "holder", "last_of", "limit", "queue")

    def __init__(self, holder: Holder, queue: str, limit: int) -> None:
        self.holder = holder
        self.queue = queue
        self.limit = limit
        self.held = 0
        self.last_of: dict[tuple[int, int], int] = {}
        """(stream, priority) -> sequence of the last first delivery."""
        holder.queues[queue] = None


class Delivery:
    """One message, delivered once to one consumer. `counted`: for prefetch; `crashes`: how many
    there had been before; `flagged`: it was marked as redelivered; `returns`: how often it was
    requeued, according to its header."""

    __slots__ = (
        "by",
        "counted",
        "crashes",
        "dealt_with",
        "flagged",
        "message",
        "returns",
        "settled",
        "state",
    )

    def __init__(
        self,
        message: MessageId,
        by: Consumption,
        state: str,
        counted: bool,
        crashes: int,
        flagged: bool,
        returns: int = 0,
    ) -> None:
        self.message = message
        self.returns = returns
        self.by = by
        self.state = state
        self.counted = counted
        self.crashes = crashes
        self.flagged = flagged
        self.settled = NEVER
        """The moment when the client acknowledged it."""
        self.dealt_with = NEVER
        """The moment from which on the broker certainly knows that."""


class SentMessage:
    """One published message, its targets and its outcome."""

    __slots__ = (
        "at",
        "behind",
        "confirmed",
        "due_ns",
        "mandatory",
        "persistent",
        "priority",
        "refused",
        "returned",
        "safe",
        "spread",
        "targets",
    )

    def __init__(
        self,
        targets: tuple[str, ...],
        mandatory: bool,
        spread: bool,
        persistent: bool,
        priority: int,
        at: int,
        due_ns: int,
    ) -> None:
        self.targets = targets
        self.due_ns = due_ns
        """When it may be delivered, by the clients' time."""
        self.priority = priority
        self.persistent = persistent
        self.at = at
        self.behind: list[int] = []
        """By target: acknowledgements before that moment are durable when this message is
        confirmed."""
        self.spread = spread
        """Published through the exchange to which listeners bind their queues."""
        self.mandatory = mandatory
        self.confirmed = False
        self.returned = False
        self.refused = False
        """Its publisher got a basic.nack."""
        self.safe: list[str] = []


class PublishedStream:
    """The messages of one channel of one publisher. `ended` is "", closed or broken."""

    __slots__ = (
        "before_crash",
        "before_stop",
        "confirming",
        "ended",
        "name",
        "number",
        "sent",
        "sent_to",
        "unconfirmed",
    )

    def __init__(self, number: int, name: str, confirming: bool) -> None:
        self.number = number
        self.name = name
        self.confirming = confirming
        self.ended = ""
        self.sent: list[SentMessage] = []
        self.sent_to: dict[str, list[int]] = {}
        self.unconfirmed: dict[int, SentMessage] = {}
        self.before_crash = 0
        """The number of messages sent before the last crash."""
        self.before_stop = 0


class QueueHistory:
    """What clients have seen of the queues with one name."""

    __slots__ = (
        "accepted",
        "before_fault",
        "buried",
        "confirmed",
        "delivery_limit",
        "durable",
        "given_back_since",
        "given_back_unseen",
        "graves",
        "had_fault",
        "highest",
        "is_quorum",
        "is_shuffled",
        "name",
        "on_disk",
        "on_disk_at_crash",
        "promise",
        "refuses",
        "seen",
        "source",
    )

    def __init__(self, name: str, kind: str, durable: bool) -> None:
        self.name = name
        self.promise = kind
        self.durable = durable
        self.highest = 0
        """Higher priorities count as this one."""
        self.seen: dict[MessageId, list[Delivery]] = {}
        self.accepted: dict[int, int] = {}
        self.given_back_unseen = 0
        """How often deliveries in flight may have been requeued: they come flagged for the first
        time."""
        self.given_back_since = 0
        """The same since the last crash."""
        self.had_fault = False
        """It was read back from the disk: unacknowledged or just acknowledged messages may come
        again."""
        self.before_fault: dict[int, int] = {}
        """How many messages of each stream were sent before it was read back after a fault."""
        self.confirmed = -1
        """When the last publish was sent that was persistent and confirmed."""
        self.on_disk = -1
        """Acknowledgements known to the broker at this moment are durable."""
        self.on_disk_at_crash: list[int] = []
        """`on_disk` at each crash."""
        self.graves: tuple[QueueHistory, ...] = ()
        """The queues that get all its dead letters."""
        self.source: QueueHistory | None = None
        """The queue whose dead letters come here; None when clients publish here."""
        self.buried: Counter[MessageId] = Counter()
        """How often each message was dead-lettered here and left."""
        self.is_quorum = False
        """Everything in it is durable, and requeued messages come behind those requeued before
        (quorum_rules.py)."""
        self.refuses = False
        """It rejects publishes while it is full."""
        self.delivery_limit: int | None = None
        self.is_shuffled = False
        """Messages that nobody has seen may have been requeued."""

    def is_taken(self, message: MessageId) -> bool:
        """Tell whether a client has settled a message, which may be confirmed without a disk."""
        return any(each.state in (ACKED, NO_ACK) for each in self.seen.get(message, ()))

    def leads_to(self, *graves: QueueHistory) -> None:
        """Name the queues that get the dead letters of this one."""
        self.graves = graves
        for grave in graves:
            grave.source = self

    def has_arrived(self, message: MessageId) -> bool:
        """Tell whether a client has settled the message here, or each of its dead letters."""
        if not self.graves:
            return message in self.seen
        return self.is_taken(message) or all(each.has_arrived(message) for each in self.graves)

    def survives(self, is_persistent: bool) -> bool:
        """Tell whether a message that was published here survives a crash, wherever it
        is by then.
        """
        kept = self.durable and (is_persistent or self.is_quorum or self.promise == LOG)
        return kept and all(each.survives(is_persistent) for each in self.graves)

    @property
    def is_choosy(self) -> bool:
        """Tell whether the queue may refuse messages without any failure."""
        return self.promise in PASSING or self.refuses

    def sent_before_fault(self, stream: int) -> int:
        """Return how many messages of the stream were sent before the queue was read back."""
        there = (each.sent_before_fault(stream) for each in self.graves)
        return max(self.before_fault.get(stream, 0), *there, 0)


class LogHistory:
    """The messages of one stream of the broker ("log" here) by offset: they never move."""

    __slots__ = ("entries", "history", "read_to")

    def __init__(self, history: QueueHistory) -> None:
        self.history = history
        self.entries: dict[int, MessageId] = {}
        """By offset, as far as somebody has read it."""
        self.read_to = 0
        """The offset that a reader of the whole stream has reached."""

    def read(self, offset: int, message: MessageId | None) -> None:
        """Check a message that a client has read at `offset` of the stream."""
        promise(message is not None, self.history.name, "has what nobody sent, at", offset)
        assert message is not None
        known = self.entries.setdefault(offset, message)
        promise(known == message, self.history.name, "has", message, "and no more", known)
        self.history.seen.setdefault(message, [])

    def all_is_well(self) -> None:
        """Check that the stream has been read from the beginning to the end."""
        name = self.history.name
        last: dict[int, int] = {}
        for expected, (offset, message) in enumerate(sorted(self.entries.items())):
            promise(offset == expected, name, "has nothing at", expected)
            number, sequence = message
            promise(last.get(number, -1) < sequence, name, "has", message, "out of order")
            last[number] = sequence
