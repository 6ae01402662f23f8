"""Entries of a quorum queue's log without the messages that have left the queue.

A trimmed entry has the contents that are still needed, with their places, but no commands: a
snapshot covers it, so that it is never applied again. docs/command-format.md has each byte.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.kernel.address import ADDRESS_BYTES
from sluicemq.model.batch import Batch
from sluicemq.model.traits import message_traits, property_traits
from sluicemq.queues.command_codec import (
    HAS_TTL,
    HEAD,
    PERSISTENT,
    SAME_SIZE,
    CommandBody,
    UnreadableCommand,
)
from sluicemq.queues.quorum.command_codec import DECODERS, ENQUEUE_HEAD
from sluicemq.queues.quorum.usual_commands import BODILESS, SAME_BODIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ENQUEUE: Final = 11
KEPT: Final = 18
"""The type of a trimmed enqueue."""
KEPT_HEAD: Final = Struct("<QIIIHHB7x")
RUN: Final = Struct("<II")


class PlacedBatch(NamedTuple):
    """Messages of an entry, at the places from `first` to before `end`."""

    first: int
    end: int
    batch: Batch


class StoredContents(NamedTuple):
    """The contents of one enqueue in an entry, and their places: `data` has them one after the
    other from `start` on, of `size` bytes each, or as `sizes` says; `runs` are the places of the
    messages."""

    data: bytes
    start: int
    runs: list[range]
    size: int
    sizes: tuple[int, ...] | None
    flags: int
    ttl_ms: int
    channel_number: int
    priority: int
    envelope: bytes

    @property
    def offsets(self) -> Sequence[int]:
        """Where each of them begins, and in the end where the last one ends."""
        count = sum(map(len, self.runs))
        if self.sizes is None:
            return range(self.start, self.start + (count + 1) * self.size, self.size or 1)
        return [*accumulate(self.sizes, initial=self.start)]


def trimmed(data: bytes, places: Sequence[range]) -> bytes:
    """Return the rest of an entry, or of a trimmed one, when only the messages at these places are
    needed, which are ascending and have no step. Raises UnreadableCommand when it is neither."""
    parts: list[bytes] = []
    for stored in contents_in(data):
        positions, runs = chosen(stored.runs, places)
        if runs:
            parts += kept(stored, positions, runs)
    return b"".join(parts)


def bodies_of(data: bytes, start: int = 0) -> list[PlacedBatch]:
    """Return the messages of an entry, whole or trimmed, which is in `data` from `start` on, in the
    order of their places: as few batches as there are runs of places. Raises UnreadableCommand when
    it is neither."""
    found: list[PlacedBatch] = []
    for stored in contents_in(data, start):
        flags = stored.flags
        persistent = bool(flags & PERSISTENT)
        ttl_ms = stored.ttl_ms if flags & HAS_TTL else None
        traits = message_traits(stored.envelope, stored.channel_number, persistent)
        properties = property_traits(persistent, ttl_ms, stored.priority)
        offsets = stored.offsets
        contents = [data[a:b] for a, b in pairwise(offsets)]
        at = 0
        for run in stored.runs:
            end = at + len(run)
            size = offsets[end] - offsets[at]
            same_size = stored.sizes is None
            batch = Batch(traits, properties, contents[at:end], size, same_size)
            found.append(PlacedBatch(run.start, run.stop, batch))
            at = end
    return found


def contents_in(data: bytes, at: int = 0) -> Iterator[StoredContents]:
    """Yield the contents of each enqueue in an entry, from `at` on. Raises UnreadableCommand."""
    place = 0
    while at < len(data):
        if len(data) - at < HEAD.size:
            raise UnreadableCommand(f"{len(data) - at} bytes are too few for a command")
        kind, flags, length = HEAD.unpack_from(data, at)
        end = at + HEAD.size + length
        if kind != KEPT and kind not in DECODERS:
            raise UnreadableCommand(f"command type {kind} is not known here")
        if end > len(data):
            raise UnreadableCommand(f"a command of {length} bytes has {len(data) - at - HEAD.size}")
        if kind in (ENQUEUE, KEPT):
            body = CommandBody("kept" if kind == KEPT else "enqueue", flags, data)
            body.at = at + HEAD.size
            stored = kept_in(body) if kind == KEPT else enqueued_in(body, place)
            place = stored.runs[-1].stop
            total = sum(stored.sizes or ()) or stored.size * sum(map(len, stored.runs))
            if stored.start + total != end:
                raise UnreadableCommand(f"{end - stored.start} bytes of contents for {total}")
            if kind == KEPT or not flags & BODILESS:
                yield stored
        at = end


def enqueued_in(body: CommandBody, place: int) -> StoredContents:
    """Read an enqueue up to its contents; its first message is at `place`."""
    body.cut(ADDRESS_BYTES)
    _, _, ttl_ms, count, size, _, channel_number, envelope_size, priority = body.take(ENQUEUE_HEAD)
    envelope = body.cut(envelope_size)
    sizes = None if body.flags & SAME_SIZE else sizes_in(body, count)
    if not body.flags & SAME_BODIES:
        body.cut(4 * count)
    if not count:
        raise UnreadableCommand("an enqueue has no messages")
    runs = [range(place, place + count)]
    return StoredContents(
        body.data,
        body.at,
        runs,
        size,
        sizes,
        body.flags,
        ttl_ms,
        channel_number,
        priority,
        envelope,
    )


def kept_in(body: CommandBody) -> StoredContents:
    """Read a trimmed enqueue up to its contents."""
    ttl_ms, count, size, run_count, channel_number, envelope_size, priority = body.take(KEPT_HEAD)
    envelope = body.cut(envelope_size)
    raw = body.cut(RUN.size * run_count)
    runs = [range(first, first + length) for first, length in RUN.iter_unpack(raw)]
    ends = [end for run in runs for end in (run.start, run.stop)]
    if not runs or ends != sorted(ends) or sum(map(len, runs)) != count or not all(runs):
        raise UnreadableCommand("what is left of an enqueue has wrong places")
    sizes = None if body.flags & SAME_SIZE else sizes_in(body, count)
    return StoredContents(
        body.data,
        body.at,
        runs,
        size,
        sizes,
        body.flags,
        ttl_ms,
        channel_number,
        priority,
        envelope,
    )


def sizes_in(body: CommandBody, count: int) -> tuple[int, ...]:
    return Struct(f"<{count}I").unpack(body.cut(4 * count))


def chosen(runs: list[range], places: Sequence[range]) -> tuple[list[range], list[range]]:
    """Return which of the messages at `runs` are at `places`: as ranges of their numbers among
    these, from 0 on, and their places as maximal runs."""
    positions: list[range] = []
    found: list[range] = []
    at = number = 0
    for run in runs:
        while at < len(places) and places[at].stop <= run.start:
            at += 1
        more = at
        while more < len(places) and places[more].start < run.stop:
            start = max(run.start, places[more].start)
            stop = min(run.stop, places[more].stop)
            offset = number - run.start
            positions.append(range(start + offset, stop + offset))
            if found and found[-1].stop == start:
                found[-1] = range(found[-1].start, stop)
            else:
                found.append(range(start, stop))
            more += 1
        number += len(run)
    return positions, found


def kept(stored: StoredContents, positions: list[range], runs: list[range]) -> list[bytes]:
    """Return the rest of an enqueue in parts: the contents with these numbers."""
    data, offsets = stored.data, stored.offsets
    contents = [data[offsets[each.start] : offsets[each.stop]] for each in positions]
    sizes: list[int] = []
    if stored.sizes is not None:
        sizes = [size for each in positions for size in stored.sizes[each.start : each.stop]]
    same_size = stored.sizes is None or len({*sizes}) == 1
    size = stored.size or (sizes[0] if same_size else 0)
    count = sum(map(len, runs))
    head = KEPT_HEAD.pack(
        stored.ttl_ms,
        count,
        size,
        len(runs),
        stored.channel_number,
        len(stored.envelope),
        stored.priority,
    )
    body = [head, stored.envelope, *(RUN.pack(run.start, len(run)) for run in runs)]
    if not same_size:
        body.append(Struct(f"<{count}I").pack(*sizes))
    body += contents
    flags = stored.flags & (PERSISTENT | HAS_TTL) | SAME_SIZE * same_size
    return [HEAD.pack(KEPT, flags, sum(map(len, body))), *body]
