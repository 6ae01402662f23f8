"""Is a history of reads and writes one that a single register could have had?

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
    """A value: its write, and the reads that saw it."""

    __slots__ = ("earliest_end", "is_seen", "latest_start", "value", "written_from")

    def __init__(self, value: int, start: float) -> None:
        self.value = value
        self.written_from = start
        self.earliest_end = inf
        self.latest_start = start
        self.is_seen = False
        """Its write was answered, or somebody read it: then it has happened."""

    @property
    def is_forward(self) -> bool:
        """Whether an operation of it ended before another began."""
        return self.earliest_end < self.latest_start

    @property
    def zone(self) -> tuple[float, float]:
        """From the lower to the higher of the two."""
        return (
            min(self.earliest_end, self.latest_start),
            max(self.earliest_end, self.latest_start),
        )


class RegisterHistory:
    """Of one register, judged with each answer. It begins with a value that was always there."""

    def __init__(self, value: int) -> None:
        first = Cluster(value, -inf)
        first.earliest_end = -inf
        first.is_seen = True
        self.clusters = {value: first}
        self.answers = 0

    def write_begins(self, value: int, start: float) -> None:
        """Somebody asks for a value that nobody has written before."""
        assert value not in self.clusters
        self.clusters[value] = Cluster(value, start)

    def write_ends(self, value: int, end: float) -> None:
        """The write of that value was answered."""
        self._answered(self.clusters[value], self.clusters[value].written_from, end)

    def read_ends(self, value: int, start: float, end: float) -> None:
        """A read that began then was answered."""
        cluster = self.clusters.get(value)
        rule(cluster is not None, f"{value} was read, and nobody has written it")
        assert cluster is not None
        rule(end >= cluster.written_from, f"{value} was read before it was written")
        self._answered(cluster, start, end)

    def _answered(self, cluster: Cluster, start: float, end: float) -> None:
        self.answers += 1
        cluster.is_seen = True
        cluster.earliest_end = min(cluster.earliest_end, end)
        cluster.latest_start = max(cluster.latest_start, start)
        low, high = cluster.zone
        for other in self.clusters.values():
            if other is not cluster and other.is_seen:
                lower, higher = other.zone
                if cluster.is_forward and other.is_forward:
                    apart = high <= lower or higher <= low
                elif cluster.is_forward:
                    apart = not (low < lower and higher < high)
                elif other.is_forward:
                    apart = not (lower < low and high < higher)
                else:
                    apart = True
                rule(
                    apart,
                    f"not linearizable: {cluster.value} and {other.value} were there at one time",
                )
