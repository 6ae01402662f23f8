"""A World that only remembers what was asked of it, for tests of single actors."""

from __future__ import annotations

from sluicemq.errors import DiskFailed
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.kernel.disk import Disk, DiskJob
from sluicemq.kernel.world import Clock, Dice, Memory, Net, World
from support.files import DictFiles


class FakeClock(Clock):
    """Time as the test says; `timers` are (due in ns, actor, message)."""

    def __init__(self) -> None:
        self.time_ns = 10**12
        self.timers: list[tuple[int, Actor, object]] = []

    def now_ns(self) -> int:
        return self.time_ns

    def wall_ms(self) -> int:
        return self.time_ns // 10**6

    def call_after(self, delay_ms: int, actor: Actor, message: object) -> None:
        self.timers.append((self.time_ns + delay_ms * 10**6, actor, message))

    def advance(self, passed_ms: int) -> None:
        """Let time pass: what falls due meanwhile is posted in its order."""
        until_ns = self.time_ns + passed_ms * 10**6
        while due := [timer for timer in self.timers if timer[0] <= until_ns]:
            first = min(due, key=lambda timer: timer[0])
            self.timers.remove(first)
            self.time_ns, actor, message = first
            actor.post(message)
        self.time_ns = until_ns


class FakeDice(Dice):
    """No chance at all: tokens count upwards."""

    def __init__(self) -> None:
        self.tokens = 0

    def below(self, limit: int) -> int:
        return 0

    def token(self, size: int) -> bytes:
        self.tokens += 1
        return self.tokens.to_bytes(size)


class FakeDisk(Disk):
    """Files in a dict. Jobs are done when the test says so, in the order in which they came."""

    files: DictFiles

    def __init__(self) -> None:
        self.files = DictFiles()
        self.jobs: list[tuple[DiskJob, Actor]] = []

    def submit(self, job: DiskJob, actor: Actor, lane: int) -> None:
        self.jobs.append((job, actor))

    def finish(self) -> None:
        """The oldest job is done."""
        job, actor = self.jobs.pop(0)
        try:
            job.run(self.files)
        except DiskFailed as failure:
            job.failure = failure
        actor.post(job)

    def counters(self) -> dict[str, int]:
        return {}


class FakeNet(Net):
    """Sockets that take everything; `full` says what `write` answers."""

    def __init__(self) -> None:
        self.full = False
        self.unsent = 0
        self.written: list[bytes] = []
        self.closed: list[tuple[int, int]] = []
        self.paused: set[int] = set()
        self.resting: set[int] = set()

    def write(self, connection: int, data: bytes) -> bool:
        self.written.append(data)
        return not self.full

    def write_pieces(self, connection: int, pieces: list[bytes]) -> bool:
        for piece in pieces:
            self.write(connection, piece)
        return not self.full

    def unsent_bytes(self, connection: int) -> int:
        return self.unsent

    def pause_reading(self, connection: int) -> None:
        self.paused.add(connection)

    def resume_reading(self, connection: int) -> None:
        self.paused.discard(connection)

    def rest(self, connection: int) -> None:
        self.resting.add(connection)

    def close(self, connection: int, linger_ms: int = 0) -> None:
        self.closed.append((connection, linger_ms))


class FakeMemory(Memory):
    """Plenty."""

    def total_bytes(self) -> int:
        return 1 << 34

    def resident_bytes(self) -> int:
        return 1 << 26

    def trim(self) -> None:
        """Nothing is freed."""


class FakeWorld(World):
    """The five together, each with its own type."""

    clock: FakeClock
    dice: FakeDice
    disk: FakeDisk
    net: FakeNet

    def __init__(self) -> None:
        super().__init__(FakeClock(), FakeDice(), FakeDisk(), FakeNet(), FakeMemory())


def drain(actor: Actor) -> list[object]:
    """What was posted to an actor that the test stands in for."""
    messages = actor.inbox
    actor.inbox = []
    actor.scheduled = False
    return messages


def bystander(scheduler: Scheduler | None = None) -> Actor:
    """An actor that is only posted to."""
    return Actor(scheduler or Scheduler())
