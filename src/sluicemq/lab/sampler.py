"""Looks at the broker once a second while a run goes on: queue depth, CPU time, memory.

Each has a thread of its own, queue depth also a connection: a broker under load answers late, and
that must not hold up anything else. A late answer makes a second without one, never a wrong one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from sluicemq.errors import SluiceError
from sluicemq.lab.plan import NS
from sluicemq.lab.target import BrokerProcess, TargetQueues

ANSWER_TIMEOUT_S: Final = 600.0
"""Seconds to wait for an answer: an overloaded broker may take minutes for a passive declare."""


class Sampler:
    """Gathers rows of the broker table until `stop`."""

    def __init__(self, queues: TargetQueues, process: BrokerProcess | None, origin_ns: int) -> None:
        self.rows: list[dict[str, Any]] = []
        self.failure: str | None = None
        """Why sampling ended before it was told to; None: it did not."""
        self.messages_ready = 0
        """Messages ready in the queues at the last look."""
        self._queues = queues
        self._process = process
        self._cpu_before_ns = 0 if process is None else process.cpu_ns()
        self._origin_ns = origin_ns
        self._answers: dict[int, int] = {}
        """Messages ready by the second in which the broker said so."""
        self._stopped = threading.Event()
        self._threads = [self._start(self._ask), self._start(self._look)]

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
        """Stop sampling; an answer still awaited is not waited for long."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=2)

    def _ask(self) -> None:
        """Ask the broker for its queue depth once a second, or as often as it answers."""
        with self._queues.connect(ANSWER_TIMEOUT_S) as client:
            second = 0
            while not self._sleep_until(second):
                self.messages_ready = client.count_queues(self._queues.names)
                now_s = (time.monotonic_ns() - self._origin_ns) // NS
                self._answers[max(second, now_s)] = self.messages_ready
                second = max(second, now_s) + 1

    def _look(self) -> None:
        """Look at the process at the end of each second, and at what the broker has answered in
        it."""
        second = 0
        process = self._process
        while not self._sleep_until(second + 1):
            self.rows.append(
                {
                    "second": second,
                    "cpu_ns": None if process is None else process.cpu_ns() - self._cpu_before_ns,
                    "rss_bytes": None if process is None else process.rss_bytes(),
                    "messages_ready": self._answers.pop(second, None),
                }
            )
            second += 1

    def _sleep_until(self, second: int) -> bool:
        """Wait until the end of that second of the run. Returns True when the sampler was stopped
        meanwhile."""
        left_ns = self._origin_ns + second * NS - time.monotonic_ns()
        return self._stopped.wait(max(left_ns, 0) / NS)
