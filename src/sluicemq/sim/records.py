"""What the history of a run is written down in: streams that were published, deliveries and who
holds them, queues by name; and the words for what each queue promises and what became of things.
`history.py` says what must hold of them.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from sluicemq.errors import SluiceError
from sluicemq.sim.messages import MessageId

WORK: Final = "work"
"""Nothing may be lost: consumers acknowledge, or are no-ack on connections that do not break."""
LOSSY: Final = "lossy"
"""No-ack consumers on connections that break: what was on its way to them is gone."""
VOLATILE: Final = "volatile"
"""Is purged, deleted and declared anew while it is in use."""
LISTENING: Final = "listening"
"""Exclusive or auto-delete, made by who consumes from it, gone with it."""

DYING: Final = "dying"
"""What is not acknowledged here dies, and goes to the graves."""
GRAVE: Final = "grave"
"""Takes in what has died elsewhere: in no order, and twice when the broker is killed between."""
FADING: Final = "fading"
"""What is not acknowledged here dies, and goes to the graves at most once."""
LOG: Final = "log"
"""A stream: whatever is in it stays there."""
LASTING: Final = (WORK, DYING, GRAVE, LOG)
"""Queues that are there all the time, and lose nothing."""

UNSEEN: Final = (LOSSY, DYING, LOG)
"""What is confirmed in these may be gone without being on the disk, or is not acknowledged."""
PASSING: Final = (VOLATILE, LISTENING)
"""Queues that come and go: what is sent may or may not get in, and may be gone again."""

OUT, ACKED, REQUEUED, NO_ACK = "out", "acked", "requeued", "no-ack"
REJECTED: Final = "rejected"
"""By a consumer, and dead by that."""

ENDED_WELL: Final = "closed"
BROKEN: Final = "broken"

KILL: Final = "kill"
"""The process is killed."""
POWER: Final = "power"
"""The power goes."""
STOP: Final = "stop"
"""The broker is stopped orderly."""

NEVER: Final = 1 << 62
"""As a moment: it is not known to have happened."""


class PromiseBroken(SluiceError):
    """A checker's verdict: what was promised and did not hold."""


def promise(kept: bool, *words: object) -> None:
    """Raise PromiseBroken with these words unless `kept`."""
    if not kept:
        raise PromiseBroken(" ".join(map(str, words)))


class Holder:
    """One channel of one client, for as long as it is open."""

    __slots__ = ("ended", "held", "limit", "name", "queues", "unanswered")

    def __init__(self, name: str) -> None:
        self.name = name
        self.ended = ""
        self.held = 0
        self.limit = 0
        """basic.qos with global: its consumers together hold no more."""
        self.queues: dict[str, None] = {}
        self.unanswered: list[Delivery] = []
        """Acknowledged, but the broker may not have heard of it yet."""

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
    there had been before; `flagged`: it was marked as redelivered; `returns`: so often it had come
    back, as its header says."""

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
        """The moment from which on the broker surely has heard of that."""


class SentMessage:
    """One published message, where it goes and what has become of it."""

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
        """When it may be delivered, as clients tell the time."""
        self.priority = priority
        self.persistent = persistent
        self.at = at
        self.behind: list[int] = []
        """By target: what was dealt with at that moment is durable when this is confirmed."""
        self.spread = spread
        """Through the exchange that listeners bind their queues to."""
        self.mandatory = mandatory
        self.confirmed = False
        self.returned = False
        self.refused = False
        """Its publisher was told that a queue did not take it."""
        self.safe: list[str] = []


class PublishedStream:
    """What one channel of one publisher has sent. `ended` is "", closed or broken."""

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
        """So many messages were sent before the last crash."""
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
        """The priority that those above count as."""
        self.seen: dict[MessageId, list[Delivery]] = {}
        self.accepted: dict[int, int] = {}
        self.given_back_unseen = 0
        """So often deliveries on their way may have gone back: they come flagged for the first
        time."""
        self.given_back_since = 0
        """The same since the last crash."""
        self.had_fault = False
        self.before_fault: dict[int, int] = {}
        """So many messages of each stream were sent before it had been read back after one."""
        """It was read back from the disk: what was out or just acknowledged may come again."""
        self.confirmed = -1
        """When the last publish was sent that was confirmed, and persistent."""
        self.on_disk = -1
        """What the broker had dealt with at this moment is durable."""
        self.on_disk_at_crash: list[int] = []
        """`on_disk` at each crash."""
        self.graves: tuple[QueueHistory, ...] = ()
        """Where all goes that dies here."""
        self.source: QueueHistory | None = None
        """Where all has died that comes here; None: it is published here."""
        self.buried: Counter[MessageId] = Counter()
        """How often each message has died here and left."""
        self.is_quorum = False
        """All that is in it lasts, and messages that come back are behind what has come back before
        (quorum_rules.py)."""
        self.refuses = False
        """It takes nothing while it is full."""
        self.delivery_limit: int | None = None
        self.is_shuffled = False
        """Messages may have come back that nobody has seen."""

    def is_taken(self, message: MessageId) -> bool:
        """Tell whether a client is done with a message, which may be confirmed without a disk."""
        return any(each.state in (ACKED, NO_ACK) for each in self.seen.get(message, ()))

    def leads_to(self, *graves: QueueHistory) -> None:
        """Name the queues that messages go to when they die here."""
        self.graves = graves
        for grave in graves:
            grave.source = self

    def has_arrived(self, message: MessageId) -> bool:
        """Tell whether a client has settled the message here, or each dead letter of it."""
        if not self.graves:
            return message in self.seen
        return self.is_taken(message) or all(each.has_arrived(message) for each in self.graves)

    def survives(self, is_persistent: bool) -> bool:
        """Tell whether a message that was published here is there after a crash, wherever it has
        got to."""
        kept = self.durable and (is_persistent or self.is_quorum or self.promise == LOG)
        return kept and all(each.survives(is_persistent) for each in self.graves)

    @property
    def is_choosy(self) -> bool:
        """Tell whether messages that are sent to it may not get in, though nothing has failed."""
        return self.promise in PASSING or self.refuses

    def sent_before_fault(self, stream: int) -> int:
        """Return how many messages of the stream were sent before a fault was mended."""
        there = (each.sent_before_fault(stream) for each in self.graves)
        return max(self.before_fault.get(stream, 0), *there, 0)


class LogHistory:
    """Which messages are where in one stream of the broker ("log" here): they never move."""

    __slots__ = ("entries", "history", "read_to")

    def __init__(self, history: QueueHistory) -> None:
        self.history = history
        self.entries: dict[int, MessageId] = {}
        """By offset, as far as somebody has read it."""
        self.read_to = 0
        """One who reads all of it has come there."""

    def read(self, offset: int, message: MessageId | None) -> None:
        """Check what a client has read at `offset` of the stream."""
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
