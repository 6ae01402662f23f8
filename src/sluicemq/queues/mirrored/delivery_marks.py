"""How far a master may deliver, so that what it has delivered comes again flagged whoever is master
next: not beyond the mark that is agreed on, which it moves ahead of what it delivers."""

from __future__ import annotations

from collections.abc import Iterable

from sluicemq.queues.mirrored.commands import MarkDelivered
from sluicemq.queues.mirrored.mirror_state import MirrorState
from sluicemq.storage.positions import first_of_priority, priority_at


class DeliveryMarks:
    """The marks of one master, whose own mirror has those that are agreed on. They go `ahead`
    positions beyond what is delivered."""

    def __init__(self, mirror: MirrorState, ahead: int) -> None:
        self.mirror = mirror
        self.ahead = ahead
        self.asked: dict[int, int] = {}
        """For each row, the mark that was asked for last."""
        self.due: dict[int, int] = {}
        """Those that are in no entry yet."""

    def cover(self, delivered: Iterable[int]) -> bool:
        """Tell whether a master may have delivered what is below these positions, each in its row;
        and see to it that what is behind it may be delivered soon."""
        is_covered = True
        for position in delivered:
            agreed = self.mirror.delivered(position)
            row = priority_at(position)
            asked = max(agreed, self.asked.get(row, 0))
            if position > first_of_priority(row) and position + self.ahead // 2 >= asked:
                self.asked[row] = self.due[row] = position + self.ahead
            is_covered = is_covered and position <= agreed
        return is_covered

    def take_due(self) -> list[MarkDelivered]:
        """Return the marks that have to be agreed on; asked again, only others."""
        due, self.due = self.due, {}
        return [MarkDelivered(position) for position in due.values()]
