"""The marks up to which a master may deliver, so that any next master redelivers these messages
with the flag set: a master delivers up to the committed mark, and moves it ahead of its deliveries.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluicemq.queues.mirrored.commands import MarkDelivered
from sluicemq.queues.mirrored.mirror_state import MirrorState
from sluicemq.storage.positions import first_of_priority, priority_at


class DeliveryMarks:
    """The marks of one master, whose own mirror has the committed ones. They go `ahead` positions
    beyond deliveries."""

    def __init__(self, mirror: MirrorState, ahead: int) -> None:
        self.mirror = mirror
        self.ahead = ahead
        self.asked: dict[int, int] = {}
        """For each row, the mark that was last requested."""
        self.due: dict[int, int] = {}
        """Requested marks that are in no entry yet."""

    def cover(self, delivered: Iterable[int]) -> bool:
        """Tell whether a master may deliver up to these positions, each in its row; and request
        marks ahead of them."""
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
        """Take the marks that have to be committed; each is returned once."""
        due, self.due = self.due, {}
        return [MarkDelivered(position) for position in due.values()]
