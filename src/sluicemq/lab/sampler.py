"""Looks at the broker once a second while a run goes on: queue depth, CPU time, memory.

It has a thread and a connection of its own: a broker under load answers late, and that must not
hold up anything else. A late answer makes a missing second, never a wrong one.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from sluicemq.errors import SluiceError
from sluicemq.lab.plan import NS
from sluicemq.lab.target import BrokerProcess, Queues

ANSWER_TIMEOUT_S: Final = 600.0
"""An overloaded broker may take minutes to answer a passive declare."""


class Sampler:
    """Rows of the broker table, gathered until `stop`."""

    def __init__(self, queues: Queues, process: BrokerProcess | None, origin_ns: int) -> None:
        self.rows: list[dict[str, Any]] = []
        self.failure: str | None = None
        """Why sampling ended before it was told to."""
        self._queues = queues
        self._process = process
        self._cpu_before_ns = 0 if process is None else process.cpu_ns()
        self._origin_ns = origin_ns
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sample-broker", daemon=True)
        self._thread.start()

    @property
    def messages_ready(self) -> int:
        """At the last look."""
        return self.rows[-1]["messages_ready"] if self.rows else 0

    def stop(self) -> None:
        """No further rows; an answer still awaited is not waited for long."""
        self._stopped.set()
        self._thread.join(timeout=2)

    def _run(self) -> None:
        try:
            with self._queues.connect(ANSWER_TIMEOUT_S) as client:
                second = 0
                while not self._sleep_until(second):
                    ready = client.count_queues(self._queues.names)
                    self._add_row(second, ready)
                    now_s = (time.monotonic_ns() - self._origin_ns) // NS
                    second = max(second, now_s) + 1
        except SluiceError as error:
            self.failure = str(error)

    def _sleep_until(self, second: int) -> bool:
        """True: it is over."""
        left_ns = self._origin_ns + second * NS - time.monotonic_ns()
        return self._stopped.wait(max(left_ns, 0) / NS)

    def _add_row(self, second: int, messages_ready: int) -> None:
        process = self._process
        self.rows.append(
            {
                "second": second,
                "cpu_ns": None if process is None else process.cpu_ns() - self._cpu_before_ns,
                "rss_bytes": None if process is None else process.rss_bytes(),
                "messages_ready": messages_ready,
            }
        )
