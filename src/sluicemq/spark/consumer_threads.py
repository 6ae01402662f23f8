"""A consumer with a thread of its own, which gathers messages into chunks.

    READER (planner)                                CONSUMER (thread)
      take(limit)       <------- chunks ----------    reads the socket
      acknowledge(upto) ----- wakes it ---------->    writes the acks

Positions count the messages of a consumer in the order they came, from 1. Messages that were handed
out keep their positions when the connection is lost; the others are forgotten, because they come
again. Two things bound what a consumer holds: without acknowledgements the broker sends no more
than the prefetch, and when a batch of octets waits to be taken the consumer stops reading.

A broker closes a channel on which a message is unacknowledged for too long (`consumer_timeout`), as
happens between triggers that are far apart. The consumer is parked then: its waiting messages go
back to the queue, and it fetches them again when the planner asks for them.

The queue of a pattern may be deleted: its consumer is then gone, and the messages that it handed
out stay valid.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Final

from sluicemq.client.consuming import Subscription
from sluicemq.client.poller import NS, Poller, Waker
from sluicemq.client.session import BrokerError
from sluicemq.errors import SluiceError
from sluicemq.spark.chunks import GatheredChunk
from sluicemq.spark.connecting import AmqpError, Outage, connect, is_missing, is_overdue
from sluicemq.spark.option_values import MIB
from sluicemq.spark.options import Options
from sluicemq.spark.queue_kinds import check_delivery

log = logging.getLogger(__name__)

CHUNK_ROWS_MAX: Final = 2048
CHUNK_BYTES_MAX: Final = 8 * MIB
POLL_S: Final = 0.5
STOP_S: Final = 5.0
WRITTEN_S: Final = 15.0
"""Seconds that the end waits for unwritten acknowledgements: it takes time only with a broker that
reads nothing, or a machine that stands still."""

FULL_S: Final = 600.0
"""Seconds for which a full consumer holds messages that the planner does not take: it does not read
its socket, and would not notice that the broker has requeued them."""


class ConsumerThread:
    """Consumes a queue in a thread of its own, and gathers messages into chunks. Public methods are
    for the planner's thread; `_run` and its callees are for the consumer's.

    It stops reading when it holds `bytes_max` octets of contents; it may hold one read more, and
    takes at least one message.
    """

    def __init__(
        self, options: Options, queue: str, name: str, news: threading.Condition, bytes_max: int
    ) -> None:
        self.queue = queue
        self.name = name
        self.taken = 0
        """The position of the last message that was handed out."""
        self.acknowledged = 0
        self.settled = 0
        """The position up to which all messages are acknowledged to the broker, or counted in
        `lost_rows`."""
        self.failure: SluiceError | None = None
        self.is_gone = False
        """True when the queue does not exist any more."""
        self.quiet = threading.Event()
        """Set when the broker has sent nothing for a poll timeout, and no message waits here."""
        self.tried = threading.Event()
        """Set when the broker has answered since `resume`, whether well or not."""
        self.overdue_rows = 0
        """Rows that were handed out and not acknowledged when the broker's consumer_timeout
        ended."""
        self.lost_rows = 0
        """Rows that were handed out and not acknowledged when connections were lost; they come
        again."""
        self.reconnects = 0
        """The number of connections after the first."""
        self.outage = Outage(options, f"queue {queue!r}")
        self._options = options
        self.is_parked = False
        """True while there is no connection, until `resume`."""
        self._chunk_rows = min(CHUNK_ROWS_MAX, options.rows_per_batch)
        self._news = news
        self._generation = 0
        self._waiting: deque[GatheredChunk] = deque()
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._bytes_max = bytes_max
        self._full = False
        """True while the thread does not read the socket, because enough messages wait."""
        self._taken_at = time.monotonic()
        """The time at which messages were last handed out, or the connection opened."""
        self._out: deque[tuple[int, GatheredChunk]] = deque()
        """Chunks that were handed out and not acknowledged, each with the position of its last
        message."""
        self._done: deque[GatheredChunk] = deque()
        """Chunks that the thread has to acknowledge."""
        self._unwritten = False
        """True when acknowledgements of `_done` are not yet written to the broker."""
        self._subscription: Subscription | None = None
        self._is_checked = False
        """True when the first delivery was found to be a queue's, not a stream's."""
        self._stopping = False
        self._poller = Poller()
        """The poller of the consumer's thread, which waits here for the broker and for `_waker`."""
        self._waker = Waker(self._poller)
        self._thread = threading.Thread(target=self._run, name=f"amqp {name}", daemon=True)
        self._thread.start()

    def waiting_rows(self) -> int:
        """Return how many messages wait to be taken."""
        return self._waiting_rows

    def waiting_bytes(self) -> int:
        """Return how many octets the contents of the waiting messages have together."""
        return self._waiting_bytes

    def first_rows(self) -> int:
        """Return the size of the first waiting chunk in messages, which is the least that can be
        taken; 0 when nothing waits."""
        with self._news:
            return self._waiting[0].rows if self._waiting else 0

    def take(self, rows_max: int, bytes_max: int) -> list[GatheredChunk]:
        """Hand out the next whole chunks, at most `rows_max` messages in all. The chunk that
        reaches `bytes_max` octets is the last."""
        taken: list[GatheredChunk] = []
        with self._news:
            while self._waiting:
                chunk = self._waiting[0]
                rows_max -= chunk.rows
                if rows_max < 0 or bytes_max <= 0:
                    break
                bytes_max -= chunk.bytes
                self._waiting.popleft()
                self._waiting_rows -= chunk.rows
                self._waiting_bytes -= chunk.bytes
                self.taken += chunk.rows
                self._out.append((self.taken, chunk))
                self._taken_at = time.monotonic()
                taken.append(chunk)
            if taken and self._full:
                self._waker.wake()
        return taken

    def resume(self, rows_max: int) -> None:
        """Fetch messages, if the consumer is parked, in chunks of at most `rows_max` from now
        on."""
        self._chunk_rows = min(self._chunk_rows, rows_max)
        if self.is_parked:
            self.tried.clear()
            self.is_parked = False
            self._waker.wake()

    def bound(self, bytes_max: int) -> None:
        """Stop reading when `bytes_max` octets of contents wait, from now on."""
        with self._news:
            self._bytes_max = bytes_max
        self._waker.wake()

    def peek(self) -> list[GatheredChunk]:
        """Return copies of the chunks that wait, and leave them waiting."""
        with self._news:
            return [chunk.copy() for chunk in self._waiting]

    def acknowledge(self, position: int) -> list[GatheredChunk]:
        """Have the thread acknowledge all messages up to `position`, inclusive. Returns the chunks
        that are no longer needed."""
        released: list[GatheredChunk] = []
        with self._news:
            while self._out and self._out[0][0] <= position:
                self.acknowledged, chunk = self._out.popleft()
                released.append(chunk)
            self._done.extend(released)
            if released:
                self.quiet.clear()
                self._unwritten = True
        if released:
            self._waker.wake()
        return released

    def await_written(self, deadline: float) -> None:
        """Wait until all acknowledgements are written to the broker, so that a kill no longer loses
        them, or until `deadline` (monotonic, in seconds)."""
        with self._news:
            while self._unwritten and self._subscription is not None:
                if not self._news.wait(deadline - time.monotonic()):
                    return

    def stop(self) -> None:
        """Write all acknowledgements and close the connection; the broker requeues unacknowledged
        messages."""
        self._stopping = True
        self._waker.wake()
        self.await_written(time.monotonic() + WRITTEN_S)
        self._thread.join(STOP_S)
        if not self._thread.is_alive():
            self._poller.close()

    def abandon(self) -> None:
        """Close the socket at once without writing anything; any thread may call it."""
        self._stopping = True
        subscription = self._subscription
        if subscription is not None:
            subscription.wire.sever()

    def _run(self) -> None:
        try:
            while not self._stopping and not self.is_gone:
                self._work()
        except SluiceError as error:
            self._on_lost()
            self._fail(error)
        except Exception as error:
            # The planner would wait for a thread that ended without a report.
            log.exception("queue %r: consumer %s", self.queue, self.name)
            self._on_lost()
            self._fail(AmqpError(f"queue {self.queue!r}: cannot be gathered: {error!r}"))
        else:
            self._close()

    def _work(self) -> None:
        """Open a connection, and serve it as long as it lasts."""
        try:
            self._open(self.outage.attempts)
            self.outage.over()
            self.tried.set()
            while not self._stopping and self._subscription is not None:
                self._serve()
        except BrokerError as error:
            out = self._on_lost()
            if self._stopping:
                return
            if is_overdue(error):
                self._on_overdue(error, out)
                self._park()
            elif self._options.queue_pattern and is_missing(error):
                self.outage.over()
                self.is_gone = True
                self.tried.set()
            else:
                wait_s = self.outage.failed(error)
                self.tried.set()
                self._sleep(wait_s)

    def _on_overdue(self, error: BrokerError, out: int) -> None:
        self.overdue_rows += out
        if out:
            log.warning(
                "queue %r: %d messages of a batch that is not known to be committed come again, and"
                " batches are halved: the broker has waited too long (docs/spark-amqp.md, When"
                " messages are acknowledged): %s",
                *(self.queue, out, error),
            )

    def _park(self) -> None:
        """Fetch nothing before the planner asks: messages here would only be overdue again."""
        self.is_parked = True
        while self.is_parked and not self._stopping:
            self._sleep(POLL_S)

    def _open(self, failures: int) -> None:
        name = f"sluicemq spark source {self.name}"
        wire = connect(self._options, name, failures, poller=self._poller)
        try:
            subscription = Subscription(wire, self.queue, self._options.prefetch)
        except BaseException:
            wire.abandon()
            raise
        self.reconnects += self._generation > 0
        self._generation += 1
        self._is_checked = False
        self._taken_at = time.monotonic()
        self._subscription = subscription

    def _serve(self) -> None:
        """Write due acknowledgements, and read or wait."""
        subscription = self._subscription
        assert subscription is not None
        self._write_acks(subscription)
        wire = subscription.wire
        with self._news:
            self._full = self._waiting_bytes >= self._bytes_max
        if self._full:
            # The broker's heartbeats wait unread in the socket, so silence means nothing now.
            wire.keep_alive(listening=False)
            if time.monotonic() - self._taken_at > FULL_S and not self._out:
                self._on_lost()
                self._park()
            else:
                wire.pause()
                self._sleep(POLL_S)
            return
        if self._read(subscription):
            return
        received_bytes = wire.received_bytes
        is_woken = self._sleep(min(self._options.poll_timeout_ms / 1000, POLL_S))
        if not is_woken and wire.received_bytes == received_bytes and not self._waiting_rows:
            self._tell_quiet()

    def _read(self, subscription: Subscription) -> bool:
        got_any = False
        for event in subscription.poll(0.0):
            if not self._is_checked:
                check_delivery(self._options, self.queue, event)
                self._is_checked = True
            count = len(event.tags)
            for low in range(0, count, self._chunk_rows):
                high = min(low + self._chunk_rows, count)
                with self._news:
                    room = self._room(high - low)
                    before = room.bytes
                    room.add(event, low, high)
                    self._waiting_bytes += room.bytes - before
                    self._waiting_rows += high - low
            got_any = True
            if self._waiting_bytes >= self._bytes_max:
                break  # the rest stays in the subscription
        if got_any:
            self.quiet.clear()
            with self._news:
                self._news.notify_all()
        return got_any

    def _room(self, count: int) -> GatheredChunk:
        """Return the last chunk, or a new one when `count` more messages do not fit."""
        waiting = self._waiting
        if waiting:
            last = waiting[-1]
            if last.rows + count <= self._chunk_rows and last.bytes < CHUNK_BYTES_MAX:
                return last
        waiting.append(GatheredChunk(self.queue, self._generation))
        return waiting[-1]

    def _write_acks(self, subscription: Subscription) -> None:
        """Acknowledge the chunks that are done."""
        with self._news:
            done, position = list(self._done), self.acknowledged
        for chunk in done:
            if chunk.generation == self._generation:
                first, last = chunk.runs[0].first, chunk.runs[-1]
                rejected = [first + row for row in chunk.rejected]
                subscription.acknowledge(first, last.first + last.count - 1, rejected)
        subscription.wire.flush()
        if done:
            # Not earlier: when the connection is lost meanwhile, these are lost, too.
            with self._news:
                for _ in done:
                    self._done.popleft()
                self.settled = max(self.settled, position)
                self._unwritten = bool(self._done)
                self._news.notify_all()

    def _tell_quiet(self) -> None:
        with self._news:
            if not self.quiet.is_set() and not self._done:
                self.quiet.set()
                self._news.notify_all()

    def _on_lost(self) -> int:
        """Forget waiting messages, which come again, and count those that were handed out and are
        not acknowledged, which do so, too; returns their number."""
        self.quiet.clear()
        if self._subscription is not None:
            self._subscription.wire.abandon()
            self._subscription = None
        with self._news:
            self._waiting.clear()
            self._waiting_rows = self._waiting_bytes = 0
            chunks = [*self._done, *(chunk for _, chunk in self._out)]
            out = sum(chunk.rows for chunk in chunks if chunk.generation == self._generation)
            self._generation += 1
            self.lost_rows += out
            self.settled = self.taken
            self._news.notify_all()
        return out

    def _fail(self, error: SluiceError) -> None:
        self.failure = error
        self.tried.set()
        with self._news:
            self._news.notify_all()

    def _sleep(self, seconds: float) -> bool:
        """Wait at most `seconds` for the broker, if there is a connection, and for the planner;
        return whether the planner has woken this thread."""
        waker = self._waker
        if not waker.woken:
            self._poller.poll(int(seconds * NS))
        is_woken, waker.woken = waker.woken, False
        return is_woken

    def _close(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            try:
                self._write_acks(subscription)
                subscription.wire.close()
            except BrokerError:
                subscription.wire.abandon()
