"""Goal: people see where messages are and what the disk costs. Method: the figures of a queue, of a
monitor and of a disk as the test sets them.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from sluicemq.broker.monitor import Monitor
from sluicemq.flow.alarm import DiskAlarm
from sluicemq.manage import backing_view, storage_view
from sluicemq.model.batch import OVERHEAD_BYTES
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.classic.memory_target import Rates
from sluicemq.queues.machine import Depth

PERSISTENT, TRANSIENT, UNACKED = 60, 30, 10
SIZE = 1000


def half_paged_out() -> ClassicQueue:
    """A hundred messages: 10 at consumers, 90 waiting, of which 50 are on disk only, 5 of them not
    quite yet."""
    depth = Depth()
    depth.ready, depth.unacked, depth.persistent = 90, UNACKED, PERSISTENT
    depth.ready_bytes, depth.unacked_bytes = 90 * SIZE, UNACKED * SIZE
    depth.ram_messages, depth.ram_unacked = 40, UNACKED
    depth.footprint = (40 + UNACKED + 5) * (SIZE + OVERHEAD_BYTES)
    rates = Rates()
    rates.published_rate, rates.ack_out_rate = 12.34567, 1.0
    backing = SimpleNamespace(
        leaving=lambda: [
            SimpleNamespace(left=lambda: 3, bodies=True),
            SimpleNamespace(left=lambda: 2, bodies=True),
            SimpleNamespace(left=lambda: 7, bodies=False),
        ],
        delta=SimpleNamespace(count=50, persistent=20, bytes=50 * SIZE),
        info=lambda: {"mode": "default", "q1": 0, "len": 90},
    )
    return cast("ClassicQueue", SimpleNamespace(depth=depth, rates=rates, backing=backing))


def test_bytes_follow_from_where_the_messages_are() -> None:
    machine = half_paged_out()
    assert backing_view.all_bytes(machine.depth) == 100 * SIZE
    assert backing_view.persistent_bytes(machine.depth) == PERSISTENT * SIZE
    assert backing_view.ram_bytes(machine) == 55 * SIZE
    assert backing_view.paged_out(machine) == 30
    assert backing_view.paged_out_bytes(machine) == 30 * SIZE


def test_an_empty_queue_has_nothing_anywhere() -> None:
    depth = Depth()
    assert backing_view.all_bytes(depth) == backing_view.persistent_bytes(depth) == 0
    empty = SimpleNamespace(
        depth=depth,
        backing=SimpleNamespace(
            leaving=list, delta=SimpleNamespace(count=0, persistent=0, bytes=0)
        ),
    )
    machine = cast("ClassicQueue", empty)
    assert backing_view.ram_bytes(machine) == backing_view.paged_out_bytes(machine) == 0


def test_backing_queue_status_has_rabbitmqs_rates() -> None:
    assert backing_view.backing_queue_status(half_paged_out()) == {
        "mode": "default",
        "q1": 0,
        "len": 90,
        "avg_ingress_rate": 12.346,
        "avg_egress_rate": 0.0,
        "avg_ack_ingress_rate": 0.0,
        "avg_ack_egress_rate": 1.0,
    }


COUNTERS = {
    "io_write_count": 4,
    "io_write_bytes": 8192,
    "io_write_time": 1000,
    "io_sync_count": 3,
    "io_sync_time": 7000,
    "io_read_count": 0,
    "io_read_bytes": 0,
    "io_read_time": 0,
    "io_reopen_count": 1,
    "file_handles_open": 7,
    "file_handles_max": 256,
}


def test_io_shows_how_long_each_took() -> None:
    assert storage_view.io(COUNTERS) == {
        "io_write_count": 4,
        "io_write_bytes": 8192,
        "io_write_avg_ms": 0.25,
        "io_sync_count": 3,
        "io_sync_avg_ms": 2.333,
        "io_read_count": 0,
        "io_read_bytes": 0,
        "io_read_avg_ms": 0,
        "io_reopen_count": 1,
    }
    assert storage_view.file_handles(COUNTERS) == {"open": 7, "max": 256}
    assert storage_view.io({}) == storage_view.file_handles({}) == {}


def test_disk_shows_the_figures_of_the_alarm() -> None:
    looked = SimpleNamespace(free_bytes=10**10, free_known=True, disk_alarm=DiskAlarm(50_000_000))
    monitor = cast("Monitor", looked)
    assert storage_view.disk(monitor, "/srv/mq") == {
        "free_bytes": 10**10,
        "limit_bytes": 50_000_000,
        "data_dir": "/srv/mq",
    }
    looked.free_known = False
    unknown = storage_view.disk(monitor, None)
    assert (unknown["free_bytes"], unknown["data_dir"]) == ("unknown", "none")
