"""The planner's side of a streaming query over queues: lanes, positions, what Spark has safe.

A session lives as long as the planner process. An offset is

    {"session": id, "pos": {lane: position of its last message}, "serial": number of the batch}

A batch of another session cannot be read again: nothing of it was acknowledged, so the broker has
taken it back and it comes anew, flagged redelivered. It reads as empty, unless a ledger says what
was in it: then it is put together again from what comes.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, cast

from sluicemq.client.blocking import BlockingClient
from sluicemq.spark.chunks import Chunk, Message, Scratch
from sluicemq.spark.commits import Offset, Signs
from sluicemq.spark.connecting import AmqpError, persistently
from sluicemq.spark.kinds import refuse_stream
from sluicemq.spark.lanes import Lane
from sluicemq.spark.ledger import Ledger, Part
from sluicemq.spark.options import DEAD_LETTER, FAIL, Options
from sluicemq.spark.pacing import ROWS_UNLIMITED, Pace
from sluicemq.spark.transfer import ChunkServer

log = logging.getLogger(__name__)

WATCH_S: Final = 0.5
LAST_WORD_S: Final = 1.0
"""How long the end of a query waits to hear that the batch that is out was committed."""

LAST_WORD_STEP_S: Final = 0.01

ACKS_WRITTEN_S: Final = 1.0
"""How long to wait until acknowledgements are written. Without it a planner that Spark kills at the
end of a query takes them with it, and the last batch comes again."""

GATHER_STEP_S: Final = 0.005
FLOW_PER_S: Final = 50_000
"""A batch that is not full waits for more while so many rows a second come, as seen each step."""

BYTES_UNLIMITED: Final = 2**62

Name = tuple[str, str | None]
"""Queue and message id."""

START: Final[Offset] = {"session": "", "pos": {}, "serial": 0}


class Planned:
    """A chunk in a batch: whose, up to which position, under which number it is served."""

    __slots__ = ("chunk", "lane", "number", "position")

    def __init__(self, lane: str, position: int, chunk: Chunk, number: int) -> None:
        self.lane = lane
        self.position = position
        self.chunk = chunk
        self.number = number


class Session:
    """See above. For the planner's one thread, and one that watches for commits (`_watch`)."""

    def __init__(self, options: Options) -> None:
        self.id = uuid.uuid4().hex
        self._options = options
        self._ledger = (
            Ledger(options.ledger, options.dedup_window) if options.exactly_once else None
        )
        self._scratch = Scratch()
        self._news = threading.Condition()
        self._signs = Signs(self.id, options.checkpoint_location)
        self._server = serve_chunks(options)
        self._books = threading.RLock()
        """For what is planned and served."""
        self._planned: list[Planned] = []
        self._replayed: list[Chunk] = []
        self._serial = -1
        self._turn = 0
        self._pace = Pace(options, time.monotonic())
        self._rows_planned = 0
        """In the last batch."""
        self._rows_bound = ROWS_UNLIMITED
        """Of a batch: what the broker's consumer_timeout lets through."""
        self._left: dict[str, int] | None = None
        """Trigger.AvailableNow: how many messages of each queue are still to come."""
        self._checked: set[str] = set()
        """Queues that count messages and send none, seen to be no streams."""
        self._ended = False
        lanes = len(options.queues) * options.consumers_per_queue
        self._lane_bytes = -(-options.max_bytes_per_batch // lanes)
        self._lanes: list[Lane] = []
        self._watching: threading.Thread | None = None
        self._closing = False

    def open(self) -> None:
        """Begin to gather."""
        if self._lanes:
            return
        options = self._options
        for queue in options.queues:
            for number in range(options.consumers_per_queue):
                name = f"{queue}#{number + 1}" if number else queue
                self._lanes.append(Lane(options, queue, name, self._news, self._lane_bytes))
        self._watching = threading.Thread(target=self._watch, args=(os.getppid(),), daemon=True)
        self._watching.start()

    def close(self) -> None:
        """End; what is not acknowledged goes back to the queues. A batch that is out may have been
        committed just now: that is waited for a little."""
        deadline = time.monotonic() + LAST_WORD_S
        while self._planned and self._signs.is_possible and time.monotonic() < deadline:
            time.sleep(LAST_WORD_STEP_S)
        self._closing = True
        self._signs.interrupt()
        if self._watching is not None:
            self._watching.join(LAST_WORD_S)
        self._signs.close()
        self._part()
        self._server.close()

    def _part(self) -> None:
        """Take leave of the broker, in so many words: it has heard everything then."""
        with self._books:
            lanes, self._lanes = self._lanes, []
        for lane in lanes:
            lane.stop()

    # What Spark asks

    def limit_to_available(self) -> None:
        """Take what is in the queues now, and no more."""
        self._left = count_ready(self._options)
        for queue, count in self._left.items():
            if not count:  # of a stream the broker may count nothing
                refuse_stream(self._options, queue)

    def plan(self, start: Offset, rows_max: int) -> Offset:
        """The end of the next batch; `start` itself when there is nothing. `start` is safe."""
        if self._ended:
            return start
        self.open()
        self._align(start.get("serial", 0))
        self.confirm(start)
        self._pace.trigger(time.monotonic())
        rows_max = self._resume(rows_max)
        chunks: list[Chunk] = []
        if self._wait_for_rows():
            rows_max = min(rows_max, self._pace.room(time.monotonic()))
            self._wait_for_more(rows_max)
            chunks = self._take(rows_max)
        if not chunks:
            if self._left is not None:
                self._part()
                self._ended = True
            return start
        self._rows_planned = sum(chunk.rows for chunk in chunks)
        self._pace.planned(self._rows_planned, time.monotonic())
        self._serial = start.get("serial", 0) + 1
        if self._ledger is not None:
            self._ledger.record(self._serial, self._mark_known(chunks))
        pos = {lane.name: lane.taken for lane in self._lanes}
        return {"session": self.id, "pos": pos, "serial": self._serial}

    def confirm(self, offset: Offset) -> None:
        """Spark has everything up to there in its checkpoint."""
        if offset["session"] != self.id:
            return
        gone = offset["pos"]
        with self._books:
            lanes = self._lanes[:]
            for lane in lanes:
                self._server.withdraw(lane.acknowledge(gone.get(lane.name, 0)))
            self._planned = [p for p in self._planned if p.position > gone.get(p.lane, 0)]
            self._server.withdraw(self._replayed)
            self._replayed.clear()
        deadline = time.monotonic() + ACKS_WRITTEN_S
        for lane in lanes:
            lane.await_written(deadline)

    def batch(self, start: Offset, end: Offset) -> list[tuple[int, int]]:
        """(number, rows) of the chunks from `start` to `end`, in order."""
        if end["session"] != self.id:
            return self._replay(end) if start != end else []
        first = start["pos"] if start["session"] == self.id else {}
        return [
            (each.number, each.chunk.rows)
            for each in self._planned
            if first.get(each.lane, 0) < each.position <= end["pos"].get(each.lane, 0)
        ]

    def gathered(self) -> Offset:
        """Where a batch could end now, and which brokers are away since how many seconds."""
        pos = {lane.name: lane.taken + lane.waiting_rows() for lane in self._lanes}
        found = {"session": self.id, "pos": pos, "serial": max(self._serial, 0)}
        away = {lane.name: lane.outage.seconds for lane in self._lanes if lane.outage.attempts}
        return (
            found | {"away_s": {name: round(s, 1) for name, s in away.items()}} if away else found
        )

    @property
    def address(self) -> tuple[str, int]:
        return self._server.address

    @property
    def token(self) -> str:
        return self._server.token

    # Gathering

    def _resume(self, rows_max: int) -> int:
        """Have all lanes fetch; how many rows the batch may have. One that took longer than the
        broker waits for its acknowledgement comes again for ever, unless it becomes smaller."""
        if any(lane.overdue_rows for lane in self._lanes):
            self._rows_bound = max(1, min(self._rows_bound, self._rows_planned) // 2)
        rows_max = min(rows_max, self._rows_bound)
        # The next trigger may be far: connections are waited for as long as one try may take.
        deadline = time.monotonic() + self._options.timeout_ms / 1000
        for lane in self._lanes:
            lane.overdue_rows = 0
            lane.resume(min(rows_max, self._pace.chunk_rows))
            if self._left is not None:
                self._left[lane.queue] += lane.lost_rows
                lane.lost_rows = 0
        for lane in self._lanes:
            lane.tried.wait(deadline - time.monotonic())
        return rows_max

    def _wait_for_rows(self) -> bool:
        """Until there is a batch, or it is time to say that there is none: False."""
        options = self._options
        deadline = time.monotonic() + options.poll_timeout_ms / 1000
        patience = time.monotonic() + options.timeout_ms / 1000
        while not self._is_due():
            self._raise_failure()
            now = time.monotonic()
            lanes = self._wanted()
            if any(lane.outage.attempts or lane.waiting_rows() for lane in lanes):
                patience = now + options.timeout_ms / 1000  # they have their own
            if self._left is None:
                if now >= deadline:
                    return False
            elif not lanes:
                return False
            elif now > patience:
                self._give_up()
            elif all(lane.quiet.is_set() for lane in lanes):
                self._forget_gone()
            with self._news:
                self._news.wait(0.02)
        self._raise_failure()
        return True

    def _is_due(self) -> bool:
        """Do rows wait that are a batch?"""
        now = time.monotonic()
        lanes = self._wanted()
        rows = sum(lane.waiting_rows() for lane in lanes)
        if not rows or not self._pace.room(now):
            return False
        if self._left is not None or self._pace.enough(rows, now):
            return True
        return any(lane.waiting_bytes() >= self._lane_bytes for lane in lanes)

    def _wait_for_more(self, rows_max: int) -> None:
        """While they come fast, a batch that is not full. What a batch costs besides its rows is
        worth some ten thousands of them; of fewer it is made at once, for those that come while it
        runs are the next one: the more come, the larger batches are."""
        options = self._options
        deadline = time.monotonic() + options.poll_timeout_ms / 1000
        looked_at, rows = time.monotonic(), 0
        while (now := time.monotonic()) < deadline:
            lanes = self._wanted()
            before, rows = rows, sum(lane.waiting_rows() for lane in lanes)
            if rows - before <= FLOW_PER_S * (now - looked_at) or rows >= rows_max:
                return
            if sum(lane.waiting_bytes() for lane in lanes) >= options.max_bytes_per_batch:
                return
            looked_at = now
            time.sleep(GATHER_STEP_S)

    def _wanted(self) -> list[Lane]:
        """The lanes that may still give something."""
        left = self._left
        if left is None:
            return self._lanes
        return [lane for lane in self._lanes if left[lane.queue] > 0]

    def _forget_gone(self) -> None:
        """The queues are silent before all came that was counted: others may have taken it."""
        assert self._left is not None
        ready = count_ready(self._options)
        with self._news:
            # What was on its way to us was not ready any more.
            self._news.wait(self._options.poll_timeout_ms / 1000)
        coming = {lane.queue for lane in self._lanes if lane.waiting_rows()}
        for queue in self._left:
            if queue in coming:
                continue
            if not ready[queue]:
                self._left[queue] = 0
            elif queue not in self._checked:
                self._checked.add(queue)
                refuse_stream(self._options, queue)

    def _give_up(self) -> None:
        """What was counted is there, and does not come."""
        assert self._left is not None
        left = {queue: count for queue, count in self._left.items() if count > 0}
        if self._options.fail_on_data_loss:
            queues = ", ".join(f"{count} of queue {queue!r}" for queue, count in left.items())
            raise AmqpError(
                f"messages that were counted do not come in {self._options.timeout_ms / 1000:g} s:"
                f" {queues} (failOnDataLoss = true)"
            )
        self._left.update(dict.fromkeys(left, 0))

    def _raise_failure(self) -> None:
        for lane in self._lanes:
            if lane.failure is not None:
                raise lane.failure

    def _take(self, rows_max: int) -> list[Chunk]:
        """Chunks within the limits, the lanes in turn."""
        bytes_left = self._options.max_bytes_per_batch
        lanes = self._wanted()
        # A chunk may be from before batches were halved.
        least = min(filter(None, (lane.first_rows() for lane in lanes)), default=0)
        rows_max = max(rows_max, least)
        self._turn += 1
        taken: list[Chunk] = []
        for index in range(len(lanes)):
            lane = lanes[(self._turn + index) % len(lanes)]
            position = lane.taken
            for chunk in lane.take(rows_max, bytes_left):
                rows_max -= chunk.rows
                bytes_left -= chunk.bytes
                position += chunk.rows
                if self._left is not None:
                    self._left[lane.queue] -= chunk.rows
                with self._books:
                    number = self._server.offer(chunk)
                    self._planned.append(Planned(lane.name, position, chunk, number))
                taken.append(chunk)
        return taken

    # Exactly once

    def _align(self, serial: int) -> None:
        if self._ledger is not None and self._serial != serial:
            self._ledger.align(serial)
            self._serial = serial

    def _mark_known(self, chunks: Iterable[Chunk]) -> list[Part]:
        """Have executors skip what has come before; what the others are."""
        assert self._ledger is not None
        batch: defaultdict[str, set[str]] = defaultdict(set)
        parts: list[Part] = []
        for chunk in chunks:
            ids, rows = self._named(chunk)
            repeats = self._ledger.repeats(chunk.queue, ids, batch[chunk.queue])
            chunk.skip += [rows[place] for place in repeats]
            for place in reversed(repeats):
                del ids[place]
            parts.append(Part(chunk.queue, chunk.rows, ids))
        return parts

    def _named(self, chunk: Chunk) -> tuple[list[str], Sequence[int]]:
        """The ids of a chunk, and whose they are; what has none is treated as the options say."""
        ids = chunk.ids(self._scratch)
        if None not in ids:
            return cast("list[str]", ids), range(len(ids))
        do = self._options.messages_without_id
        if do == FAIL:
            raise AmqpError(
                f"exactlyOnce = true: a message in queue {chunk.queue!r} has no message_id"
                " (messagesWithoutId = fail; skip and deadLetter go on without it)"
            )
        nameless = [row for row, each in enumerate(ids) if each is None]
        chunk.skip = nameless
        if do == DEAD_LETTER:
            chunk.rejected = nameless[:]
        log.warning(
            "queue %r: %d messages without message_id (messagesWithoutId = %s)",
            *(chunk.queue, len(nameless), do),
        )
        rows = [row for row, each in enumerate(ids) if each is not None]
        return [each for each in ids if each is not None], rows

    def _replay(self, end: Offset) -> list[tuple[int, int]]:
        """The batch of a session before this one, once more: the same rows in the same tasks and
        order, for a sink may have named them by their place."""
        if self._ledger is None:
            return []
        serial = end.get("serial", 0)
        self.open()
        self._align(serial)
        parts = self._ledger.batch(serial)
        if parts is None:
            return self._lost(f"the ledger does not know batch {serial}")
        deadline = time.monotonic() + self._options.timeout_ms / 1000
        for lane in self._lanes:
            lane.bound(BYTES_UNLIMITED)  # the batch may stand behind more than that
        wanted: set[Name] = {(part.queue, name) for part in parts for name in part.ids}
        while True:
            found = self._find(wanted)
            if len(found) == len(wanted):
                break
            self._raise_failure()
            if any(lane.outage.attempts for lane in self._lanes):
                deadline = time.monotonic() + self._options.timeout_ms / 1000
            if time.monotonic() > deadline:
                missing = len(wanted) - len(found)
                self._lost(f"{missing} messages of batch {serial} did not come back")
                break
            with self._news:
                self._news.wait(0.1)
        for lane in self._lanes:
            lane.bound(self._lane_bytes)
        chunks: list[tuple[int, int]] = []
        for part in parts:
            keys = [(part.queue, name) for name in part.ids]
            chunk = Chunk.of(part.queue, [found[key] for key in keys if key in found])
            with self._books:
                self._replayed.append(chunk)
                chunks.append((self._server.offer(chunk), part.rows))
        return chunks

    def _find(self, wanted: set[Name]) -> dict[Name, Message]:
        """Those of them that wait, the first of each id."""
        found: dict[Name, Message] = {}
        for lane in self._lanes:
            for chunk in lane.peek():
                keys = [(lane.queue, each) for each in chunk.ids(self._scratch)]
                if wanted.isdisjoint(keys):
                    continue
                for key, message in zip(keys, chunk.messages(), strict=True):
                    if key in wanted:
                        found.setdefault(key, message)
        return found

    def _lost(self, what: str) -> list[tuple[int, int]]:
        if self._options.fail_on_data_loss:
            queues = ", ".join(self._options.queues)
            raise AmqpError(f"queues {queues}: {what} (failOnDataLoss = true)")
        return []

    def _watch(self, parent: int) -> None:
        """Acknowledge batches when they are committed. And a planner whose parent has died must not
        keep messages from the next one."""
        while os.getppid() == parent:
            committed = self._signs.wait(WATCH_S, is_looking=bool(self._planned))
            if committed is not None:
                self.confirm(committed)
            if self._closing:
                return
        for lane in self._lanes:
            lane.abandon()


def serve_chunks(options: Options) -> ChunkServer:
    """At an address of this machine."""
    host, bind, port = options.transfer_host, options.transfer_bind, options.transfer_port
    try:
        return ChunkServer(host, bind, port)
    except OSError as error:
        given = f"transferBind = {bind!r}" if bind else f"transferHost = {host!r}"
        at = f", transferPort = {port}" if port else ""
        raise AmqpError(f"{given}{at}: cannot listen there: {error}") from error


def count_ready(options: Options) -> dict[str, int]:
    """Messages ready in each queue."""

    def count(attempt: int) -> dict[str, int]:
        addresses = options.addresses
        address = addresses[attempt % len(addresses)]
        name = "sluicemq spark count"
        with BlockingClient(address, options.timeout_ms / 1000, name, options.tls) as client:
            found: dict[str, int] = {}
            for queue in options.queues:
                counts = client.count_queue(queue)
                if counts is None:
                    raise AmqpError(f"queue = {queue!r}: {address} has no such queue")
                found[queue] = counts.messages_ready
            return found

    return persistently(options, f"queues {', '.join(options.queues)}", count)
