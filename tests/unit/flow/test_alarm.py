"""Goal: an alarm has a band between raise and clear, and each change is told once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Refused
from sluicemq.flow.alarm import DISK, MEMORY, AlarmBoard, AlarmsChanged, DiskAlarm, MemoryAlarm
from sluicemq.kernel.actor import Actor, Scheduler

MIB = 2**20


@pytest.mark.parametrize(
    ("accounted", "resident", "change"),
    [(99, 99, None), (100, 0, "raised"), (0, 100, "raised"), (200, 200, "raised")],
)
def test_alarm_raises_when_either_figure_reaches_the_limit(
    accounted: int, resident: int, change: str | None
) -> None:
    assert MemoryAlarm(100).update(accounted, resident) == change


def test_alarm_clears_only_when_both_figures_are_below_the_band() -> None:
    alarm = MemoryAlarm(100)
    assert alarm.update(100, 50) == "raised"
    for figures in [(100, 100), (99, 0), (90, 0), (0, 90), (89, 91)]:
        assert alarm.update(*figures) is None
        assert alarm.raised
    assert alarm.update(89, 89) == "cleared"
    assert alarm.update(99, 99) is None
    assert not alarm.raised


def test_reason_begins_as_rabbitmq_says_it_and_names_the_figures() -> None:
    alarm = MemoryAlarm(100 * MIB)
    assert alarm.reason == ""
    alarm.update(120 * MIB, 64 * MIB)
    assert alarm.reason == (
        "low on memory (accounted 120.0 MiB, resident 64.0 MiB, limit 100.0 MiB)"
    )
    alarm.update(1, 1)
    assert alarm.reason == ""


def test_limit_of_zero_blocks_publishers_for_ever() -> None:
    """RabbitMQ's way to block all publishers by hand."""
    alarm = MemoryAlarm(0)
    assert alarm.update(0, 0) == "raised"
    assert alarm.update(0, 0) is None


def test_limit_may_change_while_the_alarm_is_raised() -> None:
    alarm = MemoryAlarm(100)
    alarm.update(100, 0)
    alarm.limit_bytes = 200
    assert alarm.update(100, 0) == "cleared"


@pytest.mark.parametrize("ratio", [0, -0.1, 1.01])
def test_clear_ratio_outside_its_bounds_is_refused(ratio: float) -> None:
    with pytest.raises(Refused, match="clear ratio"):
        MemoryAlarm(100, ratio)


@given(st.lists(st.tuples(st.integers(0, 150), st.integers(0, 150))))
def test_alarm_follows_its_two_edges(figures: list[tuple[int, int]]) -> None:
    alarm = MemoryAlarm(100, clear_ratio=0.75)
    raised = False
    for accounted, resident in figures:
        change = alarm.update(accounted, resident)
        was = raised
        if max(accounted, resident) >= 100:
            raised = True
        elif max(accounted, resident) < 75:
            raised = False
        assert alarm.raised == raised == bool(alarm.reason)
        assert change == (None if was == raised else "raised" if raised else "cleared")


def test_disk_alarm_has_a_band_of_a_tenth() -> None:
    alarm = DiskAlarm(100)
    assert alarm.update(100) is None
    assert alarm.update(99) == "raised"
    for free in (0, 99, 100, 109):
        assert alarm.update(free) is None
        assert alarm.raised
    assert alarm.update(110) == "cleared"
    assert alarm.update(100) is None


def test_disk_alarm_clears_after_16_mib_when_a_tenth_is_more() -> None:
    alarm = DiskAlarm(1000 * MIB)
    assert alarm.clear_bytes == 1016 * MIB
    alarm.update(0)
    assert alarm.update(1016 * MIB - 1) is None
    assert alarm.update(1016 * MIB) == "cleared"


def test_disk_alarm_names_the_figures() -> None:
    alarm = DiskAlarm(50_000_000)
    alarm.update(int(31.2 * MIB))
    assert alarm.reason == "low on disk (free 31.2 MiB, limit 47.7 MiB)"
    alarm.update(500 * MIB)
    assert alarm.reason == ""


def test_refused_writes_raise_the_disk_alarm_whatever_is_free() -> None:
    """A quota, or a limit of 0: what is free says nothing."""
    alarm = DiskAlarm(0)
    assert alarm.update(0) is None
    alarm.full = True
    assert alarm.update(5 * MIB) == "raised"
    assert alarm.reason == "low on disk (writes are refused, free 5.0 MiB, limit 0.0 MiB)"
    assert alarm.update(500 * MIB) is None
    alarm.full = False
    assert alarm.update(0) == "cleared"


@given(st.integers(0, 10**9), st.lists(st.tuples(st.integers(0, 2 * 10**9), st.booleans())))
def test_disk_alarm_follows_its_two_edges(limit: int, looks: list[tuple[int, bool]]) -> None:
    alarm = DiskAlarm(limit)
    raised = False
    for free, full in looks:
        alarm.full = full
        change = alarm.update(free)
        was = raised
        if full or free < limit:
            raised = True
        elif free >= min(limit * 1.1, limit + 16 * MIB):
            raised = False
        assert alarm.raised == raised == bool(alarm.reason)
        assert change == (None if was == raised else "raised" if raised else "cleared")


def told(actor: Actor) -> list[str]:
    reasons = [message.reason for message in actor.inbox if isinstance(message, AlarmsChanged)]
    assert len(reasons) == len(actor.inbox)
    actor.inbox.clear()
    return reasons


def test_board_tells_each_change_once_and_joins_the_reasons() -> None:
    board = AlarmBoard()
    reader = Actor(Scheduler())
    assert board.register(reader) == ""
    board.raise_alarm(MEMORY, "low on memory (a)")
    board.raise_alarm(MEMORY, "low on memory (b)")
    board.raise_alarm(DISK, "low on disk")
    assert told(reader) == ["low on memory (a)", "low on memory (a) & low on disk"]
    board.clear_alarm(MEMORY)
    board.clear_alarm(MEMORY)
    assert told(reader) == ["low on disk"]
    board.clear_alarm(DISK)
    assert told(reader) == [""]


def test_board_answers_a_newcomer_with_what_holds_already() -> None:
    board = AlarmBoard()
    board.raise_alarm(MEMORY, "low on memory")
    reader = Actor(Scheduler())
    assert board.register(reader) == "low on memory"
    assert told(reader) == []
    board.unregister(reader)
    board.unregister(reader)
    board.clear_alarm(MEMORY)
    assert told(reader) == []


def test_board_tells_readers_in_the_order_in_which_they_came() -> None:
    """The order must not depend on hashes: a simulation is replayed by its seed."""
    scheduler = Scheduler()
    board = AlarmBoard()
    readers = [Actor(scheduler) for _ in range(50)]
    for reader in readers:
        board.register(reader)
    board.raise_alarm(MEMORY, "low on memory")
    assert list(scheduler.ready) == readers


def test_alarms_of_other_nodes_hold_beside_the_own() -> None:
    board = AlarmBoard()
    reader = Actor(Scheduler())
    board.register(reader)
    board.raise_alarm(DISK, "low on disk")
    board.of_node(3, {MEMORY: "low on memory"})
    board.of_node(3, {MEMORY: "low on memory"})
    board.of_node(2, {})
    assert board.reason == "low on disk & low on memory on node 3"
    board.clear_alarm(DISK)
    board.of_node(3, {})
    both = "low on disk & low on memory on node 3"
    assert told(reader) == ["low on disk", both, "low on memory on node 3", ""]
