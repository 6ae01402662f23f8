"""Goal: alarms are raised and cleared in time, and queues are told what they may keep in RAM, soon
in a flood and not more often than it is worth.

Method: the monitor alone, with a broker, queues, a disk and a memory whose figures the test sets,
and a clock whose timers it fires.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from sluicemq.amqp.room import RoomStock
from sluicemq.broker.monitor import LookAtDisk, Monitor
from sluicemq.broker.retargeting import LOOKED_AT_MAX, TOLD_MAX
from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.queue import SetTarget
from sluicemq.config import MIB, Config, MemoryConfig, StorageConfig
from sluicemq.errors import DiskFailed
from sluicemq.flow.alarm import DISK, MEMORY, STORAGE, AlarmBoard
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.kernel.disk import Files
from sluicemq.kernel.world import Log, Memory
from sluicemq.limits import DISK_WRITE_BYTES
from sluicemq.queues.classic.memory_target import Rates, target_count
from sluicemq.queues.stream.cache import ChunkCache
from support.fakes import FakeClock

if TYPE_CHECKING:
    from sluicemq.broker.broker import Broker
    from sluicemq.chain.connection.reader import Reader

MS = 1_000_000
LIMIT = 100 * MIB
DISK_LIMIT = 50 * MIB
KIB_MESSAGE = 1120


class Gauge(Memory):
    """RSS as the test says; a trim takes away what no message accounts for."""

    def __init__(self) -> None:
        self.resident = 0
        self.trims = 0

    def total_bytes(self) -> int:
        return 1000 * MIB

    def resident_bytes(self) -> int:
        return self.resident

    def trim(self) -> None:
        self.trims += 1


class Volume(Files):
    """How much is free; None: the system does not say."""

    def __init__(self) -> None:
        self.free: int | None = 10_000 * MIB

    def free_bytes(self) -> int:
        if self.free is None:
            raise DiskFailed("look at", "", "EIO")
        return self.free


class Lines(Log):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, level: str, text: str) -> None:
        self.lines.append(f"{level}: {text}")


class FakeDisk:
    def __init__(self) -> None:
        self.files = Volume()


class FakeWorld:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.memory = Gauge()
        self.disk = FakeDisk()
        self.log = Lines()


class FakeDepth:
    def __init__(self, messages: int) -> None:
        self.ram_messages = messages
        self.ram_unacked = 0
        self.footprint = messages * KIB_MESSAGE


class FakeChunk:
    def __init__(self, messages: int) -> None:
        self.messages = messages
        self.bodies = True

    def left(self) -> int:
        return self.messages


class FakeBacking:
    def __init__(self) -> None:
        self.outgoing: list[FakeChunk] = []
        self.in_flight: list[FakeChunk] = []

    def leaving(self) -> list[FakeChunk]:
        return [*self.outgoing, *self.in_flight]


class FakeMachine:
    def __init__(self, messages: int) -> None:
        self.rates = Rates()
        self.depth = FakeDepth(messages)
        self.backing = FakeBacking()
        self.ram_acks = 0
        self.deleted = False


class FakeQueue(ClassicShell):
    """Only posted to."""

    def __init__(self, messages: int) -> None:
        Actor.__init__(self, Scheduler())
        self.machine = FakeMachine(messages)  # type: ignore[assignment]

    def told(self) -> list[float]:
        """The durations since the last question."""
        durations = [m.duration_s for m in self.inbox if isinstance(m, SetTarget)]
        assert len(durations) == len(self.inbox)
        self.inbox.clear()
        return durations


class FakeStore:
    """Nothing is on its way to its files."""

    paged_bytes = 0
    paging_bytes = 0


class FakeBroker:
    def __init__(self) -> None:
        self.world = FakeWorld()
        self.scheduler = Scheduler()
        self.alarms = AlarmBoard()
        self.queues: dict[str, FakeQueue] = {}
        self.store = FakeStore()
        self.budget = None
        self.pacer = None
        self.connections: dict[int, Reader] = {}
        self.accounted_bytes = 0
        self.memory_pressure = 0.0
        self.stream_cache = ChunkCache(LIMIT, self.memory_used)
        self.rooms = RoomStock()

    def memory_used(self, change: int) -> None:
        self.accounted_bytes += change

    def all_with_messages(self) -> list[FakeQueue]:
        return [*self.queues.values()]

    @property
    def queue_count(self) -> int:
        return len(self.queues)


class Bench:
    """A monitor and everything it looks at."""

    def __init__(self, limit: int = LIMIT, disk_limit: int = DISK_LIMIT) -> None:
        self.broker = FakeBroker()
        config = replace(
            Config(),
            memory=MemoryConfig(vm_memory_high_watermark_absolute=limit),
            storage=StorageConfig(disk_free_limit_absolute=disk_limit),
        )
        self.monitor = Monitor(cast("Broker", self.broker), config)
        self.settle()

    def settle(self) -> None:
        while self.broker.scheduler.run(100):
            continue

    def add_queue(self, name: str, messages: int) -> FakeQueue:
        queue = self.broker.queues[name] = FakeQueue(messages)
        self.broker.accounted_bytes += queue.machine.depth.footprint
        return queue

    def wait(self, milliseconds: int) -> None:
        """Let time pass, and the timers that are due in it fire in order."""
        clock = self.broker.world.clock
        until = clock.time_ns + milliseconds * MS
        while clock.timers and min(due for due, _, _ in clock.timers) <= until:
            first = min(clock.timers, key=lambda timer: timer[0])
            clock.timers.remove(first)
            clock.time_ns, actor, message = first
            actor.post(message)
            self.settle()
        clock.time_ns = until

    def grow(self, queue: FakeQueue, messages: int) -> None:
        """More messages, and the look that the broker takes at such a step."""
        machine = queue.machine
        machine.rates.published += messages
        machine.depth.ram_messages += messages
        machine.depth.footprint += messages * KIB_MESSAGE
        self.broker.accounted_bytes += messages * KIB_MESSAGE
        self.monitor.look()
        self.settle()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_memory_alarm_is_raised_at_once_and_cleared_at_a_look(bench: Bench) -> None:
    broker = bench.broker
    broker.accounted_bytes = LIMIT
    bench.monitor.look()
    assert list(broker.alarms.reasons) == [MEMORY]
    assert broker.memory_pressure == 1.0
    broker.accounted_bytes = LIMIT // 4
    bench.wait(1000)
    assert broker.alarms.reasons == {}
    assert broker.memory_pressure == 0.25
    assert broker.world.log.lines == [
        "warning: memory alarm raised, publishers are blocked: low on memory"
        " (accounted 100.0 MiB, resident 0.0 MiB, limit 100.0 MiB)",
        "info: memory alarm cleared",
    ]


def test_resident_memory_raises_the_alarm_too(bench: Bench) -> None:
    bench.broker.world.memory.resident = LIMIT
    bench.wait(1000)
    assert list(bench.broker.alarms.reasons) == [MEMORY]


def test_no_alarm_stays_for_the_sake_of_chunks_that_streams_keep(bench: Bench) -> None:
    broker = bench.broker
    chunk = cast(Any, SimpleNamespace(size=LIMIT - 1, holders=0, first=0))
    broker.stream_cache.put(1, chunk)
    broker.accounted_bytes += 1
    bench.monitor.look()
    assert list(broker.alarms.reasons) == [MEMORY]
    bench.wait(1000)
    assert broker.alarms.reasons == {}
    assert broker.accounted_bytes == 1
    assert (broker.stream_cache.bytes, broker.stream_cache.chunks) == (0, {})


def test_a_limit_of_zero_is_infinite_pressure() -> None:
    bench = Bench(limit=0)
    assert bench.broker.memory_pressure == math.inf
    assert list(bench.broker.alarms.reasons) == [MEMORY]


def test_disk_alarm_is_raised_with_its_figures_and_cleared_within_the_band(bench: Bench) -> None:
    broker = bench.broker
    disk = broker.world.disk.files
    disk.free = int(31.2 * MIB)
    bench.wait(10_000)
    assert broker.alarms.reasons == {DISK: "low on disk (free 31.2 MiB, limit 50.0 MiB)"}
    disk.free = 52 * MIB
    bench.wait(100)
    assert DISK in broker.alarms.reasons
    disk.free = 55 * MIB
    bench.wait(100)
    assert broker.alarms.reasons == {}
    assert [line.split(",")[0] for line in broker.world.log.lines] == [
        "warning: disk alarm raised",
        "info: disk alarm cleared",
    ]


def pauses(bench: Bench) -> list[int]:
    """Milliseconds until each look at the disk that is to come."""
    clock = bench.broker.world.clock
    wanted = [due for due, _, message in clock.timers if isinstance(message, LookAtDisk)]
    return [(due - clock.time_ns) // MS for due in wanted]


@pytest.mark.parametrize(
    ("spare_bytes", "pause_ms"),
    [
        (0, 100),
        (250_000 * 49, 100),
        (250_000 * 51, 102),
        (250_000 * 1000, 2000),
        (250_000 * 4999, 9998),
        (10**12, 10_000),
        (-1, 100),
    ],
)
def test_the_disk_is_looked_at_more_often_the_fuller_it_is(
    bench: Bench, spare_bytes: int, pause_ms: int
) -> None:
    bench.broker.world.disk.files.free = DISK_LIMIT + spare_bytes
    bench.monitor.look_at_disk()
    assert pauses(bench)[-1] == pause_ms


def test_the_disk_is_looked_at_after_a_write_too(bench: Bench) -> None:
    """A fast publisher does not wait for the next regular look; nor does the answer to it."""
    broker = bench.broker
    broker.world.disk.files.free = DISK_LIMIT + DISK_WRITE_BYTES
    bench.wait(1)
    looks = len(pauses(bench))
    bench.monitor.disk_written()
    assert broker.alarms.reasons == {}
    assert len(pauses(bench)) == looks, "a clock for each write"
    broker.world.disk.files.free = 0
    bench.monitor.disk_written()
    assert list(broker.alarms.reasons) == [DISK]
    broker.world.disk.files.free = None
    bench.monitor.disk_written()


def test_the_disk_is_not_looked_at_after_each_write_while_there_is_space(bench: Bench) -> None:
    """But before writes of the largest size could have filled it."""
    files = bench.broker.world.disk.files
    files.free = DISK_LIMIT + 3 * DISK_WRITE_BYTES
    bench.monitor.disk_written()
    files.free = 0
    bench.monitor.disk_written()
    bench.monitor.disk_written()
    assert bench.broker.alarms.reasons == {}
    bench.monitor.disk_written()
    assert list(bench.broker.alarms.reasons) == [DISK]


def test_refused_writes_raise_the_disk_alarm_and_there_is_one_clock_for_it(bench: Bench) -> None:
    broker = bench.broker
    bench.monitor.disk_full(True)
    bench.monitor.disk_full(True)
    assert list(broker.alarms.reasons) == [DISK]
    bench.wait(60_000)
    assert list(broker.alarms.reasons) == [DISK]
    assert len(pauses(bench)) == 1
    bench.monitor.disk_full(False)
    assert broker.alarms.reasons == {}
    bench.wait(60_000)
    assert len(pauses(bench)) == 1


def test_without_figures_only_refused_writes_count(bench: Bench) -> None:
    broker = bench.broker
    broker.world.disk.files.free = None
    bench.wait(60_000)
    assert broker.alarms.reasons == {}
    assert broker.world.log.lines == [
        "warning: cannot read the free space of the disk: look at : EIO"
    ]
    bench.monitor.disk_full(True)
    assert list(broker.alarms.reasons) == [DISK]
    bench.monitor.disk_full(False)
    assert broker.alarms.reasons == {}


def test_a_disk_limit_of_zero_never_alarms() -> None:
    bench = Bench(disk_limit=0)
    bench.broker.world.disk.files.free = 0
    bench.wait(60_000)
    assert bench.broker.alarms.reasons == {}


def test_below_the_goal_nobody_hears_anything(bench: Bench) -> None:
    queue = bench.add_queue("q", 10_000)
    bench.wait(60_000)
    assert queue.told() == []


def test_in_a_flood_a_queue_hears_soon_and_at_most_each_50_ms(bench: Bench) -> None:
    queue = bench.add_queue("q", 40_000)
    bench.wait(1)
    for _ in range(100):
        bench.grow(queue, 1000)
        bench.wait(1)
    durations = queue.told()
    assert 1 <= len(durations) <= 2
    kept = durations[-1] * queue.machine.rates.sum()
    assert kept * KIB_MESSAGE == pytest.approx(LIMIT / 2, rel=1e-6)


def test_what_is_on_its_way_to_the_disk_counts_as_gone(bench: Bench) -> None:
    """Or all the rest would be paged out too, just because the disk takes its time."""
    queue = bench.add_queue("q", 60_000)
    queue.machine.rates.published = 60_000
    bench.wait(2500)
    before = queue.told()[-1] * queue.machine.rates.sum()
    assert before * KIB_MESSAGE == pytest.approx(LIMIT / 2)
    queue.machine.depth.ram_messages = 50_000
    queue.machine.backing.outgoing = [FakeChunk(6_000)]
    queue.machine.backing.in_flight = [FakeChunk(4_000)]
    bench.wait(2500)
    after = queue.told()[-1] * queue.machine.rates.sum()
    assert after == pytest.approx(before, rel=1e-6)
    queue.machine.depth.ram_messages = 40_000
    queue.machine.backing.outgoing = [FakeChunk(16_000)]
    bench.wait(2500)
    assert queue.told() == [math.inf]


def test_what_cannot_be_paged_leaves_less_for_the_rest(bench: Bench) -> None:
    """Deliveries that wait for their acknowledgement and have no other place than RAM."""
    stuck, queue = bench.add_queue("stuck", 20_000), bench.add_queue("q", 60_000)
    stuck.machine.depth.ram_messages, stuck.machine.depth.ram_unacked = 0, 20_000
    queue.machine.rates.published = 60_000
    bench.wait(2500)
    assert stuck.told() == []
    kept = queue.told()[-1] * queue.machine.rates.sum()
    assert kept * KIB_MESSAGE == pytest.approx(LIMIT / 2 - 20_000 * KIB_MESSAGE, rel=1e-6)


def test_thousands_of_queues_make_it_look_less_often(bench: Bench) -> None:
    for number in range(2000):
        bench.add_queue(f"idle {number}", 0)
    queue = bench.add_queue("q", 50_000)
    bench.wait(1)
    for _ in range(100):
        bench.grow(queue, 100)
        bench.wait(1)
    assert queue.told() == []
    bench.wait(150)
    bench.grow(queue, 1000)
    assert len(queue.told()) == 1


def test_thousands_of_queues_are_looked_at_and_told_some_at_a_time() -> None:
    bench = Bench()
    queues = [bench.add_queue(f"{number}", 1000) for number in range(500)]
    scheduler = bench.broker.scheduler
    scheduler.turn_work = 50
    looked = told = most_looked = most_told = 0
    bench.monitor.retargeting.begin_soon()
    while scheduler.run(1):
        now = sum(queue.machine.rates.updated_ns is not None for queue in queues)
        looked, most_looked = now, max(most_looked, now - looked)
        now = sum(len(queue.inbox) for queue in queues)
        told, most_told = now, max(most_told, now - told)
    assert looked == told == len(queues)
    assert most_looked == LOOKED_AT_MAX
    assert most_told == TOLD_MAX
    assert {queue.inbox[0].duration_s for queue in queues} == {0}  # type: ignore[attr-defined]


def test_what_changes_while_queues_are_told_is_told_after_that() -> None:
    bench = Bench()
    queues = [bench.add_queue(f"{number}", 1000) for number in range(100)]
    bench.broker.scheduler.turn_work = 50
    bench.monitor.retargeting.begin_soon()
    while not queues[0].inbox:
        assert bench.broker.scheduler.run(1)
    queues[-1].machine.deleted = True
    del bench.broker.queues["99"]
    bench.monitor.disk_full(True)
    bench.settle()
    assert [queue.told() for queue in queues] == [[0, math.inf]] * 99 + [[]]
    assert bench.monitor.retargeting.bounded == {}


def test_the_bound_is_lifted_when_memory_is_below_the_goal_again(bench: Bench) -> None:
    queue, empty = bench.add_queue("q", 60_000), bench.add_queue("empty", 0)
    queue.machine.rates.published = 60_000
    bench.wait(2500)
    assert math.isfinite(queue.told()[-1])
    queue.machine.depth.ram_messages = 0
    bench.wait(2500)
    assert math.isfinite(queue.told()[-1]), "it has a bound, so it must hear how it changes"
    bench.broker.accounted_bytes = LIMIT // 4
    bench.wait(5000)
    assert queue.told() == [math.inf]
    assert empty.told() == []


def test_a_queue_that_is_gone_hears_nothing(bench: Bench) -> None:
    queue = bench.add_queue("q", 60_000)
    bench.wait(2500)
    assert queue.told()
    queue.machine.deleted = True
    del bench.broker.queues["q"]
    bench.wait(5000)
    assert queue.told() == []
    assert bench.monitor.retargeting.bounded == {}


def test_idle_queues_are_told_to_keep_nothing(bench: Bench) -> None:
    queue = bench.add_queue("q", 60_000)
    bench.wait(2500)
    assert queue.told() == [0]


def test_a_disk_alarm_lifts_the_bounds_at_once(bench: Bench) -> None:
    queue = bench.add_queue("q", 60_000)
    bench.wait(2500)
    assert queue.told() == [0]
    bench.monitor.disk_full(True)
    bench.settle()
    assert queue.told() == [math.inf]
    bench.wait(2500)
    assert queue.told() == []
    bench.monitor.disk_full(False)
    bench.settle()
    assert queue.told() == [0]


def test_nothing_is_paged_when_the_storage_has_failed(bench: Bench) -> None:
    bench.broker.alarms.raise_alarm(STORAGE, "the storage has failed")
    queue = bench.add_queue("q", 60_000)
    bench.wait(10_000)
    assert queue.told() == []


def test_after_a_flood_memory_is_given_back_within_ten_seconds(bench: Bench) -> None:
    memory = bench.broker.world.memory
    bench.broker.accounted_bytes = memory.resident = 80 * MIB
    bench.wait(20_000)
    assert memory.trims == 0
    bench.broker.accounted_bytes = 50 * MIB
    bench.wait(4_000)
    assert memory.trims == 1
    bench.wait(20_000)
    assert memory.trims == 1, "nothing more has fallen"


def test_memory_nobody_accounts_for_is_given_back_now_and_then() -> None:
    bench = Bench(limit=1000 * MIB)
    memory = bench.broker.world.memory
    memory.resident = 200 * MIB
    bench.wait(30_000)
    assert memory.trims == 3


def test_near_the_limit_memory_is_given_back_before_there_is_an_alarm(bench: Bench) -> None:
    memory = bench.broker.world.memory
    memory.resident = 95 * MIB
    bench.wait(6_000)
    assert memory.trims == 2
    assert bench.broker.alarms.reasons == {}


def test_a_flood_that_is_paged_out_stays_at_the_goal(
    bench: Bench,
) -> None:
    """The loop closed: a queue that pages out what it is told to, at the speed of a disk; beside it
    one that is as fast and empty."""
    backlog, busy = bench.add_queue("backlog", 0), bench.add_queue("busy", 0)
    machine = backlog.machine
    target: int | None = None
    heights = []
    for _ in range(4000):
        bench.wait(1)
        for duration in backlog.told():
            target = target_count(duration, machine.rates.sum())
        busy.told()
        busy.machine.rates.published += 40
        busy.machine.rates.delivered += 40
        bench.grow(backlog, 40)
        excess = machine.depth.ram_messages - target if target is not None else 0
        if excess > 1000:
            machine.depth.ram_messages -= excess
            machine.backing.outgoing.append(FakeChunk(excess))
        for chunk in machine.backing.outgoing[:1]:
            written = min(chunk.messages, 80)
            chunk.messages -= written
            machine.depth.footprint -= written * KIB_MESSAGE
            bench.broker.accounted_bytes -= written * KIB_MESSAGE
            if not chunk.messages:
                machine.backing.outgoing.remove(chunk)
        heights.append(bench.broker.accounted_bytes)
    assert max(heights) < LIMIT / 2 + 5 * MIB
    assert min(heights[2000:]) > LIMIT / 2 - 5 * MIB
