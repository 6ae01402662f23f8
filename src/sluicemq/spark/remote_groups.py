"""Consumers in another process, as the planner sees them (`consumer_groups.py` has them nearby).

What is known of a consumer is what its process reported last. When the process is gone, or says
nothing for `LEASE_S`, the group is lost, for good: nothing of it is acknowledged any more, whatever
becomes of the process, and its messages come again by other consumers."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sluicemq.spark.chunks import Message
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.consumer_groups import MessageKey, Place, Taken
from sluicemq.spark.links import BEAT_S, LEASE_S, Link, Words
from sluicemq.spark.transfer import Endpoint, fetch

ANSWER_S: Final = 20.0
"""For an answer of a process that lives. One that gives none is lost."""


class Away:
    """An outage that somebody else lives through."""

    def __init__(self) -> None:
        self.attempts = 0
        """0: there is none."""
        self.seconds = 0.0


class ConsumerView:
    """A consumer of another process; attributes and methods as `ConsumerThread` has them."""

    def __init__(self, group: RemoteGroup, place: Place) -> None:
        self.queue = place.queue
        self.name = place.consumer
        self.taken = 0
        self.failure: AmqpError | None = None
        self.is_gone = False
        self.quiet = threading.Event()
        self.tried = threading.Event()
        self.overdue_rows = 0
        self.lost_rows = 0
        self.reconnects = 0
        self.outage = Away()
        self._group = group
        self._is_parked = False
        self._rows = self._bytes = self._first = 0
        self._chunk_rows = 0
        self._totals = 0, 0
        self._settled = 0

    def waiting_rows(self) -> int:
        """Messages that could be taken."""
        return self._rows

    def waiting_bytes(self) -> int:
        """The sum of their contents."""
        return self._bytes

    def unsettled_rows(self) -> int:
        """Handed out, and not known to be acknowledged or lost: they come again, as far as anybody
        knows, when the process is lost."""
        return max(0, self.taken - self._settled)

    def first_rows(self) -> int:
        """The least that can be taken: a chunk. 0: nothing waits."""
        return self._first

    def resume(self, rows_max: int) -> None:
        """Somebody wants messages, in batches of so many at most."""
        if self._is_parked or rows_max != self._chunk_rows:
            self._chunk_rows = rows_max
            if self._is_parked:
                self.tried.clear()
                self._is_parked = False
            self._group.ask("resume", consumer=self.name, rows=rows_max)

    def update(self, state: Sequence[Any], is_current: bool) -> None:
        """What the process says. `is_current`: it knows of all that it was asked for."""
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
        """Its process is lost."""
        self._rows = self._bytes = self._first = 0
        self.tried.set()


class RemoteGroup:
    """See above. For the planner's thread; `acknowledge` also for the one that watches for commits,
    `keep_alive` for the one that renews leases. A further one hears what comes, and what all of
    them share, `news`, nobody holds while a process is told something: it may stand still."""

    def __init__(self, link: Link, endpoint: Endpoint, news: threading.Condition) -> None:
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
        """When it said something (`heard_at`), and was told something (monotonic)."""
        self._wanted: set[int] = set()
        self._answers: dict[int, Any] = {}

    def listen(self) -> None:
        """Hear what comes, until the process is gone; its thread does nothing else."""
        try:
            while (words := self._link.receive()) is not None:
                with self._news:
                    self._hear(words)
                    self._news.notify_all()
        finally:
            self.lose()

    def open(self, places: Iterable[Place], bytes_max: int) -> None:
        """More consumers; `bytes_max` is each one's, also of those there are."""
        places = list(places)
        self.bound(bytes_max)
        self.consumers += [ConsumerView(self, place) for place in places]
        self.ask("open", places=places, bytes=bytes_max)

    def take(
        self, consumers: Sequence[str], rows_max: int, bytes_max: int, has_ids: bool = False
    ) -> list[Taken]:
        """Chunks within the limits, of these consumers in turn; none when the process is lost."""
        if not any(view.waiting_rows() for view in self.consumers if view.name in consumers):
            return []
        words = {"consumers": consumers, "rows": rows_max, "bytes": bytes_max, "ids": has_ids}
        answer = self._answer(self.ask("take", **words, is_awaited=True))
        found = [Taken(*each) for each in answer or ()]
        named = {view.name: view for view in self.consumers}
        for each in found:
            named[each.consumer].taken = each.position
        return found

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """All up to there is safe; nobody needs those chunks any more."""
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
        """Have these rows of a chunk, from 0, become dead letters when it is acknowledged."""
        self.ask("reject", number=number, rows=rows)

    def await_written(self, deadline: float) -> None:
        """Until the acknowledgements are on their way."""
        with self._news:
            while self._heard < self._acknowledged and not self.is_lost:
                if not self._news.wait(deadline - time.monotonic()):
                    return

    def bound(self, bytes_max: int) -> None:
        """Have each consumer stop reading there from now on."""
        if self.consumers:
            self.ask("bound", bytes=bytes_max)

    def find(self, wanted: set[MessageKey]) -> dict[MessageKey, Message]:
        """Copies of those of them that wait. The one thing for which bodies come to the planner: a
        batch that runs again after a death is put together there."""
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
        """Consumers whose queues are gone, and of which nothing is out."""
        mine = [view.name for view in self.consumers if view.name in names]
        if mine:
            self.consumers = [view for view in self.consumers if view.name not in names]
            self.ask("drop", consumers=mine)

    def start_over(self, bytes_max: int) -> None:
        """Give back what waits, and consume anew."""
        self._answer(self.ask("start_over", bytes=bytes_max, is_awaited=True))

    def keep_alive(self) -> None:
        """Renew the lease; a process that is silent is lost. Never waits for one that is being told
        something, and takes none of it: others have their leases too."""
        now = time.monotonic()
        if now - self.heard_at > LEASE_S:
            self.lose()
        elif now - self._asked_at > BEAT_S and self._asking.acquire(blocking=False):
            try:
                self._say(self._next(), "beat", {})
            finally:
                self._asking.release()

    def stop(self) -> None:
        """Acknowledge what is safe, close the connections; the broker takes back the rest."""
        self._answer(self.ask("stop", is_awaited=True))
        self.lose()

    def abandon(self) -> None:
        """Let go at once, from any thread: the process ends."""
        self._link.close()

    def lose(self) -> None:
        """It is gone, or shall be; from any thread."""
        self._link.close()
        with self._news:
            self.is_lost = True
            for view in self.consumers:
                view.forget()
            self._news.notify_all()

    def ask(self, what: str, *, is_awaited: bool = False, **more: Any) -> int:
        """The number of the request."""
        with self._asking:
            number = self._next()
            if is_awaited:
                self._wanted.add(number)
            self._say(number, what, more)
        return number

    def _next(self) -> int:
        """The number of the next request, for who has `_asking`."""
        self._asked += 1
        self._asked_at = time.monotonic()
        return self._asked

    def _say(self, number: int, what: str, more: Words) -> None:
        try:
            self._link.send({"n": number, "ask": what, **more})
        except OSError:
            self._link.close()  # `listen` finds out

    def _answer(self, number: int) -> Any:
        """None when the process is lost before it says something."""
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
