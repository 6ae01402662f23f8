"""What the log of a queue's members has to know of the content of its entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.queues.log_content import LogContent
    from sluicemq.raft.entry_data import EntryData
    from sluicemq.storage.raft.live_places import Trim


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryKind:
    """Describes how the entries of one queue type are kept, and how they are trimmed."""

    content: Callable[[EntryData], LogContent]
    """Returns an entry's data, perhaps bytes, in the form in which the queue keeps it."""
    trim: Trim
    version: int
    """The version of the state that is built from the entries."""
