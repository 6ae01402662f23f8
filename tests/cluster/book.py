"""What the clients of a cluster have sent and seen, and what of it must not be.

One checker for every broker, which knows only what clients know. A publisher begins a new stream
with each connection and publishes each message once: what had not been confirmed when a connection
broke may be there or not, and whether it is says nothing.

    lost         confirmed, and not seen by any consumer when all queues are empty
    unheard      neither confirmed nor refused, though its publisher waited when all was well again
    skipped      neither confirmed nor refused nor seen, but a later message of its stream is seen
    unexpected   seen, but not what a publisher has sent, to the last bit, to that queue
    unflagged    comes twice without being marked as redelivered
    disorder     two messages of one stream that nobody has seen before come to one consumer the
                 wrong way round, though none of the queue's consumers has gone since they were
                 sent: what it had not seen goes back, behind what has come back before
    revived      comes again though its acknowledgement has surely been heard: message and
                 acknowledgement were on their way, and had time to arrive, when nothing was wrong
    shared       comes to a second consumer while the first one has it and nothing is wrong

These are told, but promised by nobody whose nodes cannot reach each other:

    again        seen again after it was acknowledged
    redelivered  all that came with that mark
    recovered    seen, but its publisher never heard of it
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from durability.clients import CHANNEL, cut
from sluicemq.client.session import FRAME_MAX_BYTES
from sluicemq.sim.messages import PERSISTENT, content_of, id_of_body

MUST_NOT_BE: Final = (
    "lost",
    "unheard",
    "skipped",
    "unexpected",
    "unflagged",
    "disorder",
    "revived",
    "shared",
)
EXAMPLES_MAX: Final = 5
HEARD_S: Final = 4.0
"""An acknowledgement takes no longer when nothing is wrong."""


class Session:
    """One consumer's connection."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_open = True
        self.last_of: dict[int, int] = {}
        """The last message of each stream that nobody had seen before."""

    def __repr__(self) -> str:
        return self.name


@dataclass(slots=True, eq=False)
class Sent:
    """One message, from its publisher to its last consumer."""

    queue: str
    at: float
    """When it was sent."""
    confirmed: bool = False
    refused: bool = False
    """Its publisher was told that no queue, or not every queue, has taken it."""
    seen: int = 0
    seen_unmarked: bool = False
    """A consumer of its queue has seen it without being told that it was redelivered."""
    by: Session | None = None
    """Who has seen it last."""
    seen_at: float = 0.0
    settled_at: float = 0.0
    """When its last consumer acknowledged it; 0: it has not."""
    given_back: bool = False
    """Its last consumer has had it returned to the queue."""
    is_over: bool = False
    """That acknowledgement has surely been heard."""


class Stream:
    """What one connection of a publisher sends, with confirms. `size` is that of each body beyond
    what says which message it is."""

    def __init__(self, number: int, name: str, queue: str, size: int) -> None:
        self.number = number
        self.name = name
        self.queue = queue
        self.size = size
        self.sent: list[Sent] = []
        self.waiting: dict[int, tuple[Sent, float]] = {}
        """What has been neither confirmed nor refused, by delivery tag, and since when."""

    def content(self, sequence: int) -> bytes:
        return content_of(CHANNEL, self.number, sequence, PERSISTENT, self.size, FRAME_MAX_BYTES)


@dataclass
class Silence:
    """How long a queue, or whatever else is counted so, answered nothing around one fault."""

    what: str
    seconds: float


@dataclass
class Verdict:
    """What has become of everything."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def is_well(self, may_skip: bool = False) -> bool:
        """Whether nothing is there that must not be. Where queues are at one node only, publishers
        at others whose link to it breaks are told what it has not taken, if they still listen."""
        return not any(
            self.counts[each] for each in MUST_NOT_BE if not (may_skip and each == "skipped")
        )

    def line(self) -> str:
        told = ("published", "confirmed", "refused", "seen", "redelivered", "again", "recovered")
        return ", ".join(f"{self.counts[each]} {each}" for each in (*told, *MUST_NOT_BE))


class Book:
    """All that is known of one run. `leads_to` says where the messages of a queue come out that is
    not consumed from: as dead letters, in another queue."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.streams: list[Stream] = []
        self.leads_to: dict[str, str] = {}
        self.verdict = Verdict()
        self.confirms: dict[str, deque[float]] = {}
        """When each queue confirmed something, since the fault before the last."""
        self.shuffled: dict[str, float] = {}
        """When a consumer of each queue has gone last."""
        self.acks: deque[Sent] = deque()
        """Acknowledged since the last fault began."""
        self.calm_since: float | None = self.clock()
        """When the last fault was over, or will be; None: there is one."""
        self.mark = self.clock()
        self.news: Counter[str] = Counter()
        """How many messages each queue has confirmed that were sent after the mark."""

    # -- publishing

    def stream(self, name: str, queue: str, size: int) -> Stream:
        stream = Stream(len(self.streams), name, queue, size)
        self.streams.append(stream)
        self.confirms.setdefault(queue, deque())
        return stream

    def publish(self, stream: Stream) -> bytes:
        """The content of the stream's next message."""
        content = stream.content(len(stream.sent))
        now = self.clock()
        sent = Sent(stream.queue, now)
        stream.sent.append(sent)
        stream.waiting[len(stream.sent)] = sent, now
        self.verdict.counts["published"] += 1
        return content

    def confirm(self, stream: Stream, tag: int, multiple: bool) -> None:
        """basic.ack from the broker."""
        for sent, since in self._answered(stream, tag, multiple):
            if not sent.refused:
                sent.confirmed = True
                self.goes_on(stream.queue, since)
                self.verdict.counts["confirmed"] += 1

    def goes_on(self, what: str, since: float) -> None:
        """A queue, or whatever else is counted so, has answered what was sent at that moment."""
        self.confirms.setdefault(what, deque()).append(self.clock())
        self.news[what] += since > self.mark

    def refuse(self, stream: Stream, tag: int, multiple: bool) -> None:
        """basic.nack from the broker."""
        for sent, _ in self._answered(stream, tag, multiple):
            sent.refused = True
            self.verdict.counts["refused"] += 1

    def returned(self, stream: Stream, content: bytes) -> None:
        """basic.return: a basic.ack follows, which does not count."""
        known = self._find(content)
        if known is None or known[0] is not stream:
            self._note("unexpected", stream.name, "gets back what it has not sent")
            return
        known[0].sent[known[1]].refused = True
        self.verdict.counts["refused"] += 1

    def _answered(self, stream: Stream, tag: int, multiple: bool) -> list[tuple[Sent, float]]:
        if tag not in stream.waiting:
            self._note("unexpected", stream.name, "hears again, or untimely, of", tag)
            return []
        tags = [each for each in stream.waiting if each <= tag] if multiple else [tag]
        return [stream.waiting.pop(each) for each in tags]

    # -- consuming

    def deliver(
        self, session: Session, queue: str, content: bytes, redelivered: bool
    ) -> Sent | None:
        """A consumer of that queue has got this; None: it is not what anybody has sent."""
        now = self.clock()
        self.verdict.counts["seen"] += 1
        self.verdict.counts["redelivered"] += redelivered
        known = self._find(content)
        if known is None:
            self._note("unexpected", session, "gets from", queue, "what nobody has sent")
            return None
        stream, sequence = known
        sent = stream.sent[sequence]
        if queue not in (sent.queue, self.leads_to.get(sent.queue)):
            self._note("unexpected", session, "gets from", queue, "what was sent to", sent.queue)
            return None
        which = f"{sequence} of {stream.name}"
        if sent.seen:
            self._comes_again(sent, which, session, redelivered, queue == sent.queue)
        elif not redelivered and queue == sent.queue:
            last = session.last_of.get(stream.number, -1)
            if last > sequence and self.shuffled.get(queue, 0.0) < sent.at:
                self._note("disorder", session, "gets", which, "after", last)
            session.last_of[stream.number] = sequence
        sent.seen += 1
        sent.seen_unmarked |= not redelivered and queue == sent.queue
        sent.by, sent.seen_at = session, now
        sent.settled_at, sent.given_back = 0.0, False
        return sent

    def _comes_again(
        self, sent: Sent, which: str, session: Session, redelivered: bool, is_first_queue: bool
    ) -> None:
        """A message may die and be published again more than once, so copies of it in the queue for
        that have nothing to do with each other."""
        before = sent.by
        assert before is not None
        if not is_first_queue:
            self.verdict.counts["again"] += bool(sent.settled_at)
            return
        # What a consumer finds in its socket when its node has died, another may have seen by then,
        # marked. Without a mark it is sent once.
        if not redelivered and (sent.seen_unmarked or before is session):
            self._note("unflagged", which, "comes to", session, "unmarked, and", before, "had it")
        if sent.settled_at:
            self.verdict.counts["again"] += 1
            if sent.is_over:
                self._note("revived", which, "comes to", session, "though", before, "is done")
        elif before.is_open and not sent.given_back and self.is_calm_since(sent.seen_at):
            self._note("shared", which, "comes to", session, "while", before, "has it")

    def _find(self, content: bytes) -> tuple[Stream, int] | None:
        """Which message this is; None: none that was sent."""
        found = id_of_body(*cut(content))
        if found is None or found[0] >= len(self.streams):
            return None
        stream = self.streams[found[0]]
        return (stream, found[1]) if found[1] < len(stream.sent) else None

    def ack(self, sent: Sent) -> None:
        """Its last consumer acknowledges it."""
        sent.settled_at = self.clock()
        self.acks.append(sent)

    def gone(self, session: Session, queue: str) -> None:
        """A consumer's connection is over."""
        session.is_open = False
        self.shuffled[queue] = self.clock()

    def give_back(self, sent: Sent) -> None:
        """Its last consumer returns it to the queue."""
        sent.given_back = True

    # -- faults

    def is_calm_since(self, moment: float) -> bool:
        """Whether nothing has been wrong from then on."""
        return self.calm_since is not None and self.calm_since < moment

    def fault_begins(self) -> None:
        """Something is about to go wrong."""
        now = self.clock()
        for sent in self.acks:
            heard = sent.settled_at and now - sent.settled_at > HEARD_S
            assert sent.by is not None
            if heard and sent.by.is_open and self.is_calm_since(sent.seen_at):
                sent.is_over = True
        self.acks.clear()
        self.calm_since = None
        self.set_mark()
        for times in self.confirms.values():
            while len(times) > 1:
                times.popleft()

    def fault_is_over(self, lingers_s: float = 0.0) -> list[Silence]:
        """All is well again, and in so many seconds whatever was lost on its way has been sent
        again. Returns the longest silence of each queue since just before it."""
        now = self.clock()
        self.calm_since = now + lingers_s
        return [
            Silence(what, longest(times, now)) for what, times in self.confirms.items() if times
        ]

    def set_mark(self) -> None:
        """What is sent from now on is new."""
        self.mark = self.clock()
        self.news.clear()

    # -- the end

    def give_up(self, stream: Stream) -> None:
        """The publisher waits no longer to hear of what it has sent."""
        for tag in stream.waiting:
            self._note("unheard", tag - 1, "of", stream.name)
        stream.waiting.clear()

    def missing(self) -> int:
        """How many messages are confirmed and have not been seen yet."""
        return sum(
            sent.confirmed and not sent.seen for stream in self.streams for sent in stream.sent
        )

    def closed(self) -> Verdict:
        """All queues are empty: what has not been seen will not be."""
        for stream in self.streams:
            last = max((n for n, sent in enumerate(stream.sent) if sent.seen), default=-1)
            for sequence, sent in enumerate(stream.sent):
                which = f"{sequence} of {stream.name}, to {stream.queue}"
                is_answered = sent.confirmed or sent.refused
                if sent.confirmed and not sent.seen:
                    self._note("lost", which)
                elif sent.seen and not is_answered:
                    self.verdict.counts["recovered"] += 1
                elif not sent.seen and not is_answered and sequence < last:
                    self._note("skipped", which, "though", last, "is there")
        return self.verdict

    def _note(self, what: str, *words: object) -> None:
        self.verdict.counts[what] += 1
        if self.verdict.counts[what] <= EXAMPLES_MAX:
            self.verdict.examples.append(f"{what}: {' '.join(map(str, words))}")


def longest(times: Sequence[float], now: float) -> float:
    """The longest time between two of these moments, or from the last one until now."""
    return max(later - earlier for earlier, later in pairwise([*times, now]))
