"""Deduplication (`x-message-deduplication`): a queue drops messages that were published to it
before.

The header `x-deduplication-header` identifies a message; the queue remembers the latest
`x-cache-size` of these (for `x-cache-ttl` milliseconds, if that is given), even after the messages
have been consumed. Known messages are dropped and confirmed. Messages without the header are always
taken. The memory is in RAM: a restart of the broker empties it.

A new batch is answered by the queue, as usual. A sifted one is answered from here: it is taken up
to its first message that does not fit, known messages count as taken, and the rest is rejected. The
messages that a batch repeats may not be safe yet, whoever has published them; so its confirm waits
until everything written before is safe.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sluicemq.amqp.frames import content_header
from sluicemq.amqp.properties import HEADERS, BasicProperties
from sluicemq.amqp.types import Malformed
from sluicemq.model.batch import ENVELOPED, part_of, separate
from sluicemq.queues.commands import Publish
from sluicemq.queues.effects import Confirm, Effect, Receipt, Rejected, Write
from sluicemq.text import octets

if TYPE_CHECKING:
    from sluicemq.model.batch import Batch
    from sluicemq.queues.classic.head import Head

ARGUMENT: Final = "x-message-deduplication"
SIZE_ARGUMENT: Final = "x-cache-size"
TTL_ARGUMENT: Final = "x-cache-ttl"
HEADER: Final = "x-deduplication-header"

CACHE_SIZE: Final = 100_000
"""Names remembered where the queue's arguments do not say how many: about 15 MB."""

NAME_BYTES_MAX: Final = 32
"""Longer names are kept as a digest."""


class Deduplication:
    """Remembers the names of the latest `size` messages published to one queue that have one, for
    `ttl_ms` milliseconds; None: as long as there is room."""

    def __init__(self, size: int, ttl_ms: int | None) -> None:
        self.size = size
        self.ttl_ms = ttl_ms
        self._known: dict[bytes, int] = {}
        """When each was published, in ms; the oldest first."""
        self._underway: deque[Receipt] = deque()
        """Of each write that is not safe, in order; behind others also of some that are."""
        self._early: set[Receipt] = set()
        """Those that are."""
        self._safe = 0
        """Writes that have left `_underway`."""
        self._parked: deque[tuple[int, Confirm]] = deque()
        """Answers with the number of writes that must have left before."""

    def publish(self, command: Publish, queue: Head, effects: list[Effect]) -> None:
        """Pass on to the queue the new messages of a batch, by the time at which it came."""
        now_ms = command.came_ms
        batch = command.batch
        names = [name_of(content, batch) for content in batch.contents]
        runs = self._fresh(names, now_ms)
        count = taken = len(names)
        before = len(effects)
        if runs == [(0, count)]:
            fitted = taken_of(command, queue, effects)
            self._remember(names[:fitted], now_ms)
            self._watch(command, effects[before:])
            return
        for number, (start, end) in enumerate(runs, 1):
            some = part_of(batch, start, end)
            part = Publish(some, command.link, command.first_seq, False)
            part.expiry = command.expiry
            fitted = taken_of(part, queue, effects)
            self._remember(names[start : start + fitted], now_ms)
            if fitted < end - start:
                taken = start + fitted
                for first, last in runs[number:]:
                    queue.refuse(part_of(batch, first, last), effects)
                break
        self._watch(command, effects[before:])
        if command.confirm:
            self._answer(command, taken, count, effects)

    def written(self, receipts: Sequence[Receipt], effects: list[Effect]) -> None:
        """Note that the writes of these receipts are durable. Answers that waited for them, and for
        all writes before, are appended to `effects`."""
        early = self._early
        early.update(receipts)
        underway = self._underway
        while underway and underway[0] in early:
            early.remove(underway.popleft())
            self._safe += 1
        while self._parked and self._parked[0][0] <= self._safe:
            effects.append(self._parked.popleft()[1])

    def _watch(self, command: Publish, effects: list[Effect]) -> None:
        """Have the queue told when the writes of these are safe, even where the publisher need not
        be."""
        for effect in effects:
            if isinstance(effect, Write):
                if effect.receipt is None:
                    count = len(effect.batch.contents)
                    effect.receipt = Receipt(command.link, command.first_seq, count, False)
                self._underway.append(effect.receipt)

    def _answer(self, command: Publish, taken: int, count: int, effects: list[Effect]) -> None:
        """Answer a sifted batch of `count` messages, of which the first `taken` are in
        the queue.
        """
        link, first_seq = command.link, command.first_seq
        if taken < count:
            effects.append(Rejected(link, first_seq, taken, count - taken))
        if not taken:
            return
        confirm = Confirm(link, first_seq, taken)
        if self._underway:
            self._parked.append((self._safe + len(self._underway), confirm))
        else:
            effects.append(confirm)

    def _fresh(self, names: list[bytes | None], now_ms: int) -> list[tuple[int, int]]:
        """Return the runs of new messages, [start, end) each."""
        self._expire(now_ms)
        known = self._known
        seen: set[bytes] = set()
        runs: list[tuple[int, int]] = []
        for index, name in enumerate(names):
            if name is not None:
                if name in known or name in seen:
                    continue
                seen.add(name)
            if runs and runs[-1][1] == index:
                runs[-1] = (runs[-1][0], index + 1)
            else:
                runs.append((index, index + 1))
        return runs

    def _remember(self, names: list[bytes | None], now_ms: int) -> None:
        known = self._known
        for name in names:
            if name is not None:
                known[name] = now_ms
        while len(known) > self.size:
            del known[next(iter(known))]

    def _expire(self, now_ms: int) -> None:
        if self.ttl_ms is None:
            return
        known = self._known
        while known:
            oldest = next(iter(known))
            if known[oldest] + self.ttl_ms > now_ms:
                break
            del known[oldest]


def taken_of(command: Publish, queue: Head, effects: list[Effect]) -> int:
    """Hand a batch to the queue and return how many of its messages were taken: the first ones."""
    before = queue.rates.published
    queue.take(command, effects)
    return queue.rates.published - before


def deduplication_of(arguments: Mapping[str, object]) -> Deduplication | None:
    """Return the memory of a queue declared with these arguments; None: it takes everything."""
    if arguments.get(ARGUMENT) is not True:
        return None
    size = arguments.get(SIZE_ARGUMENT)
    ttl_ms = arguments.get(TTL_ARGUMENT)
    return Deduplication(
        size if isinstance(size, int) else CACHE_SIZE,
        ttl_ms if isinstance(ttl_ms, int) else None,
    )


def name_of(content: bytes, batch: Batch) -> bytes | None:
    """Return the value of the header that identifies copies, of any type; one of more than
    NAME_BYTES_MAX bytes as a digest. None: it is missing, or cannot be read."""
    if batch.traits.envelope == ENVELOPED:
        _, content = separate(content)
    raw = content_header(content).properties
    if not (raw[0] << 8 | raw[1]) & HEADERS:
        return None
    try:
        headers = BasicProperties.decode(raw).headers or {}
    except Malformed:
        return None
    value = headers.get(HEADER)
    if value is None:
        return None
    name = octets(value) if isinstance(value, str) else b"%r" % (value,)
    if len(name) <= NAME_BYTES_MAX:
        return name
    return hashlib.blake2b(name, digest_size=NAME_BYTES_MAX + 1).digest()
