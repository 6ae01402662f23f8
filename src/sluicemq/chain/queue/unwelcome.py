"""Messages that a queue takes no more, because it has had a fault twice when it was given them.

They have not come in: nobody counts on them, so there is nothing to set aside, and whoever
publishes them hears a refusal. Which message of a batch is the cause nobody can tell at the first
fault; at the second it is among those that were in both batches. A batch with one of these is
refused as a whole: its other messages may come in another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from sluicemq.amqp.frames import readdress
from sluicemq.limits import UNWELCOME_MAX
from sluicemq.model.batch import ADDRESSED, Batch, separate

SUSPECTS_KEPT: Final = 10_000
"""Messages that were in a batch at which there was a fault; the oldest are forgotten first."""

DIGEST_BYTES: Final = 16


class Unwelcome:
    """Of the queues that have had a name, since the start."""

    def __init__(self) -> None:
        self.suspects: dict[bytes, None] = {}
        """Digests of what was published when there was one fault, in the order of these."""
        self.known: set[bytes] = set()
        """Of what was there at two."""

    def accuse(self, batch: Batch) -> list[bytes]:
        """There was a fault at the publish of this batch. Returns the contents that are taken no
        more, those that were there at an earlier one; none where they would be too many."""
        found = dict(zip(digests(batch), batch.contents, strict=True))
        again = [digest for digest in found if digest in self.suspects]
        for digest in found:
            self.suspects.pop(digest, None)
            self.suspects[digest] = None
        while len(self.suspects) > SUSPECTS_KEPT:
            del self.suspects[next(iter(self.suspects))]
        if len(self.known) + len(again) > UNWELCOME_MAX:
            return []
        self.known.update(again)
        return [found[digest] for digest in again]

    def is_in(self, batch: Batch) -> bool:
        """Is one of them in this batch?"""
        return bool(self.known) and not self.known.isdisjoint(digests(batch))


def digests(batch: Batch) -> Iterator[bytes]:
    """Of each message, by what its publisher has said and not by the channel it came on."""
    for content in batch.contents:
        frames = separate(content)[1] if batch.address == ADDRESSED else content
        yield blake2b(readdress(frames, 0), digest_size=DIGEST_BYTES).digest()
