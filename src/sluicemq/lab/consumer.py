"""One consumer of the load client: its acks, checks and records. No I/O.

Acks go out first, so that the broker can work on while the deliveries are checked and recorded. All
steps take a run of deliveries at a time, by columns.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import repeat
from operator import sub
from typing import Final

from sluicemq.lab.recorder import NEVER, Recorder
from sluicemq.lab.stamp import STAMP
from sluicemq.lab.verification import Inspector

ACK_FRAME: Final = struct.Struct(">BHIHHQBB")
FRAME_END: Final = 0xCE
SEQ: Final = 2
"""The index of the sequence number in the stamp."""

_unpack_stamp = STAMP.unpack_from
_pack_ack = ACK_FRAME.pack


def encode_acks(channel: int, tags: range, multiple: bool) -> bytes:
    """Return the frames of basic.ack for these tags."""
    if len(tags) == 1:
        return _pack_ack(1, channel, 13, 60, 80, tags[0], multiple, FRAME_END)
    return b"".join(
        map(
            _pack_ack,
            repeat(1),
            repeat(channel),
            repeat(13),
            repeat(60),
            repeat(80),
            tags,
            repeat(multiple),
            repeat(FRAME_END),
        )
    )


class MeasuredConsumer:
    """Counts, checks and records the deliveries of one consumer. Times are in nanoseconds since the
    start of the run."""

    __slots__ = (
        "_ack_interval",
        "_acked_ns",
        "_covered",
        "_delivered_ns",
        "_inspector",
        "_intended_ns",
        "_last_seen",
        "_publishers",
        "_redelivered",
        "_row_tags",
        "_sample_every",
        "_seqs",
        "_steps",
        "_written_ns",
        "acked",
        "delivered",
        "number",
        "queue",
    )

    def __init__(
        self, number: int, queue: int, ack_interval: int, sample_every: int, inspector: Inspector
    ) -> None:
        self.number = number
        self.queue = queue
        self.delivered = 0
        """The number of deliveries, and the last delivery tag: on a channel with one consumer there
        are no gaps."""
        self.acked = 0
        """The last delivery tag that is acknowledged, with the time of its ack recorded."""
        self._covered = 0
        """The last delivery tag that an ack covers."""
        self._ack_interval = ack_interval
        self._sample_every = sample_every
        self._inspector = inspector
        self._last_seen = inspector.last_seen()
        # Rows not yet taken. `_acked_ns` is shorter by the rows that wait for their ack; their
        # delivery tags are in `_row_tags`.
        self._publishers = array("i")
        self._seqs = array("q")
        self._steps = array("h")
        self._intended_ns = array("q")
        self._written_ns = array("q")
        self._delivered_ns = array("q")
        self._redelivered = array("b")
        self._acked_ns = array("q")
        self._row_tags = array("q")

    @property
    def unacked(self) -> int:
        """Return how many deliveries wait for their ack; 0 with automatic acks."""
        return self.delivered - self.acked if self._ack_interval else 0

    def acks_due(self, channel: int, deliveries: int) -> bytes:
        """Count `deliveries` more, and return the acks to write now."""
        self.delivered += deliveries
        interval = self._ack_interval
        first = self._covered + 1
        if interval == 1:
            self._covered = self.delivered
            return encode_acks(channel, range(first, self._covered + 1), multiple=False)
        if interval == 0:
            return b""
        count = (self.delivered - self._covered) // interval
        self._covered += count * interval
        tags = range(first + interval - 1, self._covered + 1, interval)
        return encode_acks(channel, tags, multiple=True) if count else b""

    def acks_left(self, channel: int) -> bytes:
        """Return one ack for all deliveries that are not acknowledged, at the end."""
        if not self.unacked:
            return b""
        self._covered = self.delivered
        return encode_acks(channel, range(self._covered, self._covered + 1), multiple=True)

    def record(
        self,
        contents: Sequence[bytes],
        offsets: Sequence[int],
        redelivered: Sequence[int],
        now_ns: int,
    ) -> None:
        """Check and record the run of deliveries that `acks_due` was called with; the stamp of each
        content is at its offset."""
        if len(contents) == 1:
            self._record_one(_unpack_stamp(contents[0], offsets[0]), redelivered[0], now_ns)
            return
        stamps = list(map(_unpack_stamp, contents, offsets))
        magics, publishers, seqs, intended, written, steps, _, _ = zip(*stamps, strict=True)
        self._inspector.check(self._last_seen, magics, publishers, seqs, redelivered)
        count = len(seqs)
        tags: Sequence[int] = range(self.delivered - count + 1, self.delivered + 1)
        every = self._sample_every
        if every > 1:
            chosen = [i for i, seq in enumerate(seqs) if not seq % every]
            count = len(chosen)
            if not count:
                return
            tags = [tags[i] for i in chosen]
            redelivered = [redelivered[i] for i in chosen]
            _, publishers, seqs, intended, written, steps, _, _ = zip(
                *[stamps[i] for i in chosen], strict=True
            )
        self._publishers.extend(publishers)
        self._seqs.extend(seqs)
        self._steps.extend(steps)
        self._intended_ns.extend(intended)
        self._written_ns.extend(written)
        self._delivered_ns.extend(repeat(now_ns, count))
        self._redelivered.extend(redelivered)
        self._row_tags.extend(tags)

    def _record_one(self, stamp: tuple[int, ...], redelivered: int, now_ns: int) -> None:
        """Check and record one message. A broker that keeps up sends them one at a time."""
        magic, publisher, seq, intended_ns, written_ns, step, _, _ = stamp
        self._inspector.check_one(self._last_seen, magic, publisher, seq, redelivered)
        if seq % self._sample_every:
            return
        self._publishers.append(publisher)
        self._seqs.append(seq)
        self._steps.append(step)
        self._intended_ns.append(intended_ns)
        self._written_ns.append(written_ns)
        self._delivered_ns.append(now_ns)
        self._redelivered.append(redelivered)
        self._row_tags.append(self.delivered)

    def record_acks(self, now_ns: int) -> None:
        """Record when the pending acks were written."""
        tags = self._row_tags
        if not self._ack_interval:
            self._acked_ns.extend(repeat(NEVER, len(tags)))
            del tags[:]
            return
        self.acked = self._covered
        if tags and tags[0] <= self.acked:
            count = bisect_right(tags, self.acked)
            self._acked_ns.extend(repeat(now_ns, count))
            del tags[:count]

    def latencies_ns(self, since_ns: int, samples_max: int) -> list[int]:
        """Return the times from intended to delivered, in nanoseconds, for some of the rows that
        arrived since `since_ns` and are not yet taken."""
        first = bisect_left(self._delivered_ns, since_ns)
        stride = max(1, (len(self._seqs) - first) // samples_max)
        chosen = slice(first, None, stride)
        return list(map(sub, self._delivered_ns[chosen], self._intended_ns[chosen]))

    def take_rows(self, recorder: Recorder, everything: bool) -> None:
        """Move rows that are acknowledged (or all) to the recorder."""
        if everything:
            self._acked_ns.extend(repeat(NEVER, len(self._row_tags)))
            del self._row_tags[:]
        count = len(self._acked_ns)
        if not count:
            return
        columns = recorder.columns
        columns["queue"].extend(repeat(self.queue, count))
        columns["consumer"].extend(repeat(self.number, count))
        columns["weight"].extend(repeat(self._sample_every, count))
        for name, values in (
            ("publisher", self._publishers),
            ("seq", self._seqs),
            ("step", self._steps),
            ("intended_ns", self._intended_ns),
            ("written_ns", self._written_ns),
            ("delivered_ns", self._delivered_ns),
            ("acked_ns", self._acked_ns),
            ("redelivered", self._redelivered),
        ):
            columns[name].extend(values[:count])
            del values[:count]
        recorder.added(count)
