"""Messages that are out at one consumer, by the ids that it knows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from sluicemq.queues.quorum.message_runs import MessageRun


class CheckedOut:
    """Runs by the id of their first message, ascending. The ids in a run are consecutive; ids
    between two runs are settled."""

    __slots__ = ("count", "firsts", "runs")

    def __init__(self) -> None:
        self.count = 0
        """Messages that are out."""
        self.firsts: list[int] = []
        self.runs: list[MessageRun] = []

    def add(self, first_id: int, run: MessageRun) -> None:
        """Add a run behind all others; `first_id` is new."""
        assert run.places, "a delivery of nothing"
        assert not self.firsts or first_id >= self.firsts[-1] + len(self.runs[-1].places)
        self.firsts.append(first_id)
        self.runs.append(run)
        self.count += len(run.places)

    def take(self, start: int, end: int) -> list[MessageRun]:
        """Remove the messages with ids from `start` to before `end` that are here, and return them
        in the order of ids."""
        firsts, runs = self.firsts, self.runs
        at = self._first_up_to(start, end)
        if at:
            if at == len(runs):
                taken = self.take_all()
            else:
                taken = runs[:at]
                del firsts[:at], runs[:at]
                self.count -= end - start
            return taken
        at = bisect_right(firsts, start) - 1
        if at >= 0 and firsts[at] < start < firsts[at] + len(runs[at].places):
            self._cut(at, start)
        low = bisect_left(firsts, start)
        at = bisect_left(firsts, end) - 1
        if at >= 0 and end < firsts[at] + len(runs[at].places):
            self._cut(at, end)
        high = bisect_left(firsts, end)
        taken = runs[low:high]
        del firsts[low:high], runs[low:high]
        self.count -= sum([len(run.places) for run in taken])
        assert self.count >= 0 and (self.count > 0) is bool(runs), "a message was settled twice"
        return taken

    def _first_up_to(self, start: int, end: int) -> int:
        """Return how many of the first runs have exactly the ids from `start` to before `end`, as
        mostly: who settles in the order of deliveries settles these. 0: no number of them has."""
        for at, first_id in enumerate(self.firsts):
            if first_id != start:
                return 0
            start += len(self.runs[at].places)
            if start >= end:
                return at + 1 if start == end else 0
        return 0

    def take_all(self) -> list[MessageRun]:
        """Remove all messages, and return them in the order of ids."""
        taken, self.runs, self.firsts = self.runs, [], []
        self.count = 0
        return taken

    def since(self, next_id: int) -> Iterator[tuple[int, MessageRun]]:
        """Give the messages that are out from the id `next_id` on, each run with its first id."""
        for first_id, run in zip(self.firsts, self.runs, strict=True):
            skip = max(0, next_id - first_id)
            if skip < len(run.places):
                yield first_id + skip, run.part(skip, len(run.places))

    def _cut(self, at: int, id_: int) -> None:
        """Split the run at place `at`, so that the second part begins with `id_`."""
        run = self.runs[at]
        size = id_ - self.firsts[at]
        assert 0 < size < len(run.places), "a cut into nothing"
        self.runs[at : at + 1] = [run.part(0, size), run.part(size, len(run.places))]
        self.firsts.insert(at + 1, id_)
