"""Goal: what a process that gathers takes with it when it dies is known to its planner, and what
is committed of it, acknowledged, or lost before, is told apart.

Method: a planner's session whose processes are threads that say what the test wants; no broker.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sluicemq.client.session import BrokerError
from sluicemq.spark.available_now import AvailableNow
from sluicemq.spark.chunks import GatheredChunk
from sluicemq.spark.commits import Offset
from sluicemq.spark.consumer_threads import ConsumerThread
from sluicemq.spark.options import Options
from sluicemq.spark.pacing import ROWS_UNLIMITED
from sluicemq.spark.planner_link import PlannerLink
from sluicemq.spark.raw_contents import ContentRun
from sluicemq.spark.stream_planner import START, StreamPlanner
from sluicemq.spark.transfer import Endpoint

WAIT_S = 240.0
QUEUE = "orders"
CHUNK = 500


class Process(threading.Thread):
    """One that gathers, with chunks of CHUNK rows that wait. `dies_at` a word it dies when it is
    asked that, and answers it no more."""

    def __init__(self, session: StreamPlanner, chunks: int, dies_at: str = "") -> None:
        super().__init__(daemon=True)
        ours, theirs = socket.socketpair()
        self._link = PlannerLink(theirs)
        self._chunks = chunks
        self._dies_at = dies_at
        self._consumers: dict[str, int] = {}
        """Positions of what is acknowledged."""
        self.taken = 0
        self.lost = 0
        assignment = session._assignment
        token = str(id(self))
        before = len(assignment._arrived)
        threading.Thread(
            target=assignment._welcome,
            args=(Endpoint("", 1, token, ""), PlannerLink(ours)),
            daemon=True,
        ).start()
        with session._news:
            assert session._news.wait_for(lambda: len(assignment._arrived) > before, WAIT_S)
            self.group = assignment._arrived[-1]
        self._news = session._news
        self.start()

    def run(self) -> None:
        while (asked := self._link.receive()) is not None:
            if asked["ask"] == self._dies_at:
                self._link.close()
                return
            answer = getattr(self, asked["ask"], lambda _: None)(asked)
            self._link.send({"n": asked["n"], "state": self._state(), "answer": answer})

    def open(self, asked: dict[str, Any]) -> None:
        self._consumers |= {consumer: 0 for _, consumer in asked["planned"]}

    def take(self, asked: dict[str, Any]) -> list[Any]:
        if not self._chunks:
            return []
        self._chunks -= 1
        self.taken += CHUNK
        return [[asked["consumers"][0], QUEUE, self.taken, CHUNK, CHUNK, self._chunks, None, 0]]

    def acknowledge(self, asked: dict[str, Any]) -> None:
        self._consumers |= asked["positions"]

    def lose_connection(self) -> None:
        """To the broker: all that is not acknowledged comes again."""
        self.lost = self.taken
        self._consumers = dict.fromkeys(self._consumers, self.taken)
        self._link.send({"n": 0, "state": self._state()})

    def die(self) -> None:
        """As soon as that is known, the planner goes on."""
        self._link.close()
        with self._news:
            assert self._news.wait_for(lambda: self.group.is_lost, WAIT_S)

    def _state(self) -> dict[str, list[Any]]:
        rows = self._chunks * CHUNK
        first = CHUNK if rows else 0
        before = [rows, rows, first, not rows, True, False, 0, self.lost, 0]
        return {
            name: [*before, settled, None, None, False] for name, settled in self._consumers.items()
        }


@pytest.fixture
def session() -> Iterator[StreamPlanner]:
    """Of a query that takes what is available: 1000 rows."""
    given = {"queue": QUEUE, "gather": "executors", "gatherers": "1", "timeout": "10000"}
    made = StreamPlanner(Options.parse(given, "source"))
    made._available = AvailableNow(made._options, {QUEUE: 2 * CHUNK})
    yield made
    made.close()


def plan(session: StreamPlanner, start: Offset) -> Offset:
    return session.plan(start, CHUNK)


def take_rest(session: StreamPlanner, start: Offset, chunks: int) -> int:
    """What comes from another process that has so many, until the query ends."""
    process = Process(session, chunks)
    while (end := plan(session, start)) != start:
        start = end
    return process.taken


def test_what_is_committed_and_could_not_be_read_is_waited_for(session: StreamPlanner) -> None:
    """Its tasks found nothing there: the batch was committed without these rows."""
    process = Process(session, 1)
    end = plan(session, dict(START))
    process.die()
    assert take_rest(session, end, 3) == 2 * CHUNK


def test_that_is_so_when_the_commit_is_known_before_the_next_plan(session: StreamPlanner) -> None:
    process = Process(session, 1)
    end = plan(session, dict(START))
    process.die()
    session.confirm(end)
    assert take_rest(session, end, 3) == 2 * CHUNK


def test_what_is_committed_and_not_acknowledged_any_more_is_waited_for(
    session: StreamPlanner,
) -> None:
    Process(session, 1, dies_at="acknowledge")
    end = plan(session, dict(START))
    assert take_rest(session, end, 3) == 2 * CHUNK


def test_what_is_acknowledged_does_not_come_again(session: StreamPlanner) -> None:
    process = Process(session, 1)
    end = plan(session, dict(START))
    session.confirm(end)
    process.die()
    assert take_rest(session, end, 3) == CHUNK


def test_what_was_lost_with_a_connection_before_is_counted_once(session: StreamPlanner) -> None:
    process = Process(session, 1)
    end = plan(session, dict(START))
    process.lose_connection()
    process.die()
    assert take_rest(session, end, 3) == 2 * CHUNK


class Cut:
    """A subscription, and its wire: acknowledgements are lost with the connection."""

    def __init__(self) -> None:
        self.wire = self

    def acknowledge(self, *_: object) -> None: ...

    def abandon(self) -> None: ...

    def flush(self) -> None:
        raise BrokerError("cut")


def test_acknowledgements_that_cannot_be_written_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their messages come again, and are among those that are told to do so."""
    monkeypatch.setattr(ConsumerThread, "_run", lambda _: None)
    options = Options.parse({"queue": QUEUE}, "source")
    consumer = ConsumerThread(options, QUEUE, QUEUE, threading.Condition(), 2**40)
    chunk = GatheredChunk(QUEUE, 0)
    chunk._extend(ContentRun("", QUEUE, False, 1, CHUNK))
    consumer._waiting.append(chunk)
    consumer.take(ROWS_UNLIMITED, 2**40)
    consumer.acknowledge(CHUNK)
    consumer._subscription = cut = Cut()  # type: ignore[assignment]
    with pytest.raises(BrokerError):
        consumer._write_acks(cut)  # type: ignore[arg-type]
    assert consumer.settled == 0
    consumer._on_lost()
    assert (consumer.lost_rows, consumer.settled) == (CHUNK, CHUNK)
