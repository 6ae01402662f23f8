"""Messages that a queue refuses, because they have caused a fault twice at their publish.

They are not in the queue: nobody counts on them, so there is nothing to set aside, and their
publishers get a refusal. At the first fault it is not known which message of a batch is the cause,
so all of them are suspects. From then on a batch is taken piece by piece, the first piece when it
comes and the others when they are published again: the messages before a suspect; or suspects
alone, half as many as at the last fault. Messages that were taken are cleared. Each fault leaves
fewer suspects, until one that was alone is known as the cause. A batch with a known one is refused
as a whole: its other messages may come in another batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final

from sluicemq.amqp.frames import on_channel
from sluicemq.limits import REFUSED_MESSAGES_MAX
from sluicemq.model.batch import ENVELOPED, Batch, separate

SUSPECTS_KEPT: Final = 10_000
"""The most messages kept that were in a batch at a fault; the oldest are forgotten first."""

DIGEST_BYTES: Final = 16


class RefusedMessages:
    """Remembers the messages that are suspected or refused, for all queues that have had a name,
    since the start."""

    def __init__(self) -> None:
        self.suspects: dict[bytes, None] = {}
        """Digests of messages that were in a batch at a fault, oldest first."""
        self.near: set[bytes] = set()
        """Suspects that were there at the last fault, and have not been taken since."""
        self.most = 1
        """So many other suspects are taken at a time."""
        self.known: set[bytes] = set()
        """Messages that were alone at a fault."""
        self._is_nearer = False

    def admitted(self, batch: Batch) -> tuple[int, list[bytes]]:
        """Return how many of this batch's first messages may be taken now, and the digests of
        suspects among them, which are to be cleared once they are taken."""
        count = len(batch.contents)
        if not self.suspects and not self.known:
            return count, []
        found = list(digests(batch))
        if not self.known.isdisjoint(found):
            return 0, []
        first = next((at for at, each in enumerate(found) if each in self.suspects), count)
        if first:
            return first, []
        is_near = found[0] in self.near
        most = max(1, len(self.near) // 2) if is_near else self.most
        tried: dict[bytes, None] = {}
        for taken, each in enumerate(found):
            is_alike = each in self.suspects and (each in self.near) == is_near
            if not is_alike or (each not in tried and len(tried) == most):
                return taken, list(tried)
            tried[each] = None
        return count, list(tried)

    def clear(self, tried: Sequence[bytes]) -> None:
        """Clear these suspects, which were taken without a fault."""
        if not tried:
            return
        if tried[0] not in self.near:
            self.most = 2 * len(tried)
        for each in tried:
            self.suspects.pop(each, None)
        self.near.difference_update(tried)

    def accuse(self, batch: Batch) -> list[bytes]:
        """Account for a fault at the publish of this batch. Returns the contents that are refused
        from now on: the only one that was tried, if it was a suspect; none if there are too many.
        """
        taken, tried = self.admitted(batch)
        found = dict(zip(digests(batch), batch.contents[:taken], strict=False))
        if not tried:
            self.suspects.update(dict.fromkeys(found))
            while len(self.suspects) > SUSPECTS_KEPT:
                del self.suspects[next(iter(self.suspects))]
            self.near = self.suspects.keys() & found.keys()
            return []
        if len(tried) > 1:
            self.near = set(tried)
            self.most = len(tried) // 2
        elif len(self.known) < REFUSED_MESSAGES_MAX:
            self.clear(tried)
            self.near = set()
            self.most = 1
            self.known.update(tried)
        else:
            return []
        self._is_nearer = True
        return [found[each] for each in tried if each in self.known]

    def has_come_nearer(self) -> bool:
        """Tell whether there were fewer suspects at this fault than before. It is called once a
        fault, and then reset."""
        is_nearer, self._is_nearer = self._is_nearer, False
        return is_nearer


def digests(batch: Batch) -> Iterator[bytes]:
    """Give a digest of each message as its publisher has sent it, whatever the channel."""
    for content in batch.contents:
        frames = separate(content)[1] if batch.traits.envelope == ENVELOPED else content
        yield blake2b(on_channel(frames, 0), digest_size=DIGEST_BYTES).digest()
