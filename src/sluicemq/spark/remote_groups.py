"""Consumers in another process, as the planner sees them (`consumer_groups.py` has local ones).

The state of a consumer is the one that its process reported last. When the process is gone, or
silent for `LEASE_S`, the group is lost for good: none of its messages is acknowledged any more,
even if the process lives, and they come again by other consumers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sluicemq.spark.chunks import Message
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.consumer_groups import MessageKey, PlannedConsumer, TakenChunk
from sluicemq.spark.planner_link import BEAT_S, LEASE_S, PlannerLink, Words
from sluicemq.spark.transfer import Endpoint, fetch

ANSWER_S: Final = 20.0
"""Seconds to wait for an answer of a process that lives; one that does not answer is lost."""


class RemoteOutage:
    """An outage of a broker at another process, as last reported."""

    def __init__(self) -> None:
        self.attempts = 0
        """Above 0 while there is an outage."""
        self.seconds = 0.0


class ConsumerView:
    """A consumer in another process, as last reported. It has those attributes and methods of
    `ConsumerThread` that a planner needs."""

    def __init__(self, group: RemoteGroup, one: PlannedConsumer) -> None:
        self.queue = one.queue
        self.name = one.consumer
        self.taken = 0
        self.failure: AmqpError | None = None
        self.is_gone = False
        self.quiet = threading.Event()
        self.tried = threading.Event()
        self.overdue_rows = 0
        self.lost_rows = 0
        self.reconnects = 0
        self.outage = RemoteOutage()
        self._group = group
        self._is_parked = False
        self._rows = self._bytes = self._first = 0
        self._chunk_rows = 0
        self._totals = 0, 0
        self._settled = 0

    def waiting_rows(self) -> int:
        """Return how many messages wait to be taken."""
        return self._rows

    def waiting_bytes(self) -> int:
        """Return how many octets the contents of the waiting messages have together."""
        return self._bytes

    def unsettled_rows(self) -> int:
        """Return how many messages were handed out and are not known to be acknowledged or lost.
        When the process is lost, these come again."""
        return max(0, self.taken - self._settled)

    def first_rows(self) -> int:
        """Return the size of the first waiting chunk in messages, which is the least that can be
        taken; 0 when nothing waits."""
        return self._first

    def resume(self, rows_max: int) -> None:
        """Fetch messages, if the consumer is parked, in chunks of at most `rows_max` from now
        on."""
        if self._is_parked or rows_max != self._chunk_rows:
            self._chunk_rows = rows_max
            if self._is_parked:
                self.tried.clear()
                self._is_parked = False
            self._group.ask("resume", consumer=self.name, rows=rows_max)

    def update(self, state: Sequence[Any], is_current: bool) -> None:
        """Take in a report about the consumer. `is_current` tells that the process had carried out
        all requests by then; else flags that a request may change stay as they are."""
        self._rows, self._bytes, self._first, quiet, tried, parked, *counts, away = state[:-2]
        failure, self.is_gone = state[-2:]
        overdue, lost, self.reconnects, self._settled = counts
        if is_current:
            self._is_parked = parked
            (self.quiet.set if quiet else self.quiet.clear)()
            if tried:
                self.tried.set()
        self.overdue_rows += overdue - self._totals[0]
        self.lost_rows += lost - self._totals[1]
        self._totals = overdue, lost
        self.outage.attempts = int(away is not None)
        self.outage.seconds = away or 0.0
        if failure is not None:
            self.failure = AmqpError(failure)
            self.tried.set()

    def forget(self) -> None:
        """Note that the consumer's process is lost: nothing waits there any more."""
        self._rows = self._bytes = self._first = 0
        self.tried.set()


class RemoteGroup:
    """Owns the consumers of another process, over a link. The planner's thread may use it; the
    thread that watches for commits may call `acknowledge`, the one that renews leases `keep_alive`,
    and one of its own runs `listen`. No thread holds the lock `news`, which all groups share, while
    it writes to a process, because that may block."""

    def __init__(self, link: PlannerLink, endpoint: Endpoint, news: threading.Condition) -> None:
        self.consumers: list[ConsumerView] = []
        self.endpoint = endpoint
        self.is_lost = False
        self._link = link
        self._news = news
        self._asked = 0
        self._asking = threading.Lock()
        self._acknowledged = 0
        """The number of the last request to acknowledge."""
        self._heard = 0
        self.heard_at = self._asked_at = time.monotonic()
        """The monotonic times at which the process last reported (`heard_at`), and was last sent a
        request."""
        self._wanted: set[int] = set()
        self._answers: dict[int, Any] = {}

    def listen(self) -> None:
        """Take in the reports of the process, until it is gone; then the group is lost. Runs in a
        thread of its own."""
        try:
            while (words := self._link.receive()) is not None:
                with self._news:
                    self._hear(words)
                    self._news.notify_all()
        finally:
            self.lose()

    def open(self, planned: Iterable[PlannedConsumer], bytes_max: int) -> None:
        """Have the process open a consumer for each of the planned ones. All its consumers stop
        reading when they hold `bytes_max` octets."""
        planned = list(planned)
        self.bound(bytes_max)
        self.consumers += [ConsumerView(self, one) for one in planned]
        self.ask("open", planned=planned, bytes=bytes_max)

    def take(
        self, consumers: Sequence[str], rows_max: int, bytes_max: int, has_ids: bool = False
    ) -> list[TakenChunk]:
        """Have the process hand out chunks of the named consumers in turn, of at most `rows_max`
        messages in all. Consumers stop giving when `bytes_max` octets are reached. With `has_ids`
        the message ids are returned, too. Returns nothing when the process is lost."""
        if not any(view.waiting_rows() for view in self.consumers if view.name in consumers):
            return []
        words = {"consumers": consumers, "rows": rows_max, "bytes": bytes_max, "ids": has_ids}
        answer = self._answer(self.ask("take", **words, is_awaited=True))
        found = [TakenChunk(*each) for each in answer or ()]
        named = {view.name: view for view in self.consumers}
        for each in found:
            named[each.consumer].taken = each.position
        return found

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Have the process acknowledge all messages up to these positions, by consumer name. Does
        not wait until that is done."""
        mine = {
            view.name: positions[view.name] for view in self.consumers if view.name in positions
        }
        if mine:
            with self._asking:
                with self._news:  # lest a report comes between
                    number = self._acknowledged = self._next()
                    for view in self.consumers:
                        view.quiet.clear()
                self._say(number, "acknowledge", {"positions": mine})

    def reject(self, number: int, rows: Sequence[int]) -> None:
        """Mark rows of the chunk, counted from 0, to be rejected as dead letters when the chunk is
        acknowledged."""
        self.ask("reject", number=number, rows=rows)

    def await_written(self, deadline: float) -> None:
        """Wait until the process has answered the last acknowledgement, or is lost, or until
        `deadline` (monotonic, in seconds)."""
        with self._news:
            while self._heard < self._acknowledged and not self.is_lost:
                if not self._news.wait(deadline - time.monotonic()):
                    return

    def bound(self, bytes_max: int) -> None:
        """Have each consumer stop reading when it holds `bytes_max` octets."""
        if self.consumers:
            self.ask("bound", bytes=bytes_max)

    def find(self, wanted: set[MessageKey]) -> dict[MessageKey, Message]:
        """Return copies of those of the wanted messages that wait in the process; it is lost if
        they cannot be fetched. Only here do bodies come to the planner, which needs them for a
        batch that runs again."""
        queues: dict[str, list[str | None]] = {}
        for queue, name in wanted:
            queues.setdefault(queue, []).append(name)
        answer = self._answer(self.ask("find", wanted=list(queues.items()), is_awaited=True))
        parts: list[tuple[str, list[str | None], int]] = answer or []
        found: dict[MessageKey, Message] = {}
        try:
            got = fetch(self.endpoint, [number for _, _, number in parts])
            for (queue, ids, _), chunk in zip(parts, got, strict=True):
                for name, message in zip(ids, chunk.messages(), strict=True):
                    found[queue, name] = message
        except (OSError, EOFError):
            self.lose()
        return found

    def drop(self, names: Collection[str]) -> None:
        """Stop and forget the named consumers, whose queues are deleted and of which no message is
        unacknowledged."""
        mine = [view.name for view in self.consumers if view.name in names]
        if mine:
            self.consumers = [view for view in self.consumers if view.name not in names]
            self.ask("drop", consumers=mine)

    def start_over(self, bytes_max: int) -> None:
        """Have the process give back to the broker all waiting messages, and consume anew."""
        self._answer(self.ask("start_over", bytes=bytes_max, is_awaited=True))

    def keep_alive(self) -> None:
        """Renew the lease, if nothing was sent to the process for BEAT_S seconds; count it as lost
        when it has been silent for LEASE_S. Does not wait while another thread writes to the
        process, so that a blocked one cannot cost others their leases."""
        now = time.monotonic()
        if now - self.heard_at > LEASE_S:
            self.lose()
        elif now - self._asked_at > BEAT_S and self._asking.acquire(blocking=False):
            try:
                self._say(self._next(), "beat", {})
            finally:
                self._asking.release()

    def stop(self) -> None:
        """Have the process write all acknowledgements and close its connections; the broker
        requeues unacknowledged messages. The group is lost then."""
        self._answer(self.ask("stop", is_awaited=True))
        self.lose()

    def abandon(self) -> None:
        """Close the link at once, upon which the process ends; any thread may call it."""
        self._link.close()

    def lose(self) -> None:
        """Count the process as lost, and close the link so that it ends if it lives; any thread may
        call it."""
        self._link.close()
        with self._news:
            self.is_lost = True
            for view in self.consumers:
                view.forget()
            self._news.notify_all()

    def ask(self, what: str, *, is_awaited: bool = False, **more: Any) -> int:
        """Send a request to the process and return its number. An answer is kept only when
        `is_awaited`."""
        with self._asking:
            number = self._next()
            if is_awaited:
                self._wanted.add(number)
            self._say(number, what, more)
        return number

    def _next(self) -> int:
        """Return the number of the next request; the caller holds `_asking`."""
        self._asked += 1
        self._asked_at = time.monotonic()
        return self._asked

    def _say(self, number: int, what: str, more: Words) -> None:
        try:
            self._link.send({"n": number, "ask": what, **more})
        except OSError:
            self._link.close()  # `listen` notices

    def _answer(self, number: int) -> Any:
        """Return the answer to a request; None when the process is lost before it comes."""
        deadline = time.monotonic() + ANSWER_S
        with self._news:
            while number not in self._answers and not self.is_lost:
                if not self._news.wait(deadline - time.monotonic()):
                    break
            self._wanted.discard(number)
            if number in self._answers:
                return self._answers.pop(number)
        self.lose()
        return None

    def _hear(self, words: Words) -> None:
        self.heard_at = time.monotonic()
        self._heard = words["n"]
        if self._heard in self._wanted and "answer" in words:
            self._answers[self._heard] = words["answer"]
        is_current = self._heard == self._asked
        for view in self.consumers:
            if view.name in words["state"]:
                view.update(words["state"][view.name], is_current)
