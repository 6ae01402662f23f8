"""The planner of a streaming query over queues: consumers, positions, and Spark's commits.

It lives as long as the planner process, which is a session. An offset is

    {"session": id, "pos": {consumer: position of its last message}, "serial": number of the batch}

A consumer's name stands for one life of it, in one process (`consumer_assignment.py`); its
positions count from 1.

A batch of another session cannot be read again: none of it was acknowledged, so the broker has
requeued it and it comes anew, flagged redelivered. It reads as empty, as do chunks whose process is
lost; but if a ledger has its ids, it is put together again from the messages that come.

An offset with `"called"`, the number of a call, ends a batch without rows: its tasks start
processes on their executors.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeVar, cast

from sluicemq.spark.available_now import AvailableNow
from sluicemq.spark.batch_ids import BatchIds, BatchPart
from sluicemq.spark.chunks import GatheredChunk, Message
from sluicemq.spark.commits import LAST_WORD_S, CommitSigns, Offset
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.consumer_assignment import AnyConsumer, ConsumerAssignment, Group
from sluicemq.spark.consumer_groups import BYTES_UNLIMITED, ConsumerGroup, MessageKey, TakenChunk
from sluicemq.spark.discovery import QueueDiscovery, count_ready
from sluicemq.spark.figures import Figures
from sluicemq.spark.gatherer_start import GathererCall
from sluicemq.spark.option_declaration import DEAD_LETTER, FAIL
from sluicemq.spark.options import Options
from sluicemq.spark.pacing import ROWS_UNLIMITED, Pace
from sluicemq.spark.queue_kinds import refuse_stream
from sluicemq.spark.transfer import ChunkServer, Endpoint

log = logging.getLogger(__name__)

WATCH_S: Final = 0.5
PAUSE_S: Final = 5.0
"""Seconds after a failed acknowledgement, before it is tried again."""

CLOSING_S: Final = 3 * LAST_WORD_S
"""Seconds for which leases are renewed once the end has begun: longer than the end takes, unless it
hangs."""

ACKS_WRITTEN_S: Final = 1.0
"""Seconds to wait until acknowledgements are written. Otherwise a planner that Spark kills at the
end of a query would not have written them, and the last batch would come again."""

GATHER_STEP_S: Final = 0.005
FLOW_PER_S: Final = 50_000
"""A batch that is not full waits for more while this many rows a second come, as measured in each
step."""


Each = TypeVar("Each")

START_OVER_S: Final = 5.0
"""When no more messages of a batch that runs again have come for this many seconds, all are given
back."""

START: Final[Offset] = {"session": "", "pos": {}, "serial": 0}


class ChunkToFetch(NamedTuple):
    """A chunk of a batch for a task to fetch: the process that has it, its number there, and the
    rows in it, from 0, to leave out because they have come before. `is_planners` tells that the
    planner itself has it."""

    endpoint: Endpoint
    number: int
    skip: list[int]
    is_planners: bool


class PlannedChunk:
    """A chunk that was put into a batch, and the group of consumers that has it."""

    __slots__ = ("group", "skip", "taken")

    def __init__(self, group: Group, taken: TakenChunk) -> None:
        self.group = group
        self.taken = taken
        self.skip: list[int] = []


class StreamPlanner:
    """Plans the batches of a streaming query over queues, and has messages acknowledged when Spark
    has committed them. Public methods are for the planner's one thread; other threads watch for
    commits (`_watch`) and renew leases (`_beat`)."""

    def __init__(self, options: Options) -> None:
        self.id = uuid.uuid4().hex
        self._options = options
        self._search = QueueDiscovery(options)
        self._batch_ids = (
            BatchIds(options.ledger, options.dedup_window, self.id)
            if options.exactly_once
            else None
        )
        self._news = threading.Condition()
        self._signs = CommitSigns(self.id, options.checkpoint_location)
        try:
            self._server = serve_chunks(options)
        except BaseException:
            self._signs.close()
            raise
        self._books = threading.RLock()
        """Guards the planned and the served chunks."""
        self._planned: list[PlannedChunk] = []
        self._replayed: list[GatheredChunk] = []
        self._serial = -1
        self._turn = 0
        self._pace = Pace(options, time.monotonic())
        self._figures = Figures(options, self._search.queues)
        self._rows_planned = 0
        """The number of rows in the last batch."""
        self._piece_rows = ROWS_UNLIMITED
        """The most rows of one piece."""
        self._rows_bound = ROWS_UNLIMITED
        """The most rows of a batch that can be acknowledged within the broker's
        consumer_timeout."""
        self._available: AvailableNow | None = None
        """With Trigger.AvailableNow: the messages that are still to come; None without it."""
        self._checked: set[str] = set()
        """Queues that count messages and send none, and were found to be no streams."""
        self._ended = False
        self._assignment = ConsumerAssignment(
            self.id, options, self._search.queues, self._news, self._server
        )
        self._gone: set[str] = set()
        """Consumers whose queues are gone, and some of whose messages may still be
        unacknowledged."""
        self._called = 0
        """How often executors were asked to start processes."""
        self._watching: threading.Thread | None = None
        self._closing = threading.Event()
        self._is_over = threading.Event()
        """Set when all gathering processes have been told to end."""
        self._beats_until = float("inf")
        self._is_orphan = False
        """True when the program with this planner's query has ended: there is nothing to wait
        for."""

    def open(self) -> None:
        """Begin to gather, unless that was done before."""
        if self._watching is not None:
            return
        beating = threading.Thread(target=self._beat, args=(os.getppid(),), daemon=True)
        beating.start()
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()
        if self._available is None:
            self._search.open()
        self._assignment.open()

    def close(self) -> None:
        """End the query's life here: acknowledge committed batches, after asking the checkpoint and
        the driver once more, and give everything else back to the queues."""
        self._beats_until = time.monotonic() + CLOSING_S
        self._closing.set()
        self._search.close()
        self._signs.interrupt()
        if self._watching is not None:
            self._watching.join(LAST_WORD_S)
        if self._planned:
            self._hear_last_words()
        self._signs.close()
        self._part()
        self._is_over.set()
        self._figures.close()
        self._server.close()

    def _hear_last_words(self) -> None:
        try:
            for committed in self._signs.last_words():
                self.confirm(committed)
        except Exception:
            # The caller goes on to close the connections to the broker and to gathering processes.
            log.exception("what was committed last may come again")

    def _part(self) -> None:
        """Stop the consumers in order, so that the broker gets all acknowledgements."""
        self._assignment.stop()

    # What Spark asks

    def limit_to_available(self) -> None:
        """Count the messages that are in the queues now, and read only that many."""
        queues = self._search.queues
        counted = count_ready(self._options, queues)
        self._available = AvailableNow(self._options, dict.fromkeys(queues, 0) | counted)
        for queue, count in counted.items():
            if not count:  # the broker may count no messages of a stream
                refuse_stream(self._options, queue)

    def plan(self, start: Offset, rows_max: int) -> Offset:
        """Return the end of the next batch, of at most `rows_max` rows; `start` itself when there
        is none now. `start` is committed, and is confirmed first. Raises `AmqpError` when a
        consumer failed."""
        if self._ended:
            return start
        self.open()
        self._align(start)
        self.confirm(start)
        self._look_around()
        self._tend()
        if not self._search.queues and not self._consumers:
            self._closing.wait(self._options.poll_timeout_ms / 1000)
            return start
        if not self._assignment.groups:
            return self._call_up(start)
        self._pace.trigger(time.monotonic())
        rows_max = self._resume(rows_max)
        taken = self._gather(rows_max)
        if not self._assignment.groups:
            return self._call_up(start)
        if not taken:
            if self._available is not None:
                self._part()
                self._ended = True
            return start
        self._rows_planned = sum(each.taken.rows for each in taken)
        self._figures.taken(each.taken for each in taken)
        self._pace.planned(self._rows_planned, time.monotonic())
        self._serial = start.get("serial", 0) + 1
        if self._batch_ids is not None:
            self._batch_ids.record(self._serial, self._mark_known(taken))
        return self._end()

    def _end(self) -> Offset:
        """Return the end offset of the planned batch."""
        pos = {consumer.name: consumer.taken for consumer in self._consumers}
        end = {"session": self.id, "pos": pos, "serial": max(self._serial, 0)}
        return end if self._batch_ids is None else end | {"ledger": self._batch_ids.id}

    def _call_up(self, start: Offset) -> Offset:
        """Return the end of a batch without rows, whose tasks start gathering processes."""
        self._assignment.call_up()
        self._called += 1
        self._serial = start.get("serial", 0)
        return self._end() | {"called": self._called}

    def _look_around(self) -> None:
        """Drop the consumers of deleted queues, and add new queues, unless the query reads only
        what was there when it began."""
        self._let_go()
        with self._books:
            done = self._gone - {each.taken.consumer for each in self._planned}
        self._assignment.drop(done)
        self._gone -= done
        if self._available is None and self._search.take_in():
            self._assignment.grow()

    def _let_go(self) -> set[str]:
        """Note consumers whose queues are gone, and return these queues. Each consumer counts once:
        there may be another queue of that name by now, with other consumers."""
        gone = [consumer for consumer in self._consumers if consumer.is_gone]
        for consumer in gone:
            if consumer.name not in self._gone:
                self._gone.add(consumer.name)
                self._search.drop(consumer.queue)
        return {consumer.queue for consumer in gone}

    def _tend(self) -> None:
        """Replace lost consumers. With Trigger.AvailableNow their messages are waited for again,
        unless the queues are gone."""
        lost = self._assignment.tend()
        gone = self._let_go()
        if self._available is None:
            return
        with self._news:
            for view in lost:
                # Not the planned ones: their batch may be committed, and never acknowledged.
                self._available.again(view.queue, view.unsettled_rows())
            for consumer in (*lost, *self._consumers):
                self._available.again(consumer.queue, consumer.lost_rows)
                consumer.lost_rows = 0
            self._available.forget(gone)

    def confirm(self, offset: Offset) -> None:
        """Acknowledge all messages up to this offset, because Spark has it in its checkpoint.
        Offsets of other sessions are ignored."""
        if offset["session"] != self.id:
            return
        if self._batch_ids is not None:
            self._batch_ids.settle()
        gone = offset["pos"]
        with self._books:
            groups = self._assignment.groups[:]
            for group in groups:
                group.acknowledge(gone)
            self._planned = [
                p for p in self._planned if p.taken.position > gone.get(p.taken.consumer, 0)
            ]
            self._server.withdraw(self._replayed)
            self._replayed.clear()
        deadline = time.monotonic() + ACKS_WRITTEN_S
        for group in groups:
            group.await_written(deadline)

    def batch(self, start: Offset, end: Offset) -> list[tuple[ChunkToFetch, int]]:
        """Return the chunks between two offsets, in order, each with its number of rows. A batch of
        another session is put together again from the ledger, and is empty without one. Raises
        `AmqpError` when messages of it are missing and failOnDataLoss is true."""
        if end["session"] != self.id:
            is_empty = start.get("serial", 0) == end.get("serial", 0)
            return self._replay(end) if not is_empty else []
        first = start["pos"] if start["session"] == self.id else {}
        found: list[tuple[ChunkToFetch, int]] = []
        for group, taken, skip in ((p.group, p.taken, p.skip) for p in self._planned):
            if first.get(taken.consumer, 0) < taken.position <= end["pos"].get(taken.consumer, 0):
                is_here = isinstance(group, ConsumerGroup)
                piece = ChunkToFetch(group.endpoint, taken.number, skip, is_here)
                found.append((piece, taken.rows))
        return found

    def call(self, start: Offset, end: Offset) -> tuple[GathererCall | None, int]:
        """Return the data with which tasks of the batch start a gathering process on their executor
        (None: they must not), and how many tasks to run for that alone."""
        is_called = end["session"] == self.id and end.get("called") not in (
            None,
            start.get("called"),
        )
        return self._assignment.call, self._options.gatherers if is_called else 0

    def gathered(self) -> Offset:
        """Return the offset at which a batch could end now, with the figures of each queue, and
        with the seconds for which brokers have been away, by consumer."""
        pos = {
            consumer.name: consumer.taken + consumer.waiting_rows() for consumer in self._consumers
        }
        found = {"session": self.id, "pos": pos, "serial": max(self._serial, 0)}
        with self._books:
            planned = [each.taken for each in self._planned]
        found["queues"] = self._figures.report(self._consumers, planned)
        away = {
            consumer.name: consumer.outage.seconds
            for consumer in self._consumers
            if consumer.outage.attempts
        }
        return (
            found | {"away_s": {name: round(s, 1) for name, s in away.items()}} if away else found
        )

    @property
    def endpoint(self) -> Endpoint:
        """The address of the planner's own chunk server."""
        return self._server.endpoint

    @property
    def _consumers(self) -> list[AnyConsumer]:
        return self._assignment.consumers

    # Gathering

    def _gather(self, rows_max: int) -> list[PlannedChunk]:
        """Return the chunks of the next batch; none when there is none now."""
        while self._wait_for_rows():
            rows = min(rows_max, self._pace.room(time.monotonic()))
            self._wait_for_more(rows)
            taken = self._take(rows)
            if taken or not self._is_more_to_come():
                return taken
        return []

    def _resume(self, rows_max: int) -> int:
        """Have all consumers fetch, and return how many rows the batch may have. A batch for which
        the broker's patience with unacknowledged messages was too short would come again for ever,
        so the next ones are half as large."""
        if any(consumer.overdue_rows for consumer in self._consumers):
            self._rows_bound = max(1, min(self._rows_bound, self._rows_planned) // 2)
        rows_max = min(rows_max, self._rows_bound)
        # The next trigger may be far, so wait for connections as long as one try may take.
        deadline = time.monotonic() + self._options.timeout_ms / 1000
        self._piece_rows = min(rows_max, self._pace.chunk_rows)
        for consumer in self._consumers:
            consumer.overdue_rows = 0
            consumer.resume(self._piece_rows)
        for consumer in self._consumers:
            consumer.tried.wait(deadline - time.monotonic())
        return rows_max

    def _wait_for_rows(self) -> bool:
        """Wait for a batch; return False when there is none in time."""
        options = self._options
        deadline = time.monotonic() + options.poll_timeout_ms / 1000
        available = self._available
        if available is not None:
            available.begin(time.monotonic())
        while not self._is_due():
            self._tend()
            if not self._assignment.groups:
                return False
            self._raise_failure()
            if available is None:
                if time.monotonic() >= deadline:
                    return False
            elif not self._await_counted(available):
                return False
            with self._news:
                self._news.wait(0.02)
        self._raise_failure()
        return True

    def _is_due(self) -> bool:
        """Return whether the waiting rows are enough for a batch."""
        now = time.monotonic()
        consumers = self._wanted()
        rows = sum(consumer.waiting_rows() for consumer in consumers)
        if not rows or not self._pace.room(now):
            return False
        if self._available is not None or self._pace.enough(rows, now):
            return True
        return any(
            consumer.waiting_bytes() >= self._assignment.consumer_bytes for consumer in consumers
        )

    def _wait_for_more(self, rows_max: int) -> None:
        """Wait while a batch is not full and messages come fast, because a batch costs as much as
        some ten thousand rows besides its own. At a slower pace it is made at once; those that come
        while it runs are the next one: the faster they come, the larger batches are."""
        options = self._options
        deadline = time.monotonic() + options.poll_timeout_ms / 1000
        looked_at, rows = time.monotonic(), 0
        while (now := time.monotonic()) < deadline:
            consumers = self._wanted()
            before, rows = rows, sum(consumer.waiting_rows() for consumer in consumers)
            if rows - before <= FLOW_PER_S * (now - looked_at) or rows >= rows_max:
                return
            if (
                sum(consumer.waiting_bytes() for consumer in consumers)
                >= options.max_bytes_per_batch
            ):
                return
            looked_at = now
            time.sleep(GATHER_STEP_S)

    def _wanted(self) -> list[AnyConsumer]:
        """Return the consumers whose messages are still wanted."""
        return (
            self._consumers if self._available is None else self._available.wanted(self._consumers)
        )

    def _is_more_to_come(self) -> bool:
        """Return whether messages come although none could be taken: those that waited have gone
        back to the broker, with their connection or process, and come again."""
        if any(group.is_lost for group in self._assignment.groups):
            return True
        return self._available is not None and bool(self._assignment.groups and self._wanted())

    def _await_counted(self, available: AvailableNow) -> bool:
        """Look after counted messages that do not come; return False when none are left."""
        consumers = self._wanted()
        if not consumers:
            return False
        for consumer in consumers:
            consumer.resume(self._piece_rows)  # only this resumes those that were parked meanwhile
        if available.is_over(self._assignment.groups, time.monotonic()):
            ready = count_ready(self._options, self._search.queues)
            available.give_up(self._assignment.groups, ready)
        elif all(consumer.quiet.is_set() for consumer in consumers):
            self._forget_gone(available)
        return True

    def _forget_gone(self, available: AvailableNow) -> None:
        """Stop waiting for silent queues without ready messages: others may have taken them."""
        ready = count_ready(self._options, self._search.queues)
        with self._news:
            # Messages on their way to us were not ready any more.
            self._news.wait(self._options.poll_timeout_ms / 1000)
        coming = {consumer.queue for consumer in self._consumers if consumer.waiting_rows()}
        for queue, count in ready.items():
            if queue in coming:
                continue
            if not count:
                available.forget([queue])
            elif queue not in self._checked:
                self._checked.add(queue)
                refuse_stream(self._options, queue)

    def _raise_failure(self) -> None:
        if self._is_orphan:
            raise AmqpError("the program whose query this is has ended")
        for consumer in self._consumers:
            if consumer.failure is not None:
                raise consumer.failure

    def _take(self, rows_max: int) -> list[PlannedChunk]:
        """Take chunks within the limits, from the consumers in turn."""
        bytes_left = self._options.max_bytes_per_batch
        consumers = self._wanted()
        # A chunk may be older than the halving of batches.
        least = min(filter(None, (consumer.first_rows() for consumer in consumers)), default=0)
        rows_max = max(rows_max, least)
        self._turn += 1
        planned: list[PlannedChunk] = []
        for group in turned(self._assignment.groups, self._turn):
            names = [
                consumer.name
                for consumer in turned(group.consumers, self._turn)
                if consumer in consumers
            ]
            with self._books:
                found = group.take(names, rows_max, bytes_left, self._batch_ids is not None)
                fresh = [PlannedChunk(group, taken) for taken in found]
                self._planned += fresh
            planned += fresh
            rows_max -= sum(taken.rows for taken in found)
            bytes_left -= sum(taken.bytes for taken in found)
            if self._available is not None:
                for taken in found:
                    self._available.taken(taken.queue, taken.rows)
        return planned

    # Exactly once

    def _align(self, offset: Offset) -> None:
        serial = offset.get("serial", 0)
        if self._batch_ids is not None and self._serial != serial:
            self._batch_ids.align(serial, offset.get("ledger", ""))
            self._serial = serial

    def _mark_known(self, planned: Iterable[PlannedChunk]) -> list[BatchPart]:
        """Have executors skip messages that have come before; return the ids of the others."""
        assert self._batch_ids is not None
        batch: defaultdict[str, set[str]] = defaultdict(set)
        parts: list[BatchPart] = []
        for each in planned:
            queue = each.taken.queue
            ids, rows = self._named(each)
            repeats = self._batch_ids.repeats(queue, ids, batch[queue])
            each.skip += [rows[place] for place in repeats]
            for place in reversed(repeats):
                del ids[place]
            parts.append(BatchPart(queue, each.taken.rows, ids))
        return parts

    def _named(self, planned: PlannedChunk) -> tuple[list[str], Sequence[int]]:
        """Return the ids of a chunk, and their rows; the options decide on messages without an
        id."""
        taken = planned.taken
        ids = taken.ids
        assert ids is not None
        if None not in ids:
            return cast("list[str]", ids), range(len(ids))
        do = self._options.messages_without_id
        if do == FAIL:
            raise AmqpError(
                f"exactlyOnce = true: a message in queue {taken.queue!r} has no message_id"
                " (messagesWithoutId = fail; skip and deadLetter go on without it)"
            )
        nameless = [row for row, each in enumerate(ids) if each is None]
        planned.skip = nameless
        if do == DEAD_LETTER:
            planned.group.reject(taken.number, nameless[:])
        log.warning(
            "queue %r: %d messages without message_id (messagesWithoutId = %s)",
            *(taken.queue, len(nameless), do),
        )
        rows = [row for row, each in enumerate(ids) if each is not None]
        return [each for each in ids if each is not None], rows

    def _replay(self, end: Offset) -> list[tuple[ChunkToFetch, int]]:
        """Return a batch of an earlier session once more: the same rows in the same tasks and
        order, because a sink may have named them by their place."""
        if self._batch_ids is None:
            return []
        self.open()
        self._align(end)
        serial = self._serial
        parts = self._batch_ids.batch(serial)
        if parts is None:
            return self._lost(f"the ledger does not know batch {serial}")
        read = set(self._search.queues)
        gone = {part.queue for part in parts} - read
        if gone:
            names = ", ".join(map(repr, sorted(gone)))
            self._lost(f"batch {serial} has messages of {names}, which is not there or not read")
        wanted: set[MessageKey] = {
            (part.queue, name) for part in parts if part.queue in read for name in part.ids
        }
        with self._assignment.gathering_somewhere():
            found = self._find(wanted, serial)
        self._bound(self._assignment.consumer_bytes)
        pieces: list[tuple[ChunkToFetch, int]] = []
        for part in parts:
            keys = [(part.queue, name) for name in part.ids]
            chunk = GatheredChunk.of(part.queue, [found[key] for key in keys if key in found])
            with self._books:
                self._replayed.append(chunk)
                number = self._server.offer(chunk)
            pieces.append((ChunkToFetch(self.endpoint, number, [], True), part.rows))
        return pieces

    def _find(self, wanted: set[MessageKey], serial: int) -> dict[MessageKey, Message]:
        """Return copies of the messages of a batch, once all have come. Those that earlier
        gatherers give back late come after as many others as the broker sends unacknowledged."""
        found: dict[MessageKey, Message] = {}
        deadline = time.monotonic() + self._options.timeout_ms / 1000
        start_over_at = time.monotonic() + START_OVER_S
        while True:
            self._tend()
            self._bound(BYTES_UNLIMITED)  # as much may wait before the batch
            before = len(found)
            for group in self._assignment.groups:
                found |= group.find(wanted - found.keys())
            if len(found) == len(wanted):
                break
            self._raise_failure()
            now = time.monotonic()
            if len(found) > before or any(consumer.outage.attempts for consumer in self._consumers):
                deadline = now + self._options.timeout_ms / 1000
                start_over_at = now + START_OVER_S
            elif now > start_over_at:
                for group in self._assignment.groups:
                    group.start_over(BYTES_UNLIMITED)
                start_over_at = now + START_OVER_S
            if time.monotonic() > deadline:
                missing = len(wanted) - len(found)
                self._lost(f"{missing} messages of batch {serial} did not come back")
                break
            with self._news:
                self._news.wait(0.1)
        return found

    def _bound(self, bytes_max: int) -> None:
        for group in self._assignment.groups:
            group.bound(bytes_max)

    def _lost(self, what: str) -> list[tuple[ChunkToFetch, int]]:
        if self._options.fail_on_data_loss:
            raise AmqpError(f"{self._search.words}: {what} (failOnDataLoss = true)")
        return []

    def _watch(self) -> None:
        """Acknowledge batches when they are committed. Failures are logged, and tried again after a
        pause, until Spark plans the next batch or the query ends."""
        committed: Offset | None = None
        while not self._is_orphan:
            try:
                news = self._signs.wait(WATCH_S, is_looking=bool(self._planned))
                committed = news or committed
                if committed is not None:
                    self.confirm(committed)
                committed = None
            except Exception:
                log.exception("committed batches wait to be acknowledged")
                self._closing.wait(PAUSE_S)
            if self._closing.is_set():
                return

    def _beat(self, parent: int) -> None:
        """Renew the leases of gathering processes, and nothing else, because a blocked file system
        or ledger holds up `_watch`. A planner whose parent has died gives up all messages, so that
        the next one gets them."""
        while os.getppid() == parent:
            self._assignment.keep_alive()
            if self._is_over.wait(WATCH_S) or time.monotonic() > self._beats_until:
                return
        self._is_orphan = True
        self._assignment.abandon()


def turned(those: Sequence[Each], by: int) -> list[Each]:
    """Return all items, beginning with number `by` (modulo their count) and coming round to the one
    before it."""
    at = by % len(those) if those else 0
    return [*those[at:], *those[:at]]


def serve_chunks(options: Options) -> ChunkServer:
    """Start the planner's chunk server where the options say; raises `AmqpError` when it cannot
    listen there."""
    host, bind, port = options.transfer_host, options.transfer_bind, options.transfer_port
    try:
        return ChunkServer(host, bind, port, has_tls=options.transfer_tls)
    except OSError as error:
        given = f"transferBind = {bind!r}" if bind else f"transferHost = {host!r}"
        at = f", transferPort = {port}" if port else ""
        raise AmqpError(f"{given}{at}: cannot listen there: {error}") from error
