"""Memory: when to raise the alarm, when to clear it, and who must know.

RabbitMQ raises and clears at the same figure; here the alarm clears only when both figures are
below nine tenths of the limit, so a broker at its limit does not switch a thousand publishers
on and off. Bytes counted at admission react at once; the RSS is the backstop for what nobody
counted.
"""

from __future__ import annotations

from typing import Final, Literal

from sluicemq.errors import Refused
from sluicemq.kernel.actor import Actor

MEMORY: Final = "memory"
"""The alarm's source, as RabbitMQ names it."""


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.1f} MiB"


class MemoryAlarm:
    """Raised when either figure reaches the limit, cleared when both are well below it.

    The figures may change at every call, and so may `limit_bytes`.
    """

    __slots__ = ("clear_ratio", "limit_bytes", "raised", "reason")

    def __init__(self, limit_bytes: int, clear_ratio: float = 0.9) -> None:
        if not 0 < clear_ratio <= 1:
            raise Refused(f"memory alarm: clear ratio {clear_ratio} is not in (0, 1]")
        self.limit_bytes = limit_bytes
        self.clear_ratio = clear_ratio
        self.raised = False
        self.reason = ""

    def update(
        self, accounted_bytes: int, resident_bytes: int
    ) -> Literal["raised", "cleared"] | None:
        """Look at the two figures. Only a transition is reported."""
        used_bytes = max(accounted_bytes, resident_bytes)
        if used_bytes >= self.limit_bytes:
            if self.raised:
                return None
            self.raised = True
            self.reason = (
                f"low on memory (accounted {_mib(accounted_bytes)}, resident "
                f"{_mib(resident_bytes)}, limit {_mib(self.limit_bytes)})"
            )
            return "raised"
        if self.raised and used_bytes < self.clear_ratio * self.limit_bytes:
            self.raised = False
            self.reason = ""
            return "cleared"
        return None


class AlarmsChanged:
    """Posted to all who registered. `reason` names every alarm there is; "" means none is left."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class AlarmBoard:
    """The alarms of the node, by source, and the actors which hear of every change."""

    __slots__ = ("listeners", "reasons")

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self.listeners: dict[Actor, None] = {}

    @property
    def reason(self) -> str:
        """As RabbitMQ joins them: "low on memory (...) & low on disk (...)"."""
        return " & ".join(self.reasons.values())

    def register(self, listener: Actor) -> str:
        """Tell `listener` of changes from now on. What holds already is the answer."""
        self.listeners[listener] = None
        return self.reason

    def unregister(self, listener: Actor) -> None:
        self.listeners.pop(listener, None)

    def raise_alarm(self, source: str, reason: str) -> None:
        """An alarm that is raised already changes nothing."""
        if source not in self.reasons:
            self.reasons[source] = reason
            self._tell()

    def clear_alarm(self, source: str) -> None:
        if self.reasons.pop(source, None) is not None:
            self._tell()

    def _tell(self) -> None:
        changed = AlarmsChanged(self.reason)
        for listener in self.listeners:
            listener.post(changed)
