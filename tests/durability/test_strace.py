"""Goal: a disk that refuses, and a death at any system call, cost nothing that was confirmed.

Method: strace in front of the real broker makes the Nth call fail or kills the process there; the
journal's writes by io_uring fail in the broker, where their results are read.
After a sync or write that failed with EIO nothing that was pending is ever confirmed, publishers
are blocked and told why, what is there can still be read; after a restart everything confirmed is
found. A full disk (ENOSPC) only takes time. See RELIABILITY of fsync: a second one that succeeds
says nothing about what the first was for.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import pytest

from durability import failing_ring, strace
from durability.clients import POLL_S, Fleet
from durability.roles import Consumer, Publisher
from durability.torture import QUEUES, Round
from sluicemq.client.address import Address
from sluicemq.sim.records import KILL
from support import broker
from support.rings import has_ring
from support.thorough import thorough

pytestmark = pytest.mark.skipif(not strace.is_there(), reason=strace.HOW_TO_GET.upper())

PATIENCE_S = 240.0
CALM_S = 1.0
"""What was confirmed before the failure may still be on its way for so long, at most half of it."""

SETTINGS = ("storage.io_threads=1", "storage.msg_store_index=dict")
BY_A_THREAD = "storage.journal_writer=thread"
"""With it the journal's writes are calls that strace sees."""
ALL_IN_THE_JOURNAL = (
    "storage.journal_file_size_limit=1MiB",
    "storage.queue_index_embed_msgs_below=64KiB",
)
"""With it a group is seldom more than one write, and so the ring's."""
ENDLESS = 1_000_000

needs_ring = pytest.mark.skipif(not has_ring(), reason="NO IO_URING HERE")
IO_URING_ENTER = pytest.param("io_uring_enter", marks=needs_ring)
RING_7 = pytest.param(failing_ring.NAME, 7, marks=needs_ring)
RING_20 = pytest.param(failing_ring.NAME, "20..23", marks=needs_ring)


class Scene:
    """A round whose next life is played by hand."""

    def __init__(self, seed: int, directory: Path, call: str, error: str, when: str) -> None:
        self.round = Round(seed, directory)
        self.round.settings += SETTINGS
        if call == failing_ring.NAME:
            self.round.settings += ALL_IN_THE_JOURNAL
        self.round.declare()
        prefix: list[str] = []
        if call == failing_ring.NAME:
            self.round.program = failing_ring.program(error, when)
        else:
            self.round.settings.append(BY_A_THREAD)
            prefix = strace.failing(call, error, when)
        self.process = self.round.start(prefix)
        target = broker.await_ready(self.process, self.round.log)
        address = Address(target.host, target.port)
        self.fleet = Fleet(address, self.round.book, self.round.dice)

    def publisher(self, queue: str) -> Publisher:
        """One that waits for nothing: only who publishes is told that it is blocked."""
        made = Publisher(self.fleet, self.round.name("publisher"), [(queue,)], ENDLESS)
        made.in_flight_max = ENDLESS
        made.transient_one_in = 0
        return made

    def consumer(self, queue: str) -> Consumer:
        name = self.round.name("consumer")
        return Consumer(self.fleet, name, queue, drains=True)

    def serve(self, seconds: float, done: Callable[[], object] = lambda: False) -> bool:
        """Until `done`, or so long; whether it was done."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.fleet.serve(POLL_S)
            if done():
                return True
            assert self.process.poll() is None, f"the broker ended with {self.process.returncode}"
        return False

    def kill_and_check(self) -> None:
        """The machine is replaced; all that was promised is there."""
        self.round.program = broker.OWN
        self.round.end(self.process, signal.SIGKILL)
        self.fleet.bury()
        self.round.book.crash(KILL)
        self.round.log_read = self.round.log.stat().st_size  # it had reason to complain
        self.round.drain()

    def close(self) -> None:
        self.round.end(self.process, signal.SIGKILL)


@pytest.mark.parametrize(
    ("call", "number"),
    thorough(
        [("pwritev2", 7), RING_7, ("fdatasync", 7), ("pwrite64", 60)],
        [
            ("pwritev2", 7),
            ("pwritev2", 40),
            RING_7,
            ("fdatasync", 7),
            ("pwrite64", 20),
            ("pwrite64", 60),
        ],
    ),
)
def test_after_eio_nothing_is_confirmed_and_reads_go_on(
    call: str, number: int, tmp_path: Path
) -> None:
    # a busy machine gathers large batches, which do without pwritev2: the 40th may never come
    scene = Scene(11, tmp_path, call, "EIO", str(number))
    try:
        book = scene.round.book
        publishers = [scene.publisher(name) for name in QUEUES]
        told = scene.serve(PATIENCE_S, lambda: all(each.blocked for each in publishers))
        assert told, f"publishers are not blocked: {[each.blocked for each in publishers]}"
        reasons = {each.blocked for each in publishers}
        assert all("storage" in reason for reason in reasons), reasons
        scene.serve(CALM_S / 2)
        confirmed, published = book.confirmed, book.published
        late = scene.publisher(QUEUES[0])
        assert scene.serve(PATIENCE_S, lambda: late.blocked), "a new publisher is not blocked"
        scene.serve(CALM_S)
        assert book.confirmed == confirmed, "confirmed after the disk had failed"
        assert book.published > published
        if number > 20:
            for name in QUEUES:
                scene.consumer(name)
            assert scene.serve(PATIENCE_S, lambda: book.delivered > 20), "nothing can be read"
        assert all(each.blocked for each in publishers), "the block was lifted"
        scene.kill_and_check()
        assert book.delivered >= confirmed
    finally:
        scene.close()


@pytest.mark.parametrize(
    ("call", "number"), [("fdatasync", "1"), ("fsync", "1"), ("pwrite64", "2")]
)
def test_a_disk_that_fails_at_the_start_ends_it_with_a_word(
    call: str, number: str, tmp_path: Path
) -> None:
    round_ = Round(14, tmp_path)
    round_.settings += SETTINGS
    round_.declare()
    process = round_.start(strace.failing(call, "EIO", number))
    with pytest.raises(broker.NotReady) as refused:
        broker.await_ready(process, round_.log)
    assert process.wait(broker.STOP_SECONDS) not in (0, -signal.SIGKILL)
    assert "EIO" in str(refused.value)
    assert "Traceback" not in str(refused.value)
    round_.drain()


@pytest.mark.parametrize(
    ("call", "when"),
    thorough(
        [("pwrite64", "40..43"), RING_20, ("fallocate", "4..6")],
        [("pwrite64", "40..43"), ("pwrite64", "200..202"), RING_20, ("fallocate", "4..6")],
    ),
)
def test_a_full_disk_only_takes_time(call: str, when: str, tmp_path: Path) -> None:
    scene = Scene(12, tmp_path, call, "ENOSPC", when)
    try:
        book = scene.round.book
        publishers = [scene.publisher(name) for name in QUEUES]
        blocked = scene.serve(PATIENCE_S, lambda: any(each.blocked for each in publishers))
        assert blocked, "publishers are not blocked"
        assert any("disk" in each.blocked for each in publishers)
        freed = scene.serve(PATIENCE_S, lambda: not any(each.blocked for each in publishers))
        assert freed, "publishers stay blocked"
        confirmed = book.confirmed
        assert scene.serve(PATIENCE_S, lambda: book.confirmed > confirmed + 200), "it is stuck"
        for each in publishers:
            each.total = 0
        all_confirmed = scene.serve(
            PATIENCE_S, lambda: not any(each.stream.unconfirmed for each in publishers)
        )
        assert all_confirmed, "not everything is confirmed"
        scene.kill_and_check()
    finally:
        scene.close()


@pytest.mark.parametrize(
    "call",
    thorough(
        ("fdatasync", "pwrite64", "pwritev2", IO_URING_ENTER, "unlink"),
        (*(call for call in strace.CALLS if call != "io_uring_enter"), IO_URING_ENTER),
    ),
)
def test_death_at_the_nth_call_loses_nothing(call: str, tmp_path: Path) -> None:
    """A directory on which the broker dies again and again, at calls further and further on."""
    numbers = thorough((1, 9, 30), (1, 2, 4, 9, 30))
    if call == "openat":
        numbers = thorough((20, 100), (9, 20, 40, 60, 100))
    round_ = Round(13, tmp_path)
    if call == "io_uring_enter":
        round_.settings += ALL_IN_THE_JOURNAL
    else:
        round_.settings.append(BY_A_THREAD)
    round_.declare()
    # Where one number is not reached in a life, no larger one is.
    hits = list(takewhile(lambda number: round_.kill_at(call, number), numbers))
    round_.drain()
    assert hits, f"{call} is not made often enough"
