"""The limits of a classic queue: how old and how many its messages may be, and what happens to the
others.

As in RabbitMQ, only the head is checked: messages that have expired behind one that has not wait
for that one. Messages that must go are dropped or, with a dead-letter exchange, given to the
broker's own publisher like a delivery that nobody receives: they are a run, stay in the queue's
files, and are settled when they are safe elsewhere. A bounded number is under way; the others stay
where they are.

A queue without limits only checks `needs_tick`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, cast
from weakref import ref

from sluicemq.limits import (
    CONTENT_OVERHEAD_BYTES,
    DEAD_LETTER_BYTES_MAX,
    DEAD_LETTERS_MAX,
)
from sluicemq.model.batch import ENVELOPED, part_of, separate, size_of
from sluicemq.queues.classic.pieces import LIMIT_WORK, work_of
from sluicemq.queues.classic.unacked_runs import PAGED, UnackedRun
from sluicemq.queues.effects import DeadLetter, Rejected
from sluicemq.queues.settings import DROP_HEAD, NO_SETTINGS, REJECT_PUBLISH_DLX, QueueSettings

if TYPE_CHECKING:
    from sluicemq.model.batch import Batch
    from sluicemq.queues.classic.chunk import Chunk
    from sluicemq.queues.classic.head import Head
    from sluicemq.queues.commands import Publish
    from sluicemq.queues.effects import Effect

EXPIRED: Final = "expired"
REJECTED: Final = "rejected"
MAX_LENGTH: Final = "maxlen"
DELIVERY_LIMIT: Final = "delivery_limit"

SEEN_MAX: Final = 1 << 16
"""After so many messages older ones count less for what is not body."""


class Limits:
    """Keeps one queue within its limits. `now_ms` is the time of the last `enforce`, in
    milliseconds since the epoch."""

    __slots__ = (
        "_queue",
        "came_ms",
        "dead_letters",
        "expiring",
        "framing_bytes",
        "has_limit",
        "in_flight",
        "in_flight_bytes",
        "more",
        "needs_tick",
        "now_ms",
        "overdue_ms",
        "pending_dead_letters",
        "reading",
        "refuses",
        "seen",
        "seen_bytes",
        "settings",
    )

    def __init__(self, queue: Head) -> None:
        self._queue = ref(queue)
        self.settings = NO_SETTINGS
        self.now_ms = 0
        self.overdue_ms = 0
        """What expired before is not delivered any more."""
        self.needs_tick = False
        """Has anything here something to do as time passes, now or perhaps soon?"""
        self.expiring = False
        """Messages with an expiry have come, and the queue has not been empty since."""
        self.has_limit = False
        self.refuses = False
        """What does not fit is not taken."""
        self.dead_letters = False
        self.framing_bytes: int | None = None
        """What of a content is not body, on the average of those seen; None: none was."""
        self.seen = self.seen_bytes = 0
        """So many contents were measured, with so much that is not body."""
        self.in_flight = 0
        """Dead letters that are at the broker's own publisher, in messages."""
        self.in_flight_bytes = 0
        self.pending_dead_letters: deque[tuple[int, str]] | tuple[()] = ()
        """Unacknowledged runs that wait until there is room for them there, and why they died."""
        self.reading: dict[Chunk, int] = {}
        """Bodies of pending dead letters that were asked for, with their unacked_runs."""
        self.more = False
        """There is more to do than one turn may."""
        self.came_ms = 0
        """When the first of what has come since the last `enforce` expires; 0: nothing does."""

    @property
    def queue(self) -> Head:
        """Return the queue of these limits. This object must not keep it alive: a queue that ends
        is freed at once."""
        queue = self._queue()
        assert queue is not None, "limits without their queue"
        return queue

    def configure(self, settings: QueueSettings) -> None:
        """Replace the settings; they apply to existing messages, too, but these keep their
        expiries."""
        self.settings = settings
        self.has_limit = settings.has_limit
        self.refuses = self.has_limit and settings.overflow != DROP_HEAD
        self.dead_letters = settings.dead_letter_exchange is not None
        self.look()

    def look(self) -> None:
        """Set `needs_tick` by whether anything depends on the passing of time."""
        self.needs_tick = self.expiring or self.has_limit or bool(self.pending_dead_letters)

    def saw_expiry(self, expiry: int = 0) -> None:
        """Note that a message has come that expires at `expiry`, in milliseconds since the epoch;
        0: some messages from before a restart may expire."""
        self.expiring = self.needs_tick = True
        if expiry and not 0 < self.came_ms <= expiry:
            self.came_ms = expiry

    # -- each turn

    def enforce(self, now_ms: int, effects: list[Effect]) -> None:
        """Remove messages that are too old or too many at `now_ms`, in milliseconds since the
        epoch, and serve those behind them. Messages that have come since the last time can be
        delivered once, however short their life, so long as nothing older is before them."""
        queue = self.queue
        if self.came_ms:
            self.now_ms = min(self.came_ms - 1, now_ms)
            self.overdue_ms = min(self.came_ms, now_ms)
            self.expire(effects)
            self.came_ms = 0
            queue.serve(effects)
        elif not self.expiring:
            queue.serve(effects)
        self.now_ms = self.overdue_ms = now_ms
        if queue.deleted:
            self.pending_dead_letters = ()
            self.needs_tick = self.more = False
            return
        if self.pending_dead_letters:
            self.republish_pending(effects)
        self.let_go(effects)
        if self.expiring and not queue.depth.ready and not queue.unacked_runs:
            self.expiring = False
            self.look()
        queue.serve(effects)
        self.more = queue.backing.head() is not None and self.has_room() and self.surplus() > 0

    def expire(self, effects: list[Effect]) -> None:
        """Remove expired messages at the head, as many as are a turn's work."""
        left = LIMIT_WORK
        while left > 0:
            chunk = self.queue.next_chunk()
            if chunk is None or not self.is_old(chunk):
                return
            count = self.dead_letter(chunk, chunk.left(), EXPIRED, effects)
            if not count:
                return
            left -= work_of(count)

    def let_go(self, effects: list[Effect]) -> None:
        """Remove messages at the head that are too old or too many, as many as are a
        turn's work.
        """
        left = LIMIT_WORK
        while left > 0:
            count = self.surplus()
            chunk = self.queue.next_chunk() if count else None
            if chunk is None:
                return
            reason = EXPIRED if self.is_old(chunk) else MAX_LENGTH
            count = self.dead_letter(chunk, count, reason, effects)
            if not count:
                return
            left -= work_of(count)

    def is_old(self, chunk: Chunk) -> bool:
        """Tell whether the messages of a chunk have expired by `now_ms`, that time included."""
        return 0 < chunk.expiry <= self.now_ms

    def is_overdue(self, chunk: Chunk) -> bool:
        """Tell whether the messages of a chunk may not be delivered any more. One that expires at
        this very time still may."""
        return 0 < chunk.expiry < self.overdue_ms

    def surplus(self) -> int:
        """Return how many messages must go, those at the head first; 0: none. It may be more than
        the chunk at the head has."""
        ready = self.queue.depth.ready
        if not ready:
            return 0
        if self.expiring:
            chunk = self.queue.backing.first()
            if chunk is not None and self.is_old(chunk):
                return chunk.left()
        if not self.has_limit or self.refuses:
            return 0
        settings = self.settings
        count = 0 if settings.max_length is None else max(0, ready - settings.max_length)
        if settings.max_length_bytes is not None:
            count = max(count, self.surplus_of_bytes(settings.max_length_bytes))
        return count

    def surplus_of_bytes(self, most: int) -> int:
        """Return how many messages at the head must go so that the bodies have at most `most` bytes
        together. After a restart none goes before one of them was measured."""
        head = self.queue.backing.head()
        if self.framing_bytes is None and head is not None:
            self.measure(head.rest(), head.traits.envelope)
        framing = self.framing_bytes
        over = self.body_bytes() - most
        if over <= 0 or framing is None:
            return 0
        chunk = self.queue.backing.first()
        if chunk is None:
            return 1
        count = 0
        for size in chunk.rest_sizes():
            count += 1
            over -= size - framing
            if over <= 0:
                break
        return count

    def body_bytes(self) -> int:
        """Return the bytes of the bodies of the ready messages, with framing and properties taken
        off as estimated; before there is an estimate the properties count, too."""
        depth = self.queue.depth
        framing = self.framing_bytes
        each = CONTENT_OVERHEAD_BYTES if framing is None else framing
        return depth.ready_bytes - depth.ready * each

    def needs_head(self) -> bool:
        """Tell whether the message at the head must come from the disk, because it has to go, or
        because its size or expiry is not known."""
        if self.surplus():
            return self.has_room()
        if not self.queue.depth.ready:
            return False
        most = None if self.refuses else self.settings.max_length_bytes
        if most is not None and self.framing_bytes is None and self.body_bytes() > most:
            return True
        return self.expiring and self.queue.backing.first() is None

    def next_expiry(self) -> int:
        """Return when the message at the head expires, in milliseconds since the epoch; 0: never,
        or it is not known."""
        chunk = self.queue.backing.first() if self.expiring else None
        return 0 if chunk is None else chunk.expiry

    # -- messages that do not fit

    def room(self, batch: Batch, start: int) -> int:
        """Return how many of the batch's messages from `start` on may be taken now."""
        settings = self.settings
        depth = self.queue.depth
        room = len(batch.contents) - start
        if settings.max_length is not None:
            room = min(room, settings.max_length - depth.ready)
        if settings.max_length_bytes is not None:
            left = settings.max_length_bytes - self.body_bytes()
            framing = self.framing_bytes or 0
            for index, content in enumerate(batch.contents[start : start + max(0, room)]):
                left -= len(content) - framing
                if left < 0:
                    room = index
                    break
        return max(0, room)

    def measure(self, contents: list[bytes], envelope: bytes) -> None:
        """Add these contents to the average of how much of a content is not body."""
        self.seen += len(contents)
        self.seen_bytes += sum(map(len, contents))
        if envelope == ENVELOPED:
            contents = [separate(content)[1] for content in contents]
        self.seen_bytes -= sum(int.from_bytes(content[11:19]) for content in contents)
        self.framing_bytes = -(-self.seen_bytes // self.seen)
        if self.seen > SEEN_MAX:
            self.seen, self.seen_bytes = self.seen // 2, self.seen_bytes // 2

    def publish(self, command: Publish, effects: list[Effect]) -> None:
        """Store the messages of a batch that fit, and answer for all of it; messages that consumers
        take at once do not count."""
        queue = self.queue
        batch = command.batch
        if self.settings.max_length_bytes is not None:
            self.measure(batch.contents, batch.traits.envelope)
        if not self.refuses:
            queue.promise(batch, command, queue.store(batch, command.expiry), effects)
        elif command.confirm:
            self.publish_first(command, effects)
        else:
            self.publish_fitting(command, effects)

    def publish_first(self, command: Publish, effects: list[Effect]) -> None:
        """Store messages of a batch up to the first one that does not fit, and reject the others: a
        batch can be confirmed up to some message only."""
        queue = self.queue
        batch = command.batch
        count = len(batch.contents)
        taken = position = 0
        while taken < count:
            queue.serve(effects)
            room = self.room(batch, taken)
            if not room:
                break
            first = queue.store(part_of(batch, taken, taken + room), command.expiry)
            position = position if taken else first
            taken += room
        if taken == count:
            queue.promise(batch, command, position, effects)
            return
        # This comes first, because the Confirm is for all others.
        rest = Rejected(command.link, command.first_seq, taken, count - taken)
        effects.append(rest)
        if taken:
            queue.promise(part_of(batch, 0, taken), command, position, effects)
        self.refuse(part_of(batch, taken, count), effects)

    def publish_fitting(self, command: Publish, effects: list[Effect]) -> None:
        """Store each message of a batch that fits, even behind one that does not; nobody waits for
        an answer."""
        queue = self.queue
        batch = command.batch
        count = len(batch.contents)
        done = 0
        while done < count:
            queue.serve(effects)
            end = done + self.room(batch, done)
            if end > done:
                part = part_of(batch, done, end)
                queue.promise(part, command, queue.store(part, command.expiry), effects)
            else:
                end = self.next_fitting(batch, done + 1)
                self.refuse(part_of(batch, done, end), effects)
            done = end

    def next_fitting(self, batch: Batch, start: int) -> int:
        """Return which message of a batch, from `start` on, is the first that fits now; their
        number when none does."""
        settings = self.settings
        depth = self.queue.depth
        count = len(batch.contents)
        if settings.max_length_bytes is None or batch.same_size:
            return count
        if settings.max_length is not None and depth.ready >= settings.max_length:
            return count
        size_max = settings.max_length_bytes - self.body_bytes() + (self.framing_bytes or 0)
        sizes = map(len, batch.contents[start:])
        return next((at for at, size in enumerate(sizes, start) if size <= size_max), count)

    def refuse(self, batch: Batch, effects: list[Effect]) -> None:
        """Make dead letters of messages that do not fit, if the setting says so; otherwise drop
        them."""
        if self.settings.overflow == REJECT_PUBLISH_DLX and self.dead_letters:
            effects.append(DeadLetter(0, 0, batch.contents, batch.traits, MAX_LENGTH))

    # -- letting go

    def has_room(self) -> bool:
        """Tell whether another message may be dead-lettered now: too many may be on their way
        already."""
        if not self.dead_letters:
            return True
        return self.in_flight < DEAD_LETTERS_MAX and self.in_flight_bytes < DEAD_LETTER_BYTES_MAX

    def dead_letter(self, chunk: Chunk, count: int, reason: str, effects: list[Effect]) -> int:
        """Take the first `count` messages of the head chunk out of the queue, dead for `reason`: as
        many as may leave now, to the dead-letter exchange if there is one. Returns how many have
        left."""
        queue = self.queue
        count = min(count, chunk.left())
        if self.dead_letters:
            if not self.has_room():
                return 0
            count = min(count, DEAD_LETTERS_MAX - self.in_flight)
        start = chunk.start
        contents = chunk.contents[start : start + count]
        first = chunk.position + start
        positions = range(first, first + count)
        size = size_of(contents, chunk.same_size)
        queue.depth.ready -= count
        queue.depth.ready_bytes -= size
        if self.dead_letters:
            number = queue.open_run(
                UnackedRun(queue.own_link, queue.queue, None, chunk, contents, first), size
            )
            self.send(number, reason, effects)
        else:
            queue.release_chunk(chunk, contents, positions, effects)
        queue.backing.took(chunk, count)
        queue.work += work_of(count)
        return count

    def send(self, number: int, reason: str, effects: list[Effect]) -> None:
        """Hand a run whose bodies are all in RAM to the broker's own publisher; each of its
        unsettled stretches by itself, if some of it is lost."""
        run = self.queue.unacked_runs[number]
        chunk = run.chunk
        is_whole = run.left == len(run.contents)
        for start, end in [(0, run.left)] if is_whole else run.open_parts():
            contents = cast("list[bytes]", run.contents[start:end])
            self.in_flight += len(contents)
            self.in_flight_bytes += size_of(contents, chunk.same_size)
            effects.append(DeadLetter(number, start, contents, chunk.traits, reason))

    def reject(
        self, run: UnackedRun, start: int, end: int, reason: str, effects: list[Effect]
    ) -> None:
        """Let the contents [start, end) of a run die for `reason`, because their consumer is done
        with them. With a dead-letter exchange they wait in a run of their own until there is room.
        """
        queue = self.queue
        if not self.dead_letters:
            queue.acknowledge(run, start, end, effects)
            return
        number = queue.next_run
        queue.next_run += 1
        queue.keep_run(number, run.split_off(queue.own_link, queue.queue, start, end))
        if not isinstance(self.pending_dead_letters, deque):
            self.pending_dead_letters = deque()
        self.pending_dead_letters.append((number, reason))
        self.needs_tick = True

    def republish_pending(self, effects: list[Effect]) -> None:
        """Send the pending dead letters, in order, as far as there is room. One whose bodies are in
        the message store waits for them, with those behind it."""
        queue = self.queue
        while self.pending_dead_letters and self.has_room():
            number, reason = self.pending_dead_letters[0]
            run = queue.unacked_runs.get(number)
            if run is not None and self.dead_letters:
                if run.sizes is not None:
                    return
                self.send(number, reason, effects)
            elif run is not None:
                self.drop(number, effects)
            self.pending_dead_letters.popleft()
        self.look()

    def drop(self, number: int, effects: list[Effect]) -> None:
        """Drop a run that waited for an exchange which was removed meanwhile."""
        run = self.queue.unacked_runs[number]
        self.queue.forget_run(number, run)
        for start, end in run.open_parts():
            self.queue.acknowledge(run, start, end, effects)

    def republished(self, run: UnackedRun, start: int, end: int) -> None:
        """Note that the dead letters [start, end) of a run are safe where they were sent, which
        makes room for others. It is called before they are settled."""
        contents = [content for content in run.contents[start:end] if content is not None]
        self.in_flight -= len(contents)
        self.in_flight_bytes -= run.size(start, end, contents)
        assert self.in_flight >= 0 and self.in_flight_bytes >= 0, "what was never sent has arrived"

    # -- bodies

    def bodies_wanted(self) -> list[Chunk]:
        """Return the chunks that must be read from the message store so that the first pending dead
        letters can go; each once. None before there is room for them: messages that cannot leave
        would be paged out and read again without end."""
        if not self.pending_dead_letters or self.reading or self.queue.deleted:
            return []
        if not self.has_room():
            return []
        number = self.pending_dead_letters[0][0]
        run = self.queue.unacked_runs.get(number)
        if run is None or run.sizes is None:
            return []
        self.reading = dict.fromkeys(run.open_chunks(), number)
        return list(self.reading)

    def got_bodies(self, chunk: Chunk, contents: dict[int, bytes]) -> list[range]:
        """Take the bodies of a chunk that were read, by their ids. Returns the positions of
        messages whose bodies were not found, which are lost."""
        number = self.reading.pop(chunk)
        run = self.queue.unacked_runs.get(number)
        if run is None or self.queue.deleted:
            return []
        found = [contents.get(position + (chunk.id_base or 0)) for position in chunk.positions()]
        first = run.positions.index(chunk.position)
        run.contents[first : first + len(found)] = found
        lost = self.lose(run, [first + at for at, body in enumerate(found) if body is None])
        if PAGED not in run.contents:  # else the rest is on its way
            self.bodies_are_back(run, number)
        return lost

    def lose(self, run: UnackedRun, places: list[int]) -> list[range]:
        """Remove the messages at these places of a run from the queue, because their bodies cannot
        be read. Returns their positions."""
        queue = self.queue
        depth = queue.depth
        count = len(places)
        assert run.sizes is not None
        lost = [range(run.positions[place], run.positions[place] + 1) for place in places]
        run.left -= count
        depth.unacked -= count
        depth.unacked_bytes -= sum(run.sizes[place] for place in places)
        if queue.durable and run.chunk.traits.persistent:
            depth.persistent -= count
        for positions in lost:
            queue.backing.index.acknowledge(positions)
            if queue.delivery_counts is not None:
                queue.delivery_counts.forget(positions, depth)
        return lost

    def bodies_are_back(self, run: UnackedRun, number: int) -> None:
        """Count a run in RAM again, as before its bodies left it, except for lost ones; forget it
        when all are lost."""
        queue = self.queue
        run.sizes = None
        bodies = [content for content in run.contents if content is not None]
        queue.depth.footprint += run.footprint(bodies)
        queue.depth.ram_unacked += run.left
        queue.ram_acks += run.left
        if not run.left:
            queue.forget_run(number, run)
