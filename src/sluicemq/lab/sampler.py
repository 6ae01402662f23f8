"""Samples the broker once a second during a run: queue depth, and its nodes one by one.

Each kind of sample has its own thread, queue depth also its own connection: a broker under load
answers late, and that must not hold up anything else. A late answer makes a second without a
figure, never with a wrong one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from sluicemq.errors import SluiceError
from sluicemq.lab.plan import NS
from sluicemq.lab.target import TargetQueues
from sluicemq.lab.target_admin import NodeLook, SampledNode, TargetAdmin

ANSWER_TIMEOUT_S: Final = 600.0
"""Seconds to wait for an answer: an overloaded broker may take minutes for a passive declare."""

Row = dict[str, Any]


class Sampler:
    """Gathers rows of the tables `broker` and `nodes` until `stop`."""

    def __init__(
        self,
        queues: TargetQueues,
        nodes: Sequence[SampledNode],
        admin: TargetAdmin | None,
        origin_ns: int,
    ) -> None:
        self.rows: list[Row] = []
        self.node_rows: list[Row] = []
        self.failure: str | None = None
        """Why sampling ended before `stop`; None: it did not."""
        self.messages_ready = 0
        """Messages ready in the queues at the last look."""
        self._queues = queues
        self._nodes = nodes
        self._cpu_before_ns = [node.process.cpu_ns() if node.process else 0 for node in nodes]
        self._origin_ns = origin_ns
        self._answers: dict[int, int] = {}
        """Numbers of ready messages, by the second in which the broker answered."""
        self._looks: dict[int, Sequence[NodeLook]] = {}
        """The admin's looks at the nodes, by the second of its answer."""
        self._stopped = threading.Event()
        self._threads = [self._start(self._ask), self._start(self._look)]
        if admin is not None:
            self._threads.append(self._start(lambda: self._inquire(admin)))

    def _start(self, work: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                work()
            except SluiceError as error:
                self.failure = str(error)

        thread = threading.Thread(target=guarded, name="sample-broker", daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """Stop sampling; a pending answer is not waited for long."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=2)

    def _ask(self) -> None:
        """Ask the broker for its queue depth once a second, or as often as it answers."""
        with self._queues.connect(ANSWER_TIMEOUT_S) as client:
            second = 0
            while not self._sleep_until(second):
                self.messages_ready = client.count_queues(self._queues.names)
                second = max(second, self._now_s())
                self._answers[second] = self.messages_ready
                second += 1

    def _inquire(self, admin: TargetAdmin) -> None:
        """Ask the admin about the nodes, at its interval or as often as it answers."""
        second = 0
        while not self._sleep_until(second):
            looks = admin.look(self._queues.names)
            second = max(second, self._now_s())
            self._looks[second] = looks
            second += admin.interval_s

    def _look(self) -> None:
        """At the end of each second, sample the processes and take the answers that came in it."""
        second = 0
        while not self._sleep_until(second + 1):
            rows = self._node_rows(second)
            self.node_rows += rows
            self.rows.append(
                {
                    "second": second,
                    "cpu_ns": _sum([row["cpu_ns"] for row in rows]),
                    "rss_bytes": _sum([row["rss_bytes"] for row in rows]),
                    "messages_ready": self._answers.pop(second, None),
                }
            )
            second += 1

    def _node_rows(self, second: int) -> list[Row]:
        nothing: Sequence[NodeLook | None] = [None] * len(self._nodes)
        looks = self._looks.pop(second, nothing)
        return [
            {
                "second": second,
                "node": node.name,
                "cpu_ns": node.process.cpu_ns() - before if node.process else None,
                "rss_bytes": node.process.rss_bytes() if node.process else None,
                "flow_connections": look.flow_connections if look else None,
                "leaders": look.leaders if look else None,
            }
            for node, look, before in zip(self._nodes, looks, self._cpu_before_ns, strict=True)
        ]

    def _now_s(self) -> int:
        return (time.monotonic_ns() - self._origin_ns) // NS

    def _sleep_until(self, second: int) -> bool:
        """Wait until the end of that second of the run. Returns True when the sampler was stopped
        before."""
        left_ns = self._origin_ns + second * NS - time.monotonic_ns()
        return self._stopped.wait(max(left_ns, 0) / NS)


def _sum(values: Sequence[int | None]) -> int | None:
    """Return the sum; None when there are no values, or one of them is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
