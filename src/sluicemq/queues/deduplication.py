"""Dropping what has been published to a queue before: `x-message-deduplication`.

A message says who it is by the header `x-deduplication-header`; the queue remembers the latest
`x-cache-size` of these (for `x-cache-ttl` milliseconds, if that is given), also after the messages
have been consumed. What is known is dropped and confirmed. Messages without the header are taken
always. The memory is RAM: a restart of the broker empties it.

A channel waits for one answer of the queue to a batch, by its first sequence number. Of a batch
that is sifted the last run that is fresh gives it: it is written after the others. When all of a
batch is known, what it repeats may not be safe yet; the answer then waits for what was promised
last. (What was published without confirms is promised to nobody, and not waited for.)
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from sluicemq.amqp.frames import content_header
from sluicemq.amqp.properties import HEADERS, BasicProperties
from sluicemq.amqp.types import Malformed
from sluicemq.model.batch import ADDRESSED, part_of, separate
from sluicemq.queues.commands import Publish
from sluicemq.queues.effects import Confirm, Effect, Rejected, Write
from sluicemq.text import octets

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.batch import Batch
    from sluicemq.queues.classic import ClassicQueue
    from sluicemq.queues.commands import Receipt

ARGUMENT: Final = "x-message-deduplication"
SIZE_ARGUMENT: Final = "x-cache-size"
TTL_ARGUMENT: Final = "x-cache-ttl"
HEADER: Final = "x-deduplication-header"

CACHE_SIZE: Final = 100_000
"""Names remembered where the queue's arguments do not say how many: about 15 MB."""

NAME_BYTES_MAX: Final = 32
"""Longer names are kept as a digest."""

Submit = Callable[[Publish, list[Effect]], None]


class Deduplication:
    """What one queue remembers."""

    def __init__(self, size: int, ttl_ms: int | None) -> None:
        self.size = size
        self.ttl_ms = ttl_ms
        self._known: dict[bytes, int] = {}
        """When each was published, in ms; the oldest first."""
        self._promised: dict[tuple[Actor, int], None] = {}
        """Batches whose write is under way, in order."""
        self._parked: deque[tuple[tuple[Actor, int], Confirm]] = deque()
        """Answers with the batch they wait for."""

    def publish(
        self,
        command: Publish,
        now_ms: int,
        queue: ClassicQueue,
        submit: Submit,
        effects: list[Effect],
    ) -> None:
        """Hand on what is new."""
        batch = command.batch
        names = [name_of(content, batch) for content in batch.contents]
        runs = self._fresh(names, now_ms)
        if not runs:
            self._answer(command, effects)
            return
        is_whole = runs[0] == (0, len(names))
        for start, end in runs:
            part = command
            if not is_whole:
                is_last = end == runs[-1][1]
                first_seq = command.first_seq if is_last else 0
                part = Publish(part_of(batch, start, end), command.sender, first_seq)
                part.expiry = command.expiry
            taken = -queue.rates.published
            before = len(effects)
            submit(part, effects)
            taken += queue.rates.published
            self._remember(names[start : start + taken], now_ms)
            if taken < end - start and not part.first_seq and command.first_seq:
                # The answer of the last run must not speak for messages that did not fit.
                rejected = Rejected(command.sender, command.first_seq, 0, len(names))
                effects.append(rejected)
            for effect in effects[before:]:
                if isinstance(effect, Write) and effect.receipt is not None:
                    self._promised[effect.receipt.sender, effect.receipt.first_seq] = None

    def written(self, receipts: list[Receipt], effects: list[Effect]) -> None:
        """These are safe, and with them what was written before; answers that waited for it go."""
        for receipt in receipts:
            self._promised.pop((receipt.sender, receipt.first_seq), None)
        while self._parked and self._parked[0][0] not in self._promised:
            effects.append(self._parked.popleft()[1])

    def parked(self) -> list[Confirm]:
        """Answers that wait."""
        return [confirm for _, confirm in self._parked]

    def _answer(self, command: Publish, effects: list[Effect]) -> None:
        """All of a batch is known."""
        if not command.first_seq:
            return
        confirm = Confirm(command.sender, command.first_seq, len(command.batch.contents))
        if self._promised:
            self._parked.append((next(reversed(self._promised)), confirm))
        else:
            effects.append(confirm)

    def _fresh(self, names: list[bytes | None], now_ms: int) -> list[tuple[int, int]]:
        """Runs of messages that are new, [start, end) each."""
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


def deduplication_of(arguments: Mapping[str, object]) -> Deduplication | None:
    """For a queue declared with these arguments; None: it takes everything."""
    if arguments.get(ARGUMENT) is not True:
        return None
    size = arguments.get(SIZE_ARGUMENT)
    ttl_ms = arguments.get(TTL_ARGUMENT)
    return Deduplication(
        size if isinstance(size, int) else CACHE_SIZE,
        ttl_ms if isinstance(ttl_ms, int) else None,
    )


def name_of(content: bytes, batch: Batch) -> bytes | None:
    """What the header says, any type of value; None: it is not there, or cannot be read."""
    if batch.address == ADDRESSED:
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
