"""Queue indices for tests."""

from __future__ import annotations

from itertools import count

from sluicemq.storage.queue_index import QueueIndex


def new_index(entry_count: int = 16384) -> QueueIndex:
    """An empty one; its files have ids that count upwards."""
    numbers = count(1)
    return QueueIndex(7, "queues/7", entry_count, lambda: next(numbers).to_bytes(16))
