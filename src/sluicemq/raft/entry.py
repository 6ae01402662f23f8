"""What a log is made of: entries, and the snapshot that stands for those before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from sluicemq.raft.configuration import Configuration

DATA: Final = "data"
"""What was proposed: a batch of commands for the machine."""
NOOP: Final = "no-op"
"""A leader's first entry of its term. Its data is the machine version that holds from here on."""
CONFIGURATION: Final = "members"
"""Its data is a configuration, which counts as soon as the entry is in a log."""

ENTRY_OVERHEAD_BYTES: Final = 64
"""What an entry costs beyond its data, in memory and on the wire, generously rounded."""


class EntryData(Protocol):
    """What was proposed, as who has proposed it keeps it: bytes, or an object that becomes bytes
    whenever it is written, for whoever wants to have it once in memory. Raft never looks into it.

    Its length is that of its bytes, and neither changes before the entry is committed. What is read
    from a disk is bytes."""

    def __len__(self) -> int: ...

    def __bytes__(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One place in the log. Two entries with the same index and term are the same entry. Of all
    kinds but DATA the data is bytes."""

    index: int
    term: int
    kind: str
    data: EntryData

    @property
    def size_bytes(self) -> int:
        """What it counts for where bytes are bounded."""
        return len(self.data) + ENTRY_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """What the machine was after the entry at `index`, which had `term`; its content is with the
    host. The one at index 0 is a group's birth: no content, and the members it was made with."""

    index: int
    term: int
    configuration: Configuration
    version: int = 0
    """The machine version that held there."""
    size_bytes: int = 0
    """How much content there is, to be sent in pieces."""
    live_upto: int = 0
    """The last of the entries up to `index` that the content names as still needed; 0: none is. Who
    takes the content over has to have these, too."""


def noop(index: int, term: int, version: int) -> LogEntry:
    """A leader's first entry of its term."""
    return LogEntry(index, term, NOOP, str(version).encode())


def version_of(entry: LogEntry) -> int:
    """The machine version that a no-op begins."""
    return int(bytes(entry.data))
