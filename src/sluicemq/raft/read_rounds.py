"""Reads: a leader answers a read only once it knows that it still led after the read came.

A read waits for a heartbeat that was sent after it, and for a majority's answers to that one. All
reads between two heartbeats share one. There is no lease, because ticks do not show how long a
process was stopped.
"""

from __future__ import annotations

from collections import deque

from sluicemq.raft.ready import Read


class ReadRounds:
    """The reads of one leader."""

    __slots__ = ("early", "waiting")

    def __init__(self) -> None:
        self.early: list[object] = []
        """Reads that came before an entry of the leader's own term was committed: until then it
        does not know the commit index."""
        self.waiting: deque[tuple[int, Read]] = deque()
        """The other reads, each with the round that has to be answered."""

    @property
    def are_waiting(self) -> bool:
        """Whether any read waits for an answer."""
        return bool(self.early or self.waiting)

    def add(self, context: object, commit: int, next_round: int) -> None:
        """Let a read of everything committed now wait for a round that has not begun."""
        self.waiting.append((next_round, Read(context, commit)))

    def confirmed(self, round_: int) -> list[Read]:
        """A majority has answered that round: return the reads that may be answered."""
        due: list[Read] = []
        while self.waiting and self.waiting[0][0] <= round_:
            due.append(self.waiting.popleft()[1])
        return due
