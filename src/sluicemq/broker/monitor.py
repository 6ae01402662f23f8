"""The monitor: checks memory and the disk, raises and clears the alarms, and has queues told how
much they may keep in RAM (`broker/retargeting.py`).

It checks at regular intervals, and at once when the accounted bytes have changed by a step: a flood
must not run for a whole interval.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sluicemq.broker.retargeting import Retargeting
from sluicemq.chain.connection.unfinished import Unfinished, close_holders
from sluicemq.errors import DiskFailed
from sluicemq.flow.alarm import DISK, MEMORY, DiskAlarm, MemoryAlarm
from sluicemq.kernel.actor import Actor
from sluicemq.limits import (
    DISK_FILL_BYTES_MS,
    DISK_LOOK_MAX_MS,
    DISK_LOOK_MIN_MS,
    DISK_WRITE_BYTES,
    DISK_WRITES_MAX,
    TRIM_ABOVE_BYTES,
    TRIM_FALL_BYTES,
    TRIM_FALL_LOOKS,
    TRIM_LOOKS,
)

if TYPE_CHECKING:
    from sluicemq.broker.broker import Broker
    from sluicemq.config import Config
    from sluicemq.flow.alarm import Change


class MonitorDue:
    """Tells the monitor to check memory and unfinished messages."""

    __slots__ = ()


class LookAtDisk:
    """Tells the monitor to check the disk. Only the last one that was sent counts."""

    __slots__ = ()


class Monitor(Actor):
    """Watches memory and disk of one node, at regular intervals and at once in a flood, and raises
    and clears the alarms."""

    def __init__(self, broker: Broker, config: Config) -> None:
        super().__init__(broker.scheduler)
        self.broker = broker
        self.clock = broker.world.clock
        self.memory = broker.world.memory
        self.config = config.memory
        system_total = self.memory.total_bytes()
        limit = self.config.limit_bytes(system_total)
        total = self.config.total_memory_available_override_value or system_total
        self.total_bytes = total
        """The bytes of memory that this process may use."""
        self.alarm = MemoryAlarm(limit, self.config.clear_ratio)
        self.disk_alarm = DiskAlarm(config.storage.disk_free_limit_bytes(total))
        self.resident_bytes = self.memory.resident_bytes()
        self.accounted_then = 0
        """The accounted bytes at the moment at which `resident_bytes` was read."""
        self.unfinished = Unfinished()
        self.free_bytes = 0
        self.free_known = True
        self.peak_bytes = 0
        self.looks = 0
        self.trimmed_at = 0
        self.disk_look = LookAtDisk()
        self.writes_left = 0
        """Writes until the disk is looked at, beside the regular looks."""
        self.retargeting = Retargeting(broker, self.config, self.alarm)
        self.post(MonitorDue())
        self.post(self.disk_look)

    def receive(self, message: object) -> None:
        if isinstance(message, MonitorDue):
            self.look_at_memory()
            self.looks += 1
            if self.alarm.raised:
                self.broker.stream_cache.clear()  # the cache must not keep an alarm up
                self.broker.rooms.clear()
            self.broker.rooms.settle()
            self.trim()
            self.look_at_unfinished()
            self.compare()
            if self.broker.budget is not None:
                self.broker.budget.tick(self.clock.now_ns())
            if self.broker.pacer is not None:
                self.broker.pacer.look(self.clock.now_ns())
            self.clock.call_after(self.config.check_interval_ms, self, MonitorDue())
        elif message is self.disk_look:
            self.look_at_disk()
        else:
            assert isinstance(message, LookAtDisk)  # a newer one has replaced it

    # what the operator sets at run time

    def set_limit(self, limit_bytes: int) -> None:
        """Set another memory limit, in bytes. It applies at once, and queues are soon told how much
        they may keep in RAM."""
        self.alarm.limit_bytes = limit_bytes
        self.compare()
        self.retargeting.begin_soon()

    def set_disk_limit(self, limit_bytes: int) -> None:
        """Set how many bytes must be free on the disk, and check at once whether they are."""
        self.disk_alarm.limit_bytes = limit_bytes
        self.look_at_disk()

    # memory

    def look(self) -> None:
        """Compare at once, because the accounted bytes have changed by a step; when they are above
        the goal for paging, have queues told soon how much they may keep in RAM."""
        grown = self.broker.accounted_bytes - self.accounted_then
        if grown > 0 and not self.alarm.raised:
            near = self.config.clear_ratio * self.alarm.limit_bytes
            if self.resident_bytes + grown >= near:
                self.look_at_memory()
        self.compare()
        goal = self.config.vm_memory_high_watermark_paging_ratio * self.alarm.limit_bytes
        if self.broker.accounted_bytes >= goal:
            self.retargeting.flooded()

    def look_at_memory(self) -> None:
        """Read from the system how many bytes of RAM the process has (its RSS), and keep the
        accounted bytes of that moment."""
        self.resident_bytes = self.memory.resident_bytes()
        self.accounted_then = self.broker.accounted_bytes

    def look_at_unfinished(self) -> None:
        """Close the connections that hold the most bytes of unfinished messages, when there are so
        many that they would keep the memory alarm up."""
        unfinished = self.unfinished
        now_ns = self.clock.now_ns()
        limit = self.alarm.limit_bytes
        holders = unfinished.look(self.broker.connections.values(), self.alarm.raised, now_ns)
        used = max(self.broker.accounted_bytes, self.resident_bytes)
        excess = unfinished.too_much(used, limit, now_ns)
        if excess:
            text = f"connections hold {unfinished.bytes} bytes of unfinished messages"
            self.broker.world.log.write("warning", f"{text}; closing those that hold most")
            close_holders(holders, excess)

    def compare(self) -> None:
        """Compare accounted and resident bytes with the memory limit, and raise or clear the memory
        alarm."""
        accounted = self.broker.accounted_bytes
        limit = self.alarm.limit_bytes
        used = max(accounted, self.resident_bytes)
        self.broker.memory_pressure = used / limit if limit else math.inf
        self.peak_bytes = max(self.peak_bytes, accounted)
        waiting = self.unfinished.forgiven_bytes
        self.tell(MEMORY, self.alarm, self.alarm.update(accounted, self.resident_bytes, waiting))

    def trim(self) -> None:
        """Give freed memory back to the system when there is much of it: paging must make the
        process smaller, and unused memory must not keep an alarm up."""
        accounted = self.broker.accounted_bytes
        since = self.looks - self.trimmed_at
        idle = self.resident_bytes - accounted
        fallen = self.peak_bytes - accounted
        much = fallen > max(TRIM_FALL_BYTES, self.peak_bytes // 8)
        near = self.resident_bytes >= self.config.clear_ratio * self.alarm.limit_bytes
        if (
            self.alarm.raised
            or (since >= TRIM_FALL_LOOKS and (much or near))
            or (since >= TRIM_LOOKS and idle > TRIM_ABOVE_BYTES)
        ):
            self.memory.trim()
            self.look_at_memory()
            self.trimmed_at = self.looks
            self.peak_bytes = accounted

    # disk

    def disk_full(self, is_full: bool) -> None:
        """Note that a write has found no space on the disk, or has found some again, and check the
        disk if that is new."""
        if self.disk_alarm.full != is_full:
            self.disk_alarm.full = is_full
            self.look_at_disk()

    def disk_written(self) -> None:
        """Check the disk if writes may have left less space than must be free: a fast publisher
        must not fill a small disk between two regular checks."""
        self.writes_left -= 1
        if self.writes_left > 0 or self.disk_alarm.raised or not self.free_known:
            return  # there is space, or it is checked often enough
        try:
            free_bytes = self.broker.world.disk.files.free_bytes()
        except DiskFailed:
            return  # the next regular check tells
        spare_bytes = free_bytes - self.disk_alarm.limit_bytes
        if spare_bytes < 0:
            self.look_at_disk()
        self.writes_left = min(spare_bytes // DISK_WRITE_BYTES, DISK_WRITES_MAX)

    def look_at_disk(self) -> None:
        """Compare the free space of the disk with the limit, raise or clear the disk alarm, and
        come back when it is time for the next look.

        When the system does not say what is free, only writes that are refused raise the alarm."""
        alarm = self.disk_alarm
        try:
            self.free_bytes = self.broker.world.disk.files.free_bytes()
            self.free_known = True
        except DiskFailed as failure:
            if self.free_known:
                text = f"cannot read the free space of the disk: {failure}"
                self.broker.world.log.write("warning", text)
            self.free_bytes = 0 if alarm.full else alarm.clear_bytes
            self.free_known = False
        self.tell(DISK, alarm, alarm.update(self.free_bytes))
        self.disk_look = LookAtDisk()
        self.clock.call_after(self.disk_pause_ms(), self, self.disk_look)

    def disk_pause_ms(self) -> int:
        """Return the milliseconds until the next check of the disk: by RabbitMQ's rule, but a short
        time while the alarm is raised."""
        if self.disk_alarm.raised:
            return DISK_LOOK_MIN_MS
        if not self.free_known:
            return DISK_LOOK_MAX_MS
        spare_bytes = self.free_bytes - self.disk_alarm.limit_bytes
        return min(max(2 * spare_bytes // DISK_FILL_BYTES_MS, DISK_LOOK_MIN_MS), DISK_LOOK_MAX_MS)

    def tell(self, source: str, alarm: MemoryAlarm | DiskAlarm, change: Change) -> None:
        """Log a change of an alarm and pass it on to everybody it blocks; None is no change. After
        one of the disk's, find out again how much queues may keep in RAM, because paging needs the
        disk."""
        broker = self.broker
        if change == "raised":
            text = f"{source} alarm raised, publishers are blocked: {alarm.reason}"
            broker.world.log.write("warning", text)
            broker.alarms.raise_alarm(source, alarm.reason)
        elif change == "cleared":
            broker.world.log.write("info", f"{source} alarm cleared")
            broker.alarms.clear_alarm(source)
        if change is not None and source == DISK:
            self.retargeting.begin_soon()
