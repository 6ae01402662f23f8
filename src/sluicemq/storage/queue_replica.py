"""One queue rebuilt from entries: those of a journal, or of a replicated queue's log.

    apply        applies an entry: messages were published, have left, or were delivered
    write_back   writes new live messages to the segments
    state        returns everything known, once all is written back

A start feeds each replica the journal behind its checkpoint. The result is a queue that can go on;
but entries may be applied at any other time, too, even while a write job is under way. In RAM are
the entries since the last `write_back` (`pending_bytes`), and a few numbers for each segment with
live messages.

Entries may be applied again if all later ones are applied again as well, as when a journal older
than a checkpoint is replayed: the result is the same. In between, messages may be there that have
left later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.storage.bits import bits_of
from sluicemq.storage.checkpoint import QueueState
from sluicemq.storage.entries import Ack, Run
from sluicemq.storage.positions import Mark, priority_at
from sluicemq.storage.queue_index import IndexRead, picked

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.kernel.disk import Files
    from sluicemq.storage.entries import Delivered
    from sluicemq.storage.queue_index import IndexWrite, QueueIndex, Segment

READ_BYTES: Final = 1 << 30
"""More bytes than any segment has."""

REFERENCE_BYTES: Final = 16
"""The counted size of a message whose body is in the message store."""


class QueueReplica:
    """A queue without consumers, rebuilt from entries. `index` has the part that is on disk.

    Sizes of messages are not kept one by one. Messages written to a segment count until the segment
    has no live one, so `marks` may have too many bytes, never too few.
    """

    def __init__(self, index: QueueIndex) -> None:
        self.index = index
        self.rows: dict[int, Mark] = {0: Mark(0, 0, 0)}
        """The progress of positions, by priority. The sizes are those of the adopted state."""
        self.expiring = False
        """True when some of its messages may expire."""
        self.pending: list[Run] = []
        """Runs since the last `write_back`; some of their messages may have left, or be in
        segments."""
        self.pending_bytes = 0
        """The RAM that these take, approximately."""
        self.alive: dict[int, int] = {}
        """Bits, by segment, of messages that came since then and were not acknowledged."""
        self.weights: dict[int, int] = {}
        """Bytes written to each segment here."""
        self.adopted: set[int] = set()
        """Segments of the adopted state."""

    @property
    def next_position(self) -> int:
        """Return the position that the next message of priority 0 gets."""
        return self.rows[0].next

    @property
    def delivered(self) -> int:
        """Return the position of priority 0 below which every message was delivered at
        least once.
        """
        return self.rows[0].delivered

    def adopt(self, state: QueueState) -> None:
        """Begin with a checkpoint's state of the queue. Called first, if at all."""
        assert not self.index.segments and not self.pending, "a state over another one"
        rest = max(0, state.size - sum(mark.size for mark in state.marks))
        self.rows[0] = Mark(state.next_position, state.delivered, rest)
        self.rows |= {mark.priority: mark for mark in state.marks}
        for segment in state.segments:
            self.index.adopt(segment)
            self.adopted.add(segment.number)

    # -- entries

    def apply(self, entry: Run | Ack | Delivered) -> None:
        """Change the state by an entry of this queue."""
        assert entry.queue == self.index.queue_id, "an entry of another queue"
        if isinstance(entry, Run):
            self.publish(entry)
        elif isinstance(entry, Ack):
            for positions in entry.ranges:
                self.acknowledge(positions)
        else:
            self.deliver(entry.position)

    def publish(self, run: Run) -> None:
        """Add the messages of a run to the queue."""
        self.pending.append(run)
        self.pending_bytes += sum(run.sizes) if run.contents is not None else 0
        self.pending_bytes += REFERENCE_BYTES * run.count
        positions = run.positions
        for number, part in self.index.parts(positions):
            bits = bits_of(part, number * self.index.entry_count)
            self.alive[number] = self.alive.get(number, 0) | bits
        self.given(positions[-1])

    def acknowledge(self, positions: range) -> None:
        """Note that the messages at these positions have left, wherever they are; some may never
        have come."""
        self.index.acknowledge(positions)
        for number, part in self.index.parts(positions):
            if number in self.alive:
                self.alive[number] &= ~bits_of(part, number * self.index.entry_count)
        self.given(positions[-1])

    def deliver(self, position: int) -> None:
        """Note that every message below `position` in its row was delivered at least once."""
        priority = priority_at(position)
        mark = self.rows.get(priority)
        if mark is not None:
            self.rows[priority] = mark._replace(delivered=max(mark.delivered, position))

    def given(self, position: int) -> None:
        """Note that no new message gets this position, or a lower one of its row."""
        priority = priority_at(position)
        mark = self.rows.get(priority, Mark(0, 0, 0))
        self.rows[priority] = mark._replace(next=max(mark.next, position + 1))

    def all_delivered(self) -> None:
        """Count every message as delivered at least once, because each may have been."""
        self.rows = {key: mark._replace(delivered=mark.next) for key, mark in self.rows.items()}

    # -- to the segments

    def unwritten(self) -> list[Run]:
        """Return the live parts of the pending runs that are not in a segment, each
        position once.
        """
        parts: list[Run] = []
        alive = dict(self.alive)
        for run in self.pending:
            offset = 0
            for number, part in self.index.parts(run.positions):
                base = number * self.index.entry_count
                segment = self.index.segments.get(number)
                wanted = alive.get(number, 0) & bits_of(part, base)
                if segment is not None:
                    wanted &= ~segment.live
                if wanted:
                    alive[number] &= ~wanted
                    parts += picked([run.part(offset, offset + len(part))], wanted, base)
                offset += len(part)
        return parts

    def write_back(self) -> IndexWrite | None:
        """Return a job that writes pending live messages; None without any.

        No other job of the index may be under way. After it has run, pass it to `wrote`; until then
        its messages are not `pending`, and not in the segments.
        """
        assert not self.index.busy, "two jobs of one index"
        runs = self.unwritten()
        self.pending, self.pending_bytes, self.alive = [], 0, {}
        segments = self.index.segments
        self.weights = {key: size for key, size in self.weights.items() if segments[key].live}
        for run in runs:
            number = run.first // self.index.entry_count
            self.weights[number] = self.weights.get(number, 0) + sum(run.sizes)
            self.expiring |= run.expiry > 0
        return self.index.write(runs) if runs else None

    def wrote(self, job: IndexWrite) -> None:
        """Note that the job of `write_back` is done. The files are not synced."""
        self.index.wrote(job)

    def save(self, files: Files) -> None:
        """Write back at once, and sync the written files. Raises DiskFailed."""
        job = self.write_back()
        if job is not None:
            job.run(files)
            self.wrote(job)
        dirty = self.index.take_dirty()
        for path in dirty:
            files.sync(path)
        if dirty:
            files.sync_directory(self.index.directory)

    def forget_segments(self, numbers: list[int]) -> None:
        """Forget the segments with these numbers, which have no live messages: their files are
        missing, or are others."""
        for number in numbers:
            assert not self.index.segments[number].live, "a segment with messages is forgotten"
            del self.index.segments[number]
            self.weights.pop(number, None)
        self.adopted.difference_update(numbers)

    def collect(self) -> list[str]:
        """Forget segments without live messages, and return the paths of their files, which may be
        deleted once no checkpoint counts on them."""
        numbers = {*self.index.segments}
        paths = self.index.collect(self.index.empty())
        for number in numbers.difference(self.index.segments):
            self.weights.pop(number, None)
            self.adopted.discard(number)
        return paths

    # -- the message store

    def references(self, files: Files, warn: Callable[[list[str]], None]) -> list[Run]:
        """Return runs of the live messages whose bodies are in the message store. From then on the
        places of blocks are known, and whether messages expire. `warn` gets the damage that is met.
        Raises DiskFailed."""
        found = [run for run in self.unwritten() if run.contents is None]
        for segment in self.index.segments.values():
            if segment.live:
                found += self._references_in(segment, files, warn)
        return found

    def _references_in(
        self, segment: Segment, files: Files, warn: Callable[[list[str]], None]
    ) -> list[Run]:
        base = segment.number * self.index.entry_count
        end = base + self.index.entry_count
        job = IndexRead(segment, base, end, READ_BYTES, keep_bodies=False)
        job.run(files)
        segment.places = job.places
        self.expiring |= any(place.has_expiry for place in job.places)
        warn(job.damaged)
        runs = [run for run in job.runs if run.contents is None]
        return picked(runs, segment.live, base)

    # -- the state

    def unweigh(self, run: Run) -> None:
        """Subtract the bytes of a run that was written and has been taken out of the index."""
        number = run.first // self.index.entry_count
        size = sum(run.sizes)
        if number in self.weights:
            self.weights[number] = max(0, self.weights[number] - size)
            return
        mark = self.rows[priority_at(run.first)]
        self.rows[mark.priority] = mark._replace(size=max(0, mark.size - size))

    def marks(self) -> list[Mark]:
        """Return the progress of each row, that of priority 0 first, with the bytes in segments."""
        sizes = dict.fromkeys(self.rows, 0)
        old: set[int] = set()
        for number, segment in self.index.segments.items():
            if segment.live:
                row = priority_at((number + 1) * self.index.entry_count - 1)
                sizes[row] += self.weights.get(number, 0)
                if number in self.adopted:
                    old.add(row)
        for row in old:
            sizes[row] += self.rows[row].size
        return [mark._replace(size=sizes[row]) for row, mark in self.rows.items()]

    def state(self) -> QueueState:
        """Return the state of the queue for a checkpoint. Nothing may be pending, and no job under
        way."""
        assert not self.pending and not self.index.busy, "a state that is not written back"
        mark, *others = marks = self.marks()
        size = sum(each.size for each in marks)
        states = self.index.states()
        return QueueState(self.index.queue_id, mark.next, mark.delivered, states, size, others)
