"""A lane: one consumer with a thread of its own, gathering what comes into chunks.

    READER (planner)                                LANE (thread)
      take(limit)       <---- sealed chunks ------    reads the socket
      acknowledge(upto) ----- wakes it ---------->    writes the acks

Positions count the messages of a lane in the order they came, from 1. What was handed out keeps its
position when the connection is lost; what was not is forgotten then, for it comes again. The
prefetch bounds what a lane holds: without acknowledgements the broker sends no more.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from typing import Any, Final

from sluicemq.client.consuming import Subscription
from sluicemq.client.session import BrokerError
from sluicemq.errors import SluiceError
from sluicemq.spark.chunks import Chunk
from sluicemq.spark.connecting import AmqpError, backoff_s, connect, is_transient
from sluicemq.spark.options import MIB, Options
from sluicemq.spark.schema import Run

CHUNK_ROWS_MAX: Final = 4096
CHUNK_BYTES_MAX: Final = 8 * MIB
POLL_S: Final = 0.5
STOP_S: Final = 5.0


class Lane:
    """See above. Methods are for the planner's thread; `_run` and below are the lane's own."""

    def __init__(self, options: Options, queue: str, name: str, news: threading.Condition) -> None:
        self.queue = queue
        self.name = name
        self.taken = 0
        """Position of the last message that was handed out."""
        self.acknowledged = 0
        self.failure: SluiceError | None = None
        self.quiet = threading.Event()
        """The broker has sent nothing for a poll timeout, and nothing waits here."""
        self._options = options
        self._chunk_rows = min(CHUNK_ROWS_MAX, options.rows_per_batch)
        self._news = news
        self._generation = 0
        self._waiting: deque[Chunk] = deque()
        self._waiting_rows = 0
        self._out: deque[tuple[int, Chunk]] = deque()
        """Handed out and not acknowledged, with the position of its last message."""
        self._done: deque[Chunk] = deque()
        """To be acknowledged by the thread."""
        self._unwritten = False
        """Something was added to `_done` that has not been written."""
        self._subscription: Subscription | None = None
        self._stopping = False
        self._awake, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, name=f"amqp {name}", daemon=True)
        self._thread.start()

    def waiting_rows(self) -> int:
        """Messages that could be taken."""
        return self._waiting_rows

    def take(self, rows_max: int, bytes_max: int) -> list[Chunk]:
        """The next chunks, whole, within these limits."""
        taken: list[Chunk] = []
        with self._news:
            while self._waiting:
                chunk = self._waiting[0]
                rows_max -= chunk.rows
                if rows_max < 0 or bytes_max <= 0:
                    break
                bytes_max -= chunk.bytes
                self._waiting.popleft()
                self._waiting_rows -= chunk.rows
                self.taken += chunk.rows
                self._out.append((self.taken, chunk))
                taken.append(chunk)
        for chunk in taken:
            chunk.seal()
        return taken

    def peek(self) -> list[Chunk]:
        """Sealed copies of what could be taken."""
        with self._news:
            return [chunk.copy() for chunk in self._waiting]

    def acknowledge(self, position: int) -> list[Chunk]:
        """All up to there is safe; the chunks nobody needs any more."""
        released: list[Chunk] = []
        with self._news:
            while self._out and self._out[0][0] <= position:
                self.acknowledged, chunk = self._out.popleft()
                released.append(chunk)
            self._done.extend(released)
            if released:
                self.quiet.clear()
                self._unwritten = True
        if released:
            os.write(self._wake, b"\0")
        return released

    def await_written(self, deadline: float) -> None:
        """Until the acknowledgements are on their way: who is killed then has sent them."""
        with self._news:
            while self._unwritten and self._subscription is not None:
                if not self._news.wait(deadline - time.monotonic()):
                    return

    def stop(self) -> None:
        """Acknowledge what is safe, close the connection; the broker takes back the rest."""
        self._stopping = True
        os.write(self._wake, b"\0")
        self._thread.join(STOP_S)
        if not self._thread.is_alive():
            os.close(self._awake)
            os.close(self._wake)

    def abandon(self) -> None:
        """Close the socket at once, from any thread."""
        self._stopping = True
        subscription = self._subscription
        if subscription is not None:
            subscription.wire.abandon()

    def _run(self) -> None:
        failures = 0
        while not self._stopping:
            try:
                self._open(failures)
                failures = 0
                while not self._stopping:
                    self._serve()
            except BrokerError as error:
                self._on_lost()
                if not is_transient(error) or failures >= self._options.retries:
                    tries = f" (after {failures + 1} tries)" if failures else ""
                    self._fail(AmqpError(f"queue {self.queue!r}: {error}{tries}"))
                    return
                self._sleep(backoff_s(self._options, failures))
                failures += 1
            except SluiceError as error:
                self._fail(error)
                return
        self._close()

    def _open(self, failures: int) -> None:
        wire = connect(self._options, f"sluicemq spark source {self.name}", failures)
        try:
            subscription = Subscription(wire, self.queue, self._options.prefetch)
        except BaseException:
            wire.abandon()
            raise
        self._generation += 1
        self._subscription = subscription

    def _serve(self) -> None:
        """Wait for something to do, do it."""
        subscription = self._subscription
        assert subscription is not None
        self._write_acks(subscription)
        wire = subscription.wire
        timeout_s = self._options.poll_timeout_ms / 1000
        got_any = self._read(subscription, 0.0)
        if not got_any:
            awaited: tuple[Any, ...] = (wire, self._awake)
            readable, _, _ = select.select(awaited, (), (), min(timeout_s, POLL_S))
            if self._awake in readable:
                os.read(self._awake, 4096)
            if wire in readable:
                got_any = self._read(subscription, 0.0)
            elif self._awake not in readable and not self._waiting_rows:
                self._tell_quiet()

    def _read(self, subscription: Subscription, timeout_s: float) -> bool:
        got_any = False
        for event in subscription.poll(timeout_s):
            tags = event.tags
            for at in range(0, len(tags), self._chunk_rows):
                contents = event.contents[at : at + self._chunk_rows]
                count = len(contents)
                run = Run(event.exchange, event.routing_key, event.redelivered, tags[at], count)
                with self._news:
                    self._room(count).add(run, contents)
                    self._waiting_rows += count
            got_any = True
        if got_any:
            self.quiet.clear()
            with self._news:
                self._news.notify_all()
        return got_any

    def _room(self, count: int) -> Chunk:
        """The chunk that grows."""
        waiting = self._waiting
        if waiting:
            last = waiting[-1]
            if last.rows + count <= self._chunk_rows and last.bytes < CHUNK_BYTES_MAX:
                return last
        waiting.append(Chunk(self.queue, self._generation))
        return waiting[-1]

    def _write_acks(self, subscription: Subscription) -> None:
        """One frame for chunks in a row."""
        while self._done:
            chunk = self._done.popleft()
            if chunk.generation == self._generation:
                last = chunk.runs[-1]
                subscription.acknowledge(chunk.runs[0].first, last.first + last.count - 1)
        subscription.wire.flush()
        if self._unwritten and not self._done:
            with self._news:
                self._unwritten = bool(self._done)
                self._news.notify_all()

    def _tell_quiet(self) -> None:
        with self._news:
            if not self.quiet.is_set() and not self._done:
                self.quiet.set()
                self._news.notify_all()

    def _on_lost(self) -> None:
        """What nobody has taken comes again."""
        self.quiet.clear()
        if self._subscription is not None:
            self._subscription.wire.abandon()
            self._subscription = None
        with self._news:
            self._waiting.clear()
            self._waiting_rows = 0

    def _fail(self, error: SluiceError) -> None:
        self.failure = error
        with self._news:
            self._news.notify_all()

    def _sleep(self, seconds: float) -> None:
        """Unless there is a reason to wake up."""
        if select.select((self._awake,), (), (), seconds)[0] and not self._stopping:
            os.read(self._awake, 4096)

    def _close(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            try:
                self._write_acks(subscription)
                subscription.wire.close()
            except BrokerError:
                subscription.wire.abandon()
