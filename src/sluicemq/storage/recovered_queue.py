"""A queue as a start has found it, before there is an actor for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.storage.positions import Mark, priority_at

if TYPE_CHECKING:
    from sluicemq.storage.entries import Run
    from sluicemq.storage.queue_index import QueueIndex


class RecoveredQueue:
    """A queue as it was left."""

    def __init__(self, index: QueueIndex) -> None:
        self.index = index
        self.next_position = 0
        self.delivered = 0
        self.higher: dict[int, Mark] = {}
        """Of each priority above 0 that has had messages."""
        self.size = 0
        self.expiring = False
        """Some of its messages may expire."""
        self.runs: list[Run] = []
        """Of the journal; some of their messages may be acknowledged or in segments."""
        self.gone: list[int] = []
        """Segments of the checkpoint whose files are not there, or are others."""
        self.alive: dict[int, int] = {}
        """Bits, by segment: published in the journal and not acknowledged there."""

    def given(self, position: int) -> None:
        """This one is not for a new message."""
        priority = priority_at(position)
        if not priority:
            self.next_position = max(self.next_position, position + 1)
            return
        mark = self.higher.get(priority, Mark(0, 0, 0))
        self.higher[priority] = mark._replace(next=max(mark.next, position + 1))

    def all_delivered(self) -> None:
        """For all that is known."""
        self.delivered = self.next_position
        for priority, mark in self.higher.items():
            self.higher[priority] = mark._replace(delivered=mark.next)

    def weigh(self, run: Run) -> None:
        """Its bytes count."""
        size = sum(run.sizes)
        self.size += size
        mark = self.higher.get(priority_at(run.first))
        if mark is not None:
            self.higher[mark.priority] = mark._replace(size=mark.size + size)

    def unweigh(self, run: Run) -> None:
        """They count no more."""
        size = sum(run.sizes)
        self.size = max(0, self.size - size)
        mark = self.higher.get(priority_at(run.first))
        if mark is not None:
            self.higher[mark.priority] = mark._replace(size=max(0, mark.size - size))

    def marks(self) -> list[Mark]:
        """That of priority 0 first."""
        higher = [*self.higher.values()]
        rest = max(0, self.size - sum(mark.size for mark in higher))
        return [Mark(self.next_position, self.delivered, rest), *higher]
