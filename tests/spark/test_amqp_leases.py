"""Goal: who gathers keeps his lease as long as his planner lives, whatever the planner waits for,
and loses it when he is silent; a planner that could not acknowledge tries again.

Method: a planner's session, or a group of it, among objects that stand still, fail and say what the
test wants; no broker.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Iterator
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest

from sluicemq.spark import consumer_assignment as crews
from sluicemq.spark.chunks import GatheredChunk
from sluicemq.spark.commits import Offset
from sluicemq.spark.consumer_groups import PlannedConsumer
from sluicemq.spark.options import Options
from sluicemq.spark.planner_link import LEASE_S, PlannerLink, Words
from sluicemq.spark.remote_groups import ConsumerView, RemoteGroup
from sluicemq.spark.stream_planner import PAUSE_S, StreamPlanner
from sluicemq.spark.transfer import PATIENCE_S, ChunkServer, Endpoint

WAIT_S = 240.0
TOKEN = "0123"
END: Offset = {"session": "", "pos": {}, "serial": 1}


@pytest.fixture
def session() -> Iterator[StreamPlanner]:
    given = {"queue": "orders", "gather": "executors"}
    made = StreamPlanner(Options.parse(given, "source"))
    yield made
    made.close()


class Group:
    """One that gathers, as far as leases go."""

    def __init__(self) -> None:
        self.endpoint = Endpoint("10.0.0.3", 4000, TOKEN, "")
        self.is_lost = False
        self.heard_at = 0.0
        self.beats = threading.Semaphore(0)

    def keep_alive(self) -> None:
        self.beats.release()

    def stop(self) -> None: ...


def test_leases_are_renewed_while_the_checkpoint_stands_still(session: StreamPlanner) -> None:
    group = Group()
    session._assignment.groups.append(group)  # type: ignore[arg-type]
    standing = threading.Event()

    def stand(*_: object, **__: object) -> None:
        standing.wait()

    session._signs.wait = stand  # type: ignore[method-assign]
    session.open()
    try:
        for _ in range(3):
            assert group.beats.acquire(timeout=WAIT_S)
    finally:
        standing.set()


class Pauses:
    """The event of the end, which comes after so many pauses."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.seconds: list[float] = []

    def wait(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def is_set(self) -> bool:
        return len(self.seconds) >= self._count

    def set(self) -> None: ...


def test_what_goes_wrong_with_a_checkpoint_is_told_and_tried_again_after_a_pause(
    session: StreamPlanner, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no such file system")

    session._signs.wait = fail  # type: ignore[method-assign]
    session._closing = pauses = Pauses(3)  # type: ignore[assignment]
    with caplog.at_level(logging.ERROR):
        session._watch()
    assert pauses.seconds == [PAUSE_S] * 3
    assert [record.exc_text for record in caplog.records if record.exc_info]
    assert "no such file system" in caplog.text


def test_an_acknowledgement_that_failed_is_not_forgotten(
    session: StreamPlanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody says a second time that the batch is committed."""
    said: list[Offset | None] = [END]
    session._signs.wait = lambda *_, **__: said.pop() if said else None  # type: ignore[method-assign]
    session._closing = pauses = Pauses(2)  # type: ignore[assignment]
    confirmed: list[Offset] = []

    def confirm(offset: Offset) -> None:
        if not pauses.seconds:
            raise RuntimeError("no such ledger")
        confirmed.append(offset)
        pauses.wait(0.0)

    monkeypatch.setattr(session, "confirm", confirm)
    session._watch()
    assert confirmed == [END]


def test_a_session_whose_last_word_fails_takes_leave_all_the_same(session: StreamPlanner) -> None:
    group = Group()
    session._assignment.groups.append(group)  # type: ignore[arg-type]
    session._planned.append(SimpleNamespace())  # type: ignore[arg-type]

    def fail() -> list[Offset]:
        raise RuntimeError("no such driver")

    session._signs.last_words = fail  # type: ignore[method-assign]
    session.close()
    assert session._assignment.groups == []


class Stuck:
    """A link to a process that reads no more, until it is closed."""

    def __init__(self) -> None:
        self.is_sending = threading.Event()
        self._closed = threading.Event()

    def send(self, _: Words) -> None:
        self.is_sending.set()
        self._closed.wait()
        raise OSError("closed")

    def close(self) -> None:
        self._closed.set()


class StuckGroup:
    """A group that is told of something safe, and reads no more; in a thread of its own."""

    def __init__(self) -> None:
        self.link: Any = Stuck()
        self.news = threading.Condition()
        self.group = RemoteGroup(self.link, Endpoint("", 1, TOKEN, ""), self.news)
        self.group.consumers.append(ConsumerView(self.group, PlannedConsumer("orders", "orders")))
        self.thread = threading.Thread(target=self.group.acknowledge, args=({"orders": 7},))
        self.thread.start()
        assert self.link.is_sending.wait(WAIT_S)

    def close(self) -> None:
        self.link.close()
        self.thread.join()


@pytest.fixture
def stuck() -> Iterator[StuckGroup]:
    made = StuckGroup()
    yield made
    made.close()


def test_one_that_reads_no_more_does_not_silence_the_others(stuck: StuckGroup) -> None:
    """What they say is heard with the condition that all of them share."""
    assert stuck.news.acquire(timeout=WAIT_S)
    stuck.news.release()


def test_one_that_reads_no_more_does_not_cost_the_others_their_leases(stuck: StuckGroup) -> None:
    stuck.group._asked_at = float("-inf")
    beating = threading.Thread(target=stuck.group.keep_alive, daemon=True)
    beating.start()
    beating.join(WAIT_S)
    assert not beating.is_alive()
    assert not stuck.group.is_lost
    stuck.group.heard_at = float("-inf")
    stuck.group.keep_alive()
    assert stuck.group.is_lost


def test_a_lease_is_renewed_by_a_word() -> None:
    ours, theirs = socket.socketpair()
    group = RemoteGroup(PlannerLink(ours), Endpoint("", 1, TOKEN, ""), threading.Condition())
    group._asked_at = float("-inf")
    group.keep_alive()
    group.keep_alive()
    group.abandon()
    heard = PlannerLink(theirs)
    assert heard.receive() == {"n": 1, "ask": "beat"}
    assert heard.receive() is None
    heard.close()


class Clock:
    """Time passes where the planner waits for news. `group` is heard of every `beat_s`, as long as
    that is not None; it is lost after a lease without."""

    def __init__(self, group: Group, beat_s: float | None) -> None:
        self.now = group.heard_at = 100.0
        self._group = group
        self._beat_s = beat_s

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        """Like a condition's."""
        group = self._group
        next_s = group.heard_at + (self._beat_s or LEASE_S) - self.now
        if seconds < next_s:
            self.now += max(seconds, 0.0)
            return False
        self.now += next_s
        if self._beat_s is None:
            group.is_lost = True
        else:
            group.heard_at = self.now
        return True


@pytest.mark.parametrize("beat_s", [None, 5.0])
def test_a_machine_that_is_off_is_known_to_be_off_when_its_lease_ends(
    session: StreamPlanner, monkeypatch: pytest.MonkeyPatch, beat_s: float | None
) -> None:
    """A task that cannot reach it asks at once, and fails if it is told that the process lives: so
    it is told that of a process that has said something since."""
    group = Group()
    assignment = session._assignment
    clock = Clock(group, beat_s)
    with monkeypatch.context() as patch:
        patch.setattr(assignment, "groups", [group])
        patch.setattr(assignment, "_news", clock)
        patch.setattr(crews, "time", clock)
        assert assignment._is_lost(TOKEN) is (beat_s is None)
        assert assignment._is_lost("another") is True
    assert clock.now - 100.0 <= (LEASE_S if beat_s is None else 2 * beat_s)


class Reader(socket.socket):
    """A task, which asks for a chunk; `patience` is how long it may take nothing of it, in
    seconds."""

    def __init__(self, request: bytes) -> None:
        super().__init__()
        self._request = request
        self.patience: list[float | None] = []

    def makefile(self, *_: object, **__: object) -> Any:
        return BytesIO(self._request)

    def sendmsg(self, parts: Any, *_: object) -> int:
        self.patience.append(self.gettimeout())
        return sum(map(len, parts))


def test_a_task_may_wait_for_its_sink_as_long_as_it_likes() -> None:
    """It reads no further while the broker it writes to is away."""
    server = ChunkServer("127.0.0.1")
    try:
        number = server.offer(GatheredChunk("orders", 0))
        asked = {"token": server.endpoint.token, "chunks": [number]}
        with Reader(json.dumps(asked).encode() + b"\n") as reader:
            reader.settimeout(PATIENCE_S)
            server._talk(reader)
            assert reader.patience == [None]
    finally:
        server.close()
