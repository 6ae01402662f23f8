"""Checks that a single register could have had a history of reads and writes.

Every write has a value of its own, so the reads of a value belong to its write, and a history can
be judged by these clusters alone, without a search (Gibbons and Korach, "Testing Shared Memories").
A cluster's zone lies between the earliest end and the latest start in it. If the end comes first,
the value was there for the whole zone (forward); else one moment in the zone is enough (backward).
The history is linearizable if no two forward zones overlap and none has a backward one inside it.
"""

from __future__ import annotations

from math import inf

from sluicemq.sim.raft.promise import rule


class Cluster:
    """A value: its write, and the reads that returned it. Its zone is from `low` to `high`."""

    __slots__ = (
        "earliest_end",
        "high",
        "is_forward",
        "is_seen",
        "latest_start",
        "low",
        "value",
        "written_from",
    )

    def __init__(self, value: int, start: float) -> None:
        self.value = value
        self.written_from = start
        self.earliest_end = inf
        self.latest_start = start
        self.is_seen = False
        """Its write was answered, or a client has read it: so it has happened."""
        self.low = start
        self.high = inf
        self.is_forward = False
        """One of its operations ended before another began."""

    def answered(self, start: float, end: float) -> None:
        """Note an operation that began and ended at these times."""
        self.earliest_end = end = min(self.earliest_end, end)
        self.latest_start = start = max(self.latest_start, start)
        self.is_forward = end < start
        self.low, self.high = (end, start) if end < start else (start, end)

    def is_apart(self, other: Cluster) -> bool:
        """Tell whether one register may have had both values."""
        if not (self.low < other.high and other.low < self.high):
            return True
        if self.is_forward and other.is_forward:
            return False
        if self.is_forward:
            return not (self.low < other.low and other.high < self.high)
        return not (other.is_forward and other.low < self.low and self.high < other.high)


class RegisterHistory:
    """The history of one register, checked with each answer. It begins with an initial value."""

    def __init__(self, value: int) -> None:
        first = Cluster(value, -inf)
        first.answered(-inf, -inf)
        first.is_seen = True
        self.clusters = {value: first}
        self.seen = [first]
        """The clusters that have happened."""
        self.answers = 0

    def write_begins(self, value: int, start: float) -> None:
        """Note that a client begins to write a new value."""
        assert value not in self.clusters
        self.clusters[value] = Cluster(value, start)

    def write_ends(self, value: int, end: float) -> None:
        """Note that the write of that value was answered."""
        self._answered(self.clusters[value], self.clusters[value].written_from, end)

    def read_ends(self, value: int, start: float, end: float) -> None:
        """Note that a read which began at `start` was answered."""
        cluster = self.clusters.get(value)
        rule(cluster is not None, f"{value} was read, and nobody has written it")
        assert cluster is not None
        rule(end >= cluster.written_from, f"{value} was read before it was written")
        self._answered(cluster, start, end)

    def _answered(self, cluster: Cluster, start: float, end: float) -> None:
        self.answers += 1
        if not cluster.is_seen:
            cluster.is_seen = True
            self.seen.append(cluster)
        cluster.answered(start, end)
        low, high = cluster.low, cluster.high
        # Most clusters are too old to overlap.
        for other in [each for each in self.seen if low < each.high and each.low < high]:
            rule(
                other is cluster or cluster.is_apart(other),
                f"not linearizable: {cluster.value} and {other.value} were there at one time",
            )
