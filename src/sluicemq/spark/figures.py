"""The figures of each queue in a query's progress: `latestOffset` of its source, in `lastProgress`.

    depth             messages ready in the broker, as of the last look at it
    lag               those, and the fetched messages that are in no batch yet
    unacknowledged    messages that the broker has sent: fetched, or in a batch that is not
                      known to be committed
    redelivered       messages handed out so far with the redelivered flag
    reconnects        how often consumers have lost their connection and got another one

The broker is asked on a separate connection and in a separate thread, so that no trigger waits for
it. Unknown depths and lags are left out.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from sluicemq.client.blocking import counts_of
from sluicemq.client.session import BrokerError
from sluicemq.client.wire import Wire
from sluicemq.spark.connecting import connect
from sluicemq.spark.consumer_groups import TakenChunk
from sluicemq.spark.options import Options

LOOK_S: Final = 1.0


class ReportedConsumer(Protocol):
    """The attributes of a consumer that `Figures` reads, in this process or elsewhere."""

    queue: str
    reconnects: int

    def waiting_rows(self) -> int: ...


class Figures:
    """Collects the figures that one session reports of each of its queues. `queues` may grow and
    shrink later."""

    def __init__(self, options: Options, queues: Sequence[str]) -> None:
        self._options = options
        self._queues = queues
        self._redelivered: Counter[str] = Counter()
        self._depths: dict[str, int] = {}
        self._looked_at = float("-inf")
        self._looking: threading.Thread | None = None
        self._wire: Wire | None = None
        self._attempts = 0

    def taken(self, found: Iterable[TakenChunk]) -> None:
        """Count the redelivered messages in these chunks, which were handed out."""
        for each in found:
            self._redelivered[each.queue] += each.redelivered

    def report(
        self, consumers: Iterable[ReportedConsumer], planned: Iterable[TakenChunk]
    ) -> dict[str, dict[str, int]]:
        """Return the figures of each queue, by name. `planned` are the chunks in batches that are
        not known to be committed."""
        self._look()
        waiting: Counter[str] = Counter()
        reconnects: Counter[str] = Counter()
        for consumer in consumers:
            waiting[consumer.queue] += consumer.waiting_rows()
            reconnects[consumer.queue] += consumer.reconnects
        out = waiting.copy()
        for each in planned:
            out[each.queue] += each.rows
        found: dict[str, dict[str, int]] = {}
        for queue in self._queues:
            depth = self._depths.get(queue)
            known = {} if depth is None else {"depth": depth, "lag": depth + waiting[queue]}
            found[queue] = known | {
                "unacknowledged": out[queue],
                "redelivered": self._redelivered[queue],
                "reconnects": reconnects[queue],
            }
        return found

    def close(self) -> None:
        """Close the connection on which the broker is asked for queue depths."""
        if self._wire is not None:
            self._wire.abandon()

    def _look(self) -> None:
        """Begin to ask the broker, unless it was asked a short time ago."""
        now = time.monotonic()
        is_looking = self._looking is not None and self._looking.is_alive()
        if is_looking or now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        self._looking = threading.Thread(target=self._count, name="amqp depths", daemon=True)
        self._looking.start()

    def _count(self) -> None:
        try:
            if self._wire is None:
                name = "sluicemq spark depths"
                self._wire = connect(self._options, name, self._attempts, heartbeat_s=0)
            wire = self._wire
            self._depths = {
                queue: counts_of(wire, queue).messages_ready for queue in list(self._queues)
            }
        except BrokerError:  # the consumers report it, and try again
            self._attempts += 1
            self._depths = {}
            if self._wire is not None:
                self._wire.abandon()
                self._wire = None
