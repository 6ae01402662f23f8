"""One publisher of the load client: its schedule, its frames and its confirms.

No I/O. The schedule is open: the k-th message of a step is due at `first_ns + k * period_ns`,
whatever the broker does. A publisher that was held up (in-flight limit, socket not writable) writes
overdue messages as soon as it can; each keeps its intended time. Messages that are still overdue
when the step ends are abandoned and counted, so that one step's shortfall is not another step's
load.

Only the stamp differs from message to message: everything from the end of one stamp to the start
of the next is one constant, the seam, and a batch is `seam.join(stamps)`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import repeat
from typing import Final

from sluicemq.errors import SluiceError
from sluicemq.lab.recorder import NEVER, Recorder
from sluicemq.lab.stamp import MAGIC, STAMP
from sluicemq.lab.verification import NACKED, PENDING, PROMISED

UNLIMITED: Final = 1 << 62

_pack = STAMP.pack


class StrayConfirmError(SluiceError):
    """The broker settled a message that was never published, or settled one twice."""


class Envelope:
    """The constant bytes around the stamp of every message of one publisher."""

    __slots__ = ("head", "seam", "size", "tail")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self.head = head
        self.tail = tail
        self.seam = tail + head
        self.size = len(self.seam) + STAMP.size


class MeasuredPublisher:
    """Writes the messages of one publisher and counts its confirms. Times are in nanoseconds since
    the start of the run."""

    __slots__ = (
        "_base",
        "_confirmed_ns",
        "_confirms",
        "_done",
        "_due_max",
        "_envelope",
        "_first_ns",
        "_frontier",
        "_intended_ns",
        "_limit",
        "_phase_ns",
        "_step",
        "_steps_taken",
        "_written_ns",
        "abandoned",
        "confirmed",
        "intended",
        "nacked",
        "number",
        "period_ns",
        "promises",
        "queue",
        "unconfirmed",
        "written",
    )

    def __init__(
        self,
        number: int,
        queue: int,
        envelope: Envelope,
        period_ns: int,
        phase_ns: int,
        confirms: bool,
    ) -> None:
        self.number = number
        self.queue = queue
        self.period_ns = period_ns
        self.intended = 0
        """The number of messages that were intended in all steps that have ended."""
        self.abandoned = 0
        self.written = 0
        """The number of messages written, and so the next sequence number; delivery tags are one
        more."""
        self.confirmed = 0
        self.nacked = 0
        self.unconfirmed = 0
        self.promises = bytearray()
        """A byte for each message: PENDING, PROMISED (confirmed) or NACKED. Empty without
        confirms."""
        self._envelope = envelope
        self._phase_ns = phase_ns
        self._confirms = confirms
        self._step = 0
        self._first_ns = 0
        self._due_max = 0
        self._done = 0
        self._limit = UNLIMITED
        self._frontier = 0
        # Rows not yet taken, from sequence number `_base` on.
        self._base = 0
        self._steps_taken = array("h")
        self._intended_ns = array("q")
        self._written_ns = array("q")
        self._confirmed_ns = array("q")

    # The schedule

    def begin_step(self, number: int, limit: int | None, start_ns: int, end_ns: int) -> None:
        """Enter a step; messages of the step before that are not written yet are abandoned."""
        self._close_step(self._due_max)
        self._step = number
        self._limit = UNLIMITED if limit is None else limit
        self._first_ns = start_ns + self._phase_ns
        self._done = 0
        self._due_max = -((self._first_ns - end_ns) // self.period_ns)

    def end_schedule(self, now_ns: int) -> None:
        """Note that no further message is due."""
        self._close_step(self._due(now_ns))
        self._done = self._due_max = 0

    def _close_step(self, due: int) -> None:
        self.intended += due
        self.abandoned += due - self._done

    def _due(self, now_ns: int) -> int:
        due = (now_ns - self._first_ns) // self.period_ns + 1
        return due if due < self._due_max else self._due_max

    def intended_until(self, now_ns: int) -> int:
        """Return how many messages were due until now, of all steps."""
        return self.intended + max(self._due(now_ns), 0)

    def allowance(self, now_ns: int) -> int:
        """Return how many messages may be written now; 0 or less when there are none."""
        due = self._due(now_ns) - self._done
        room = self._limit - self.unconfirmed
        return due if due < room else room

    def write(self, count: int, now_ns: int) -> bytes:
        """Return the frames of the next `count` messages, as written now."""
        if count == 1:
            return self._write_one(now_ns)
        seq = self.written
        first = self._first_ns + self._done * self.period_ns
        intended = range(first, first + count * self.period_ns, self.period_ns)
        self._done += count
        self.written = seq + count
        self._intended_ns.extend(intended)
        self._written_ns.extend(repeat(now_ns, count))
        self._steps_taken.extend(repeat(self._step, count))
        if self._confirms:
            self.unconfirmed += count
            self.promises.extend(bytes(count))
            self._confirmed_ns.extend(repeat(NEVER, count))
        stamps = map(
            _pack,
            repeat(MAGIC),
            repeat(self.number),
            range(seq, seq + count),
            intended,
            repeat(now_ns),
            repeat(self._step),
            repeat(self.queue),
            repeat(0),
        )
        envelope = self._envelope
        return b"".join((envelope.head, envelope.seam.join(stamps), envelope.tail))

    def _write_one(self, now_ns: int) -> bytes:
        """Return the frames of one message. While a broker keeps up, one is due at a time."""
        seq = self.written
        intended = self._first_ns + self._done * self.period_ns
        self._done += 1
        self.written = seq + 1
        self._intended_ns.append(intended)
        self._written_ns.append(now_ns)
        self._steps_taken.append(self._step)
        if self._confirms:
            self.unconfirmed += 1
            self.promises.append(PENDING)
            self._confirmed_ns.append(NEVER)
        stamp = _pack(MAGIC, self.number, seq, intended, now_ns, self._step, self.queue, 0)
        return self._envelope.head + stamp + self._envelope.tail

    # Confirms

    def confirm_each(self, tags: Sequence[int], now_ns: int) -> None:
        """Note the confirms of a run of single tags."""
        first = tags[0]
        last = tags[-1]
        count = len(tags)
        if count > 1 and last - first + 1 == count and list(tags) == list(range(first, last + 1)):
            self._settle_range(first - 1, last, PROMISED, now_ns)
        else:
            for tag in tags:
                self._settle_one(tag - 1, PROMISED, now_ns)

    def settle(self, tag: int, multiple: bool, outcome: int, now_ns: int) -> None:
        """Note a basic.ack or basic.nack of the broker. Raises StrayConfirmError."""
        if not multiple:
            self._settle_one(tag - 1, outcome, now_ns)
            return
        start = self._frontier
        end = tag or self.written
        promises = self.promises
        if promises.count(PENDING, start, end) == end - start:
            self._settle_range(start, end, outcome, now_ns)
        elif end > self.written:
            raise self._stray(start, end)
        else:  # some of these tags were settled singly before
            for seq in range(start, end):
                if promises[seq] == PENDING:
                    self._settle_one(seq, outcome, now_ns)

    def _settle_one(self, seq: int, outcome: int, now_ns: int) -> None:
        promises = self.promises
        if not 0 <= seq < self.written or promises[seq] != PENDING:
            raise self._stray(seq, seq + 1)
        self.unconfirmed -= 1
        promises[seq] = outcome
        if outcome == PROMISED:
            self.confirmed += 1
            self._confirmed_ns[seq - self._base] = now_ns
        else:
            self.nacked += 1
        if seq == self._frontier:
            self._advance(seq + 1)

    def _settle_range(self, start: int, end: int, outcome: int, now_ns: int) -> None:
        count = end - start
        promises = self.promises
        if start < 0 or promises.count(PENDING, start, end) != count:
            raise self._stray(start, end)
        self.unconfirmed -= count
        promises[start:end] = bytes((outcome,)) * count
        if outcome == PROMISED:
            self.confirmed += count
            at = self._base
            self._confirmed_ns[start - at : end - at] = array("q", (now_ns,)) * count
        else:
            self.nacked += count
        if start == self._frontier:
            self._advance(end)

    def _advance(self, seq: int) -> None:
        """Note that all messages before `seq` are settled."""
        pending = self.promises.find(PENDING, seq)
        self._frontier = self.written if pending < 0 else pending

    def _stray(self, start: int, end: int) -> StrayConfirmError:
        return StrayConfirmError(
            f"the broker settled delivery tags {start + 1} to {end} of publisher {self.number}, "
            f"not all of which were waiting; {self.written} were published"
        )

    def promised(self, settled: bool) -> bytes:
        """Return a byte for each message: PROMISED when the broker has promised to keep it. Without
        confirms all are promised, or none if the broker never said that it took them."""
        if self._confirms:
            return bytes(self.promises)
        return bytes((PROMISED if settled else PENDING,)) * self.written

    # Rows

    def take_rows(self, recorder: Recorder, sample_every: int, everything: bool) -> None:
        """Move rows that will not change any more (or all) to the recorder."""
        base = self._base
        end = self._frontier if self._confirms and not everything else self.written
        offset = -base % sample_every
        chosen = slice(offset, end - base, sample_every)
        count = len(range(offset, end - base, sample_every))
        columns = recorder.columns
        if count:
            columns["publisher"].extend(repeat(self.number, count))
            columns["seq"].extend(range(base + offset, end, sample_every))
            columns["queue"].extend(repeat(self.queue, count))
            columns["step"].extend(self._steps_taken[chosen])
            columns["intended_ns"].extend(self._intended_ns[chosen])
            columns["written_ns"].extend(self._written_ns[chosen])
            columns["weight"].extend(repeat(sample_every, count))
            if self._confirms:
                promises = self.promises[base + offset : end : sample_every]
                columns["confirmed_ns"].extend(self._confirmed_ns[chosen])
                columns["nacked"].extend(map(NACKED.__eq__, promises))
            else:
                columns["confirmed_ns"].extend(repeat(NEVER, count))
                columns["nacked"].extend(bytes(count))
        done = slice(0, end - base)
        for kept in (self._steps_taken, self._intended_ns, self._written_ns, self._confirmed_ns):
            del kept[done]
        self._base = end
        recorder.added(count)
