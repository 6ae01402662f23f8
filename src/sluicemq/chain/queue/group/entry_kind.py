"""What the log of a queue's members has to know of the content of its entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.queues.log_content import LogContent
    from sluicemq.raft.entry import EntryData
    from sluicemq.storage.raft.live_places import Trim


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryKind:
    """Describes how the entries of one queue type are kept, and how they are trimmed."""

    content: Callable[[EntryData], LogContent]
    """Returns what an entry has as the queue keeps it; it may have come as bytes."""
    trim: Trim
    version: int
    """That of the state which is made of them."""
