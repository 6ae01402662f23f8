"""Memory and disk: when to raise an alarm, when to clear it, and who must know.

RabbitMQ raises and clears at the same figure; here an alarm clears only when there is room again
(memory: both figures below nine tenths of the limit), so a broker at its limit does not switch a
thousand publishers on and off. Bytes counted at admission react at once; the RSS is the backstop
for memory that is not counted. The disk has the same two: free space is checked periodically, and a
write refused for want of space is the backstop.
"""

from __future__ import annotations

from typing import Final, Literal

from sluicemq.errors import Refused
from sluicemq.kernel.actor import Actor
from sluicemq.limits import DISK_CLEAR_BYTES

MEMORY: Final = "memory"
DISK: Final = "disk"
STORAGE: Final = "storage_failed"
"""The alarms' sources; memory and disk as RabbitMQ names them. The last one is raised by whoever
met an error other than a full disk, and holds until the restart: nothing more is written."""

WAITING_PART: Final = 20
"""Bytes of unfinished messages do not raise the alarm while they are at most one part in so many of
the limit."""

Change = Literal["raised", "cleared"] | None
"""What a look at the figures led to: an alarm was raised or cleared, or nothing changed."""


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.1f} MiB"


class MemoryAlarm:
    """The memory alarm: raised when either figure reaches the limit, cleared when both are well
    below it. The figures may change at every call, and so may `limit_bytes`."""

    __slots__ = ("clear_ratio", "limit_bytes", "raised", "reason")

    def __init__(self, limit_bytes: int, clear_ratio: float = 0.9) -> None:
        if not 0 < clear_ratio <= 1:
            raise Refused(f"memory alarm: clear ratio {clear_ratio} is not in (0, 1]")
        self.limit_bytes = limit_bytes
        self.clear_ratio = clear_ratio
        self.raised = False
        self.reason = ""

    def update(self, accounted_bytes: int, resident_bytes: int, waiting_bytes: int = 0) -> Change:
        """Compare the two figures with the limit, and report a transition, if there is one.
        `waiting_bytes` are beginnings of messages that only their publishers can finish: they do
        not keep an alarm up, or nobody could ever go on; nor do they raise it, as long as they are
        few."""
        used_bytes = max(accounted_bytes, resident_bytes)
        few_bytes = min(waiting_bytes, self.limit_bytes // WAITING_PART)
        if not self.raised and used_bytes - few_bytes >= self.limit_bytes:
            self.raised = True
            self.reason = (
                f"low on memory (accounted {_mib(accounted_bytes)}, resident "
                f"{_mib(resident_bytes)}, limit {_mib(self.limit_bytes)})"
            )
            return "raised"
        left_bytes = max(0, used_bytes - waiting_bytes)
        if self.raised and left_bytes < self.clear_ratio * self.limit_bytes:
            self.raised = False
            self.reason = ""
            return "cleared"
        return None


class DiskAlarm:
    """The disk alarm: raised when less than the limit is free or writes are refused; cleared when
    they are not, and a tenth more than the limit (at most DISK_CLEAR_BYTES more) is free. Those who
    write set `full` while the system says that there is no space."""

    __slots__ = ("full", "limit_bytes", "raised", "reason")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.full = False
        self.raised = False
        self.reason = ""

    @property
    def clear_bytes(self) -> int:
        """Return how many bytes have to be free for the alarm to clear."""
        return self.limit_bytes + min((self.limit_bytes + 9) // 10, DISK_CLEAR_BYTES)

    def update(self, free_bytes: int) -> Change:
        """Compare the free bytes with the limit, and report a transition, if there is one."""
        if self.full or free_bytes < self.limit_bytes:
            if self.raised:
                return None
            self.raised = True
            full = "writes are refused, " if self.full else ""
            self.reason = (
                f"low on disk ({full}free {_mib(free_bytes)}, limit {_mib(self.limit_bytes)})"
            )
            return "raised"
        if self.raised and free_bytes >= self.clear_bytes:
            self.raised = False
            self.reason = ""
            return "cleared"
        return None


class AlarmsChanged:
    """Posted to all registered actors. `reason` names every alarm that is raised; "" means none is
    left."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class AlarmBoard:
    """The alarms of the node, by source, and the actors that are told of every change. In a cluster
    the alarms of other nodes hold, too."""

    __slots__ = ("elsewhere", "listeners", "reasons")

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self.elsewhere: dict[int, dict[str, str]] = {}
        """The alarms of other nodes that stop the publishers of this one, by node and source."""
        self.listeners: dict[Actor, None] = {}

    @property
    def reason(self) -> str:
        """Return the reasons of all alarms as RabbitMQ joins them: "low on memory (...) & low on
        disk (...)"."""
        reasons = [*self.reasons.values()]
        for node, of_node in self.elsewhere.items():
            reasons += (f"{reason} on node {node}" for reason in of_node.values())
        return " & ".join(reasons)

    def register(self, listener: Actor) -> str:
        """Tell `listener` of changes from now on; return the reason that holds already."""
        self.listeners[listener] = None
        return self.reason

    def unregister(self, listener: Actor) -> None:
        self.listeners.pop(listener, None)

    def raise_alarm(self, source: str, reason: str) -> None:
        """Raise an alarm; does nothing when it is already raised."""
        if source not in self.reasons:
            self.reasons[source] = reason
            self._notify()

    def clear_alarm(self, source: str) -> None:
        if self.reasons.pop(source, None) is not None:
            self._notify()

    def of_node(self, node: int, reasons: dict[str, str]) -> None:
        """Replace the alarms of another node by these."""
        before = self.elsewhere.pop(node, {})
        if reasons:
            self.elsewhere[node] = reasons
        if reasons != before:
            self._notify()

    def _notify(self) -> None:
        changed = AlarmsChanged(self.reason)
        for listener in self.listeners:
            listener.post(changed)
