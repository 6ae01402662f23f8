"""Kill a real broker again and again under its clients, and see that it keeps its promises.

    PYTHONPATH=tests python -m durability.torture [--cycles 1000] [--seed 0]      (make torture)

A round is up to ROUND_CYCLES cycles on one data directory. A cycle starts the broker, lets
publishers, consumers and others loose on it, and kills it at a random moment, start-up and recovery
included; a few are stopped politely instead. At the end of the round all queues are drained, and
`sluicemq.sim.history` says whether everything that was promised holds. All chance comes from the
seed but not the machine's own: the same seed gives the same clients, not the same interleaving. A
round that fails says its seed and keeps its data directory.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from durability import strace
from durability.clients import POLL_S, Fleet
from durability.roles import EXCHANGE, Consumer, Getter, Ledger, Publisher, Registrar
from sluicemq.client.address import Address
from sluicemq.client.blocking import BlockingClient
from sluicemq.config import KIB
from sluicemq.errors import SluiceError
from sluicemq.sim.history import History
from sluicemq.sim.records import KILL, STOP, WORK, QueueHistory
from support import broker
from support.broker import NotReady, Target
from support.commands import run_command

ROUND_CYCLES: Final = 60
QUEUES: Final = ("work-0", "work-1", "work-2", "work-3")
SPREAD: Final = QUEUES[:3]
"""Bound to EXCHANGE."""

BACKLOG_MAX: Final = 5000
"""Messages; above it a life publishes little."""

DRAIN_PATIENCE_S: Final = 120.0
COLUMNS: Final = (
    "name",
    "messages_ready",
    "messages_unacknowledged",
    "messages_ram",
    "backing_queue_status",
)
GRACE_S: Final = 240.0
LIFE_MAX_S: Final = 0.6
LIFE_LEAST: Final = 25
"""Messages that are confirmed in a life, and as many that are delivered, on average so far: a life
goes on until then..."""

LIFE_SURE_LEAST: Final = 2
"""Acknowledgements of which it is sure that they are durable, the same..."""

LATE_MAX_S: Final = 5.0
"""... for so long at most."""
TRACED_LIFE_S: Final = 2.0
STOP_PERCENT: Final = 5
START_UP_EVERY: Final = 5
"""Each fifth cycle the broker does not get beyond its start."""

EXPECTED: Final = "404 NOT_FOUND - no queue|320 CONNECTION_FORCED"
"""Errors that clients caused: what an audit asks for, what is said as the broker stops."""

COMPLAINT: Final = re.compile(rf"\[(error|critical)\](?!.*({EXPECTED}))|Traceback")
CALL_PERCENT: Final = 20
"""Cycles that end at a system call, when strace is there. Slow."""

CALLS_MAX: Final = 200


@dataclass
class Tally:
    """What a round has done: figures of its report, and of the least a test demands."""

    kills: int = 0
    in_start_up: int = 0
    stops: int = 0
    published: int = 0
    confirmed: int = 0
    delivered: int = 0
    redelivered: int = 0
    sure_acks: int = 0
    journal_files: int = 0
    checkpoints: int = 0
    index_bytes: int = 0
    store_bytes: int = 0
    start_s: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def line(self) -> str:
        start = statistics.median(self.start_s) if self.start_s else 0.0
        slowest = max(self.start_s, default=0.0)
        return (
            f"{self.kills} kills ({self.in_start_up} in start-up), {self.stops} stops, "
            f"{self.published} published, {self.confirmed} confirmed, {self.delivered} delivered, "
            f"{self.redelivered} of them again, {self.sure_acks} sure acks, "
            f"journal files up to {self.journal_files}, checkpoints up to {self.checkpoints}, "
            f"start {start:.2f} s, at most {slowest:.2f} s; {self.seconds:.0f} s"
        )


class Failed(AssertionError):
    """A promise was broken, or the broker did not do what it must."""


def settings_of(dice: Random) -> list[str]:
    """Limits so small that everything happens within seconds."""
    chosen = {
        "storage.journal_file_size_limit": dice.choice((16, 64, 256)) * KIB,
        "storage.msg_store_file_size_limit": dice.choice((16, 64, 256)) * KIB,
        "storage.queue_index_segment_entry_count": dice.choice((8, 64, 1024, 16384)),
        "storage.queue_index_embed_msgs_below": dice.choice((0, 100, 4096, 4096)),
        "storage.msg_store_io_batch_size": dice.choice((1, 16, 100)),
        "storage.msg_store_index": dice.choice(("dict", "dict", "lmdb")),
        "storage.io_threads": dice.choice((1, 4)),
        "storage.file_handles_max": dice.choice((8, 256)),
        "storage.reserve_bytes": dice.choice((0, 256 * KIB)),
        "memory.vm_memory_high_watermark_absolute": "512MiB",
        "memory.vm_memory_high_watermark_paging_ratio": dice.choice((0.0005, 0.002, 0.01)),
        "memory.memory_monitor_interval": 100,
        "memory.check_interval_ms": 50,
    }
    return [f"{key}={value}" for key, value in chosen.items()]


class Round:
    """One data directory, one history."""

    def __init__(
        self,
        seed: int,
        directory: Path,
        program: Sequence[str] = broker.OWN,
        stop_percent: int = STOP_PERCENT,
        call_percent: int = 0,
    ) -> None:
        self.seed = seed
        self.dice = Random(seed)
        self.dice_of_ends = Random(seed)
        """Its own, so that how fast the machine is does not decide how many lives end in which
        way."""
        self.program = tuple(program)
        self.directory = directory
        self.data = directory / "data"
        self.log = directory / "log.txt"
        self.stop_percent = stop_percent
        self.call_percent = call_percent
        directory.mkdir(parents=True, exist_ok=True)
        self.settings = settings_of(self.dice)
        self.book = History()
        self.book.told_what_is_safe = False
        for name in QUEUES:
            self.book.queue(name, WORK)
        self.waiting = 0
        """Messages in queues at the last look."""
        self.ledger = Ledger()
        self.tally = Tally()
        self.cycle_number = 0
        self.names = 0
        self.log_read = 0

    # -- a round

    def run(self, cycles: int) -> Tally:
        """Cycles, then the drain. Raises Failed."""
        began = time.monotonic()
        try:
            self.declare()
            for self.cycle_number in range(1, cycles + 1):
                self.cycle()
            self.drain()
        except (SluiceError, AssertionError, OSError) as error:
            self.note(f"failed: {error}")
            raise Failed(
                f"seed {self.seed}, cycle {self.cycle_number} of {cycles}: {error}\n"
                f"settings: {' '.join(self.settings)}\nkept: {self.directory}"
            ) from error
        finally:
            self.tally.seconds += time.monotonic() - began
            self.count()
        return self.tally

    def count(self) -> None:
        """Figures of the history into the tally."""
        tally, book = self.tally, self.book
        tally.published, tally.confirmed = book.published, book.confirmed
        tally.delivered, tally.redelivered = book.delivered, book.redelivered
        tally.sure_acks = sum(map(sure_acks, book.queues.values()))

    def note(self, text: str) -> None:
        """Into the log, between what the broker says."""
        with self.log.open("a") as log:
            log.write(f"--- cycle {self.cycle_number}: {text}\n")

    def cycle(self) -> None:
        """One life of the broker."""
        if self.cycle_number % START_UP_EVERY == 0:
            self.kill_in_start_up()
        elif self.dice_of_ends.randrange(100) < self.stop_percent:
            self.live(self.stop)
        elif self.dice_of_ends.randrange(100) < self.call_percent:
            call = self.dice_of_ends.choice(strace.CALLS)
            self.kill_at(call, self.dice_of_ends.randrange(1, CALLS_MAX))
        else:
            self.live(self.kill)
        self.look_at_files()

    # -- lives

    def start(self, prefix: Sequence[str] = (), tracer: Sequence[str] = ()) -> broker.Process:
        return broker.start(
            self.data,
            *self.settings,
            program=(*prefix, *self.program),
            tracer=tracer,
            errors=self.log,
        )

    def ready(self, process: broker.Process) -> Target:
        """Wait for it, and take the time."""
        began = time.monotonic()
        try:
            target = broker.await_ready(process, self.log)
        except NotReady:
            process.kill()
            process.wait()
            raise
        self.tally.start_s.append(time.monotonic() - began)
        return target

    def kill_in_start_up(self) -> None:
        """While it imports, recovers, or has just said that it is ready."""
        process = self.start()
        time.sleep(self.dice.uniform(0.5, 1.2) * statistics.median(self.tally.start_s))
        self.note("killed in start-up")
        self.end(process, signal.SIGKILL)
        self.tally.in_start_up += 1
        self.tally.kills += 1
        self.book.crash(KILL)

    def live(self, end: Callable[[broker.Process, Fleet], None]) -> None:
        """Start, work, end."""
        process = self.start()
        try:
            target = self.ready(process)
            self.audit(target)
            fleet = self.fleet(target)
            until = time.monotonic() + self.dice.uniform(0.05, LIFE_MAX_S)
            while (now := time.monotonic()) < until or (
                self.is_behind() and now < until + LATE_MAX_S
            ):
                self.serve(fleet)
                assert process.poll() is None, f"the broker ended with {process.returncode}"
            end(process, fleet)
        finally:
            self.end(process, signal.SIGKILL)

    def is_behind(self) -> bool:
        """Tell whether little has happened in all lives until now, as on a slow machine."""
        happened = min(self.book.confirmed, self.book.delivered)
        if happened < LIFE_LEAST * self.cycle_number:
            return True
        sure = sum(sure_acks(queue, in_this_life=True) for queue in self.book.queues.values())
        return sure < LIFE_SURE_LEAST * self.cycle_number

    def serve(self, fleet: Fleet) -> None:
        """A moment of a life."""
        fleet.serve(POLL_S)
        if self.dice.randrange(200) == 0:
            self.add_client(fleet)

    def kill_at(self, call: str, number: int) -> bool:
        """A life that ends as a thread makes its Nth such call, or after a while: False then."""
        self.note(f"to be killed at {call} {number}")
        process = self.start(tracer=strace.killing(call, number))
        fleet: Fleet | None = None
        try:
            fleet = self.live_until_killed(process)
            hit = process.poll() is not None
            self.end(process, signal.SIGKILL)
            self.tally.kills += 1
            self.tally.in_start_up += fleet is None
            if fleet is not None:
                fleet.bury()
        finally:
            self.end(process, signal.SIGKILL)
        self.book.crash(KILL)
        self.look_at_files()
        return hit

    def live_until_killed(self, process: broker.Process) -> Fleet | None:
        """Work under a sword; None: it fell before the broker was ready."""
        try:
            target = broker.await_ready(process, self.log)
        except NotReady:
            if process.wait(GRACE_S) == -signal.SIGKILL:
                return None
            raise
        fleet = Fleet(Address(target.host, target.port), self.book, self.dice)
        fleet.expect_end = True
        until = time.monotonic() + TRACED_LIFE_S
        with contextlib.suppress(OSError):  # gone while they connect
            self.fill(fleet)
        while process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError):
                self.serve(fleet)
        return fleet

    def kill(self, process: broker.Process, fleet: Fleet) -> None:
        """kill -9; then hear what was said before it."""
        self.note("killed")
        self.end(process, signal.SIGKILL)
        fleet.bury()
        self.tally.kills += 1
        self.book.crash(KILL)

    def stop(self, process: broker.Process, fleet: Fleet) -> None:
        """SIGTERM; the broker says goodbye to its clients."""
        self.note("stopped")
        fleet.expect_end = True
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + broker.STOP_SECONDS
        while process.poll() is None:
            assert time.monotonic() < deadline, "SIGTERM does not stop the broker"
            fleet.serve(POLL_S)
        assert process.returncode == 0, f"the broker ended with {process.returncode}"
        fleet.bury()
        self.tally.stops += 1
        self.book.crash(STOP)

    def end(self, process: broker.Process, how: int) -> None:
        """With a signal, unless it is over."""
        if process.poll() is None:
            process.send_signal(how)
            process.wait(broker.STOP_SECONDS)
        if process.stdout is not None:
            process.stdout.close()

    # -- clients

    def fleet(self, target: Target) -> Fleet:
        """Everyone of this life."""
        fleet = Fleet(Address(target.host, target.port), self.book, self.dice)
        self.fill(fleet)
        return fleet

    def fill(self, fleet: Fleet) -> None:
        """With publishers, with consumers more or fewer, and with others."""
        for _ in range(self.dice.randrange(1, 5)):
            self.add_publisher(fleet)
        for _ in range(self.dice.randrange(0, 5) + (self.waiting > BACKLOG_MAX) * 4):
            self.add_taker(fleet)
        if self.dice.randrange(2):
            Registrar(fleet, self.name("registrar"), self.ledger)
        self.note(f"{len(fleet.clients)} clients, {self.waiting} messages waiting")

    def add_client(self, fleet: Fleet) -> None:
        if self.dice.randrange(2):
            self.add_publisher(fleet)
        else:
            self.add_taker(fleet)

    def add_publisher(self, fleet: Fleet) -> None:
        targets = [(name,) for name in QUEUES] + [SPREAD, SPREAD]
        total = self.dice.choice((10, 100, 500))
        if self.waiting > BACKLOG_MAX:
            total = 5
        Publisher(fleet, self.name("publisher"), targets, total)

    def add_taker(self, fleet: Fleet) -> None:
        queue = self.dice.choice(QUEUES)
        if self.dice.randrange(5) == 0:
            Getter(fleet, self.name("getter"), queue)
        else:
            Consumer(fleet, self.name("consumer"), queue)

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind} {self.names} of life {self.cycle_number}"

    # -- before and after

    def declare(self) -> None:
        """What everyone uses; then the first kill."""
        process = self.start()
        target = self.ready(process)
        with self.admin(target) as admin:
            admin.declare_exchange(EXCHANGE, "fanout")
            for name in QUEUES:
                admin.declare_queue(name)
            for name in SPREAD:
                admin.bind_queue(name, EXCHANGE, "")
        self.end(process, signal.SIGKILL)

    def admin(self, target: Target) -> BlockingClient:
        return BlockingClient(Address(target.host, target.port), GRACE_S, "audit")

    def audit(self, target: Target) -> None:
        """What was declared is there, what was deleted is gone. What was in doubt is settled."""
        with self.admin(target) as admin:
            counts = {name: admin.count_queue(name) for name in QUEUES}
            assert all(counts.values()), f"there are only {[n for n in QUEUES if counts[n]]}"
            self.waiting = sum(each.messages_ready for each in counts.values() if each)
            for name, state in list(self.ledger.known.items()):
                there = admin.count_queue(name) is not None
                if there != (state == "there"):
                    assert state == "in doubt", f"queue {name} was {state}, but it is not"
                if there:
                    self.ledger.known[name] = "there"
                else:
                    del self.ledger.known[name]

    def drain(self) -> None:
        """Take everything; then there is nothing left, not after another start either."""
        self.fsck()
        process = self.start()
        try:
            target = self.ready(process)
            self.audit(target)
            fleet = Fleet(Address(target.host, target.port), self.book, self.dice)
            drainers = [Consumer(fleet, self.name("drain"), name, drains=True) for name in QUEUES]
            self.await_drained(fleet, drainers, target)
            fleet.leave()
            fleet.expect_end = True
            code = broker.stop(process)
            assert code == 0, f"the broker ended with {code}"
            process = self.start()
            with self.admin(self.ready(process)) as admin:
                left = {name: admin.count_queues([name]) for name in QUEUES}
            assert not any(left.values()), f"after the drain there are {left}"
            code = broker.stop(process)
            assert code == 0, f"the broker ended with {code}"
            self.book.all_is_well()
            self.look_at_files()
            bytes_left = size_of(self.data, "queues/*/*.idx") + size_of(
                self.data, "messages/*/*.rdq"
            )
            assert bytes_left == 0, f"after the drain {bytes_left} bytes are still taken"
        finally:
            self.end(process, signal.SIGKILL)

    def fsck(self) -> None:
        """`sluicemq fsck` finds nothing wrong either."""
        found = run_command("fsck", str(self.data))
        assert found.returncode == 0, f"fsck says:\n{found.stdout}{found.stderr}"

    def await_drained(self, fleet: Fleet, drainers: list[Consumer], target: Target) -> None:
        """Until nothing is ready, nothing is held, and nothing has come for a while."""
        with self.admin(target) as admin:
            quiet_since = last_progress = time.monotonic()
            delivered = -1
            while True:
                fleet.serve(POLL_S)
                now = time.monotonic()
                if self.book.delivered != delivered:
                    delivered = self.book.delivered
                    quiet_since = last_progress = now
                if now - quiet_since > 0.2:
                    ready = admin.count_queues(QUEUES)
                    if not ready and not any(d.held or d.asked for d in drainers):
                        return
                    if now - last_progress > DRAIN_PATIENCE_S:
                        self.ask_about_queues(target)
                        raise Failed(f"{ready} messages do not come")
                    quiet_since = now

    def ask_about_queues(self, target: Target) -> None:
        """Into the log: what the broker says of those that are not empty."""
        asked = run_command("ctl", "list_queues", "--port", str(target.port), *COLUMNS)
        for line in (asked.stdout + asked.stderr).splitlines():
            self.note(line)

    def look_at_files(self) -> None:
        """What the directory has come to: that it did write, rotate and page is seen here. A kill
        damages nothing, so the broker has nothing to complain of."""
        with self.log.open(errors="replace") as log:
            log.seek(self.log_read)
            complaints = [line for line in log if COMPLAINT.search(line)]
            self.log_read = log.tell()
        assert not complaints, f"the log says: {complaints[0].strip()}"
        tally = self.tally
        tally.journal_files = max(tally.journal_files, newest(self.data / "journal", "jif"))
        tally.checkpoints = max(tally.checkpoints, newest(self.data / "checkpoint", "ckp"))
        tally.index_bytes = max(tally.index_bytes, size_of(self.data / "queues", "*/*.idx"))
        store = self.data / "messages" / "persistent"
        tally.store_bytes = max(tally.store_bytes, size_of(store, "*.rdq"))


def sure_acks(queue: QueueHistory, in_this_life: bool = False) -> int:
    """Acknowledgements that a crash came after and that cannot have been lost in it; with
    `in_this_life` those as well that would not be lost in a crash now."""
    crashes = [*queue.on_disk_at_crash, *([queue.on_disk] if in_this_life else ())]
    return sum(
        each.dealt_with <= crashes[each.crashes]
        for deliveries in queue.seen.values()
        for each in deliveries
        if each.crashes < len(crashes)
    )


def newest(directory: Path, suffix: str) -> int:
    """The highest number of a file, -1 when there is none."""
    names = [path.stem for path in directory.glob(f"*.{suffix}")]
    return max((int(name) for name in names if name.isdigit()), default=-1)


def size_of(directory: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in directory.glob(pattern))


def main() -> int:
    """Rounds until so many cycles are done; 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None, help="of the first round; at random")
    parser.add_argument("--directory", type=Path, default=Path("out/torture"))
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(3))
    calls = CALL_PERCENT if strace.is_there() else 0
    left = options.cycles
    while left > 0:
        directory = options.directory / f"seed-{seed}"
        shutil.rmtree(directory, ignore_errors=True)
        try:
            tally = Round(seed, directory, call_percent=calls).run(min(left, ROUND_CYCLES))
        except Failed as failed:
            print(failed, flush=True)
            return 1
        print(f"seed {seed}: {tally.line()}", flush=True)
        shutil.rmtree(directory)
        left -= ROUND_CYCLES
        seed += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
