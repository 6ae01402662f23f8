"""Finds lost, duplicate and reordered messages, exactly, over every message of a run.

Each message has one byte in a map of its publisher, at the place of its sequence number. Publishers
keep the map of confirmed messages, consumers the map of those that arrived; the difference of the
two are the lost messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sluicemq.lab.measurements import Verification
from sluicemq.lab.stamp import MAGIC

PENDING: Final = 0
PROMISED: Final = 1
"""Confirmed or, where confirms are off, taken by the broker before it answered channel.close."""
NACKED: Final = 2


@dataclass(slots=True)
class PublishedReport:
    """The messages of one publisher worker: by publisher, a byte for each message written."""

    promises: dict[int, bytes] = field(default_factory=dict)
    confirms: bool = True
    returned: int = 0


@dataclass(slots=True)
class DeliveredReport:
    """The messages that one consumer worker has received: by publisher, 1 for each sequence number
    that arrived."""

    seen: dict[int, bytes] = field(default_factory=dict)
    delivered: int = 0
    redelivered: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    foreign: int = 0


class Inspector:
    """Checks deliveries as they arrive; each consumer worker has one."""

    __slots__ = (
        "arrived",
        "delivered",
        "duplicates",
        "foreign",
        "out_of_order",
        "redelivered",
        "seen",
    )

    def __init__(self, publishers: Iterable[int], seqs: int) -> None:
        self.seen = {publisher: bytearray(seqs) for publisher in publishers}
        self.arrived = 0
        """The number of different messages seen."""
        self.delivered = 0
        self.redelivered = 0
        self.duplicates = 0
        self.out_of_order = 0
        self.foreign = 0

    def last_seen(self) -> dict[int, int]:
        """Return a consumer's state: the highest sequence number it got, by publisher."""
        return dict.fromkeys(self.seen, -1)

    def check(
        self,
        last: dict[int, int],
        magics: Sequence[int],
        publishers: Sequence[int],
        seqs: Sequence[int],
        redelivered: Sequence[int],
    ) -> None:
        """Check a run of deliveries of the consumer that keeps `last`."""
        self.delivered += len(seqs)
        seen = self.seen
        if magics.count(MAGIC) != len(magics) or any(redelivered):
            self._check_unusual(last, magics, publishers, seqs, redelivered)
            return
        done = 0
        try:
            for publisher, seq in zip(publishers, seqs, strict=True):
                if seq <= last[publisher] or seen[publisher][seq]:
                    break
                last[publisher] = seq
                seen[publisher][seq] = 1
                done += 1
        except LookupError:  # no such publisher or number: the slow check counts it
            pass
        self.arrived += done
        if done < len(seqs):
            self._check_unusual(
                last, magics[done:], publishers[done:], seqs[done:], redelivered[done:]
            )

    def _check_unusual(
        self,
        last: dict[int, int],
        magics: Sequence[int],
        publishers: Sequence[int],
        seqs: Sequence[int],
        redelivered: Sequence[int],
    ) -> None:
        """Check deliveries one by one, for a run in which at least one is unusual."""
        for found in zip(magics, publishers, seqs, redelivered, strict=True):
            self._check_one(last, *found)

    def check_one(
        self, last: dict[int, int], magic: int, publisher: int, seq: int, redelivered: int
    ) -> None:
        """Check a single delivery to the consumer that keeps `last`."""
        self.delivered += 1
        self._check_one(last, magic, publisher, seq, redelivered)

    def _check_one(
        self, last: dict[int, int], magic: int, publisher: int, seq: int, redelivered: int
    ) -> None:
        seen = self.seen.get(publisher)
        if magic != MAGIC or seen is None or seq >= len(seen):
            self.foreign += 1
            return
        if redelivered:
            self.redelivered += 1
        elif seen[seq]:
            self.duplicates += 1
        elif seq < last[publisher]:
            self.out_of_order += 1
        self.arrived += not seen[seq]
        seen[seq] = 1
        last[publisher] = max(last[publisher], seq)

    def report(self) -> DeliveredReport:
        """Return the counts for the conductor, at the end."""
        return DeliveredReport(
            seen={publisher: bytes(seen) for publisher, seen in self.seen.items()},
            delivered=self.delivered,
            redelivered=self.redelivered,
            duplicates=self.duplicates,
            out_of_order=self.out_of_order,
            foreign=self.foreign,
        )


def verify(
    published: Iterable[PublishedReport],
    delivered: Iterable[DeliveredReport],
    left_in_queues: int | None,
) -> Verification:
    """Compare the published messages with the delivered ones. `left_in_queues` is how many messages
    the broker still held when waiting ended; None when it could not be asked."""
    result = Verification(
        published=0,
        confirmed=0,
        nacked=0,
        returned=0,
        unsettled=0,
        delivered=0,
        redelivered=0,
        lost=0,
        left_in_queues=0,
        unaccounted=0,
        duplicates=0,
        out_of_order=0,
        foreign=0,
        drained=False,
    )
    seen: dict[int, bytes] = {}
    for arrived in delivered:
        seen.update(arrived.seen)
        result["delivered"] += arrived.delivered
        result["redelivered"] += arrived.redelivered
        result["duplicates"] += arrived.duplicates
        result["out_of_order"] += arrived.out_of_order
        result["foreign"] += arrived.foreign
    missing = 0
    for sent in published:
        result["returned"] += sent.returned
        for publisher, promises in sent.promises.items():
            arrived_map = seen.get(publisher, b"")
            result["published"] += len(promises)
            result["confirmed"] += promises.count(PROMISED) if sent.confirms else 0
            result["nacked"] += promises.count(NACKED)
            result["unsettled"] += promises.count(PENDING)
            result["foreign"] += arrived_map.count(1, len(promises))
            missing += count_missing(promises, arrived_map)
    if left_in_queues is None:
        result["unaccounted"] = missing
    else:
        result["left_in_queues"] = min(missing, left_in_queues)
        result["lost"] = missing - result["left_in_queues"]
    result["drained"] = missing == 0
    return result


def count_missing(promises: bytes, seen: bytes) -> int:
    """Return how many messages were promised and did not arrive."""
    expected = int.from_bytes(promises.translate(_PROMISED_ONLY), "little")
    return (expected & ~int.from_bytes(seen, "little")).bit_count()


_PROMISED_ONLY: Final = bytes(value == PROMISED for value in range(256))
