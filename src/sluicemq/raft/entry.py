"""The contents of a log: entries, and the snapshot that replaces those before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from sluicemq.raft.configuration import Configuration

DATA: Final = "data"
"""A proposal: a batch of commands for the machine."""
NOOP: Final = "no-op"
"""A leader's first entry of its term. Its data is the machine version that holds from here on."""
CONFIGURATION: Final = "members"
"""Its data is a configuration, which counts as soon as the entry is in a log."""

ENTRY_OVERHEAD_BYTES: Final = 64
"""The generous cost of an entry beyond its data, in memory and on the wire."""


class EntryData(Protocol):
    """A proposal, in the form in which the proposer keeps it: bytes, or an object that becomes
    bytes whenever it is written, so that memory need not hold it twice. Raft never looks into it.

    Its length is that of its bytes, and neither changes before the entry is committed. Entries read
    from a disk have bytes.
    """

    def __len__(self) -> int: ...

    def __bytes__(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One place in the log. Two entries with the same index and term are the same entry. The data
    of all kinds but DATA is bytes."""

    index: int
    term: int
    kind: str
    data: EntryData

    @property
    def size_bytes(self) -> int:
        """The entry's weight where bytes are bounded."""
        return len(self.data) + ENTRY_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """The machine's state after the entry at `index`, which had `term`; the host keeps the content.
    The snapshot at index 0 is a group's birth: it has no content, and names the initial members."""

    index: int
    term: int
    configuration: Configuration
    version: int = 0
    """The machine version at that entry."""
    size_bytes: int = 0
    """The bytes of its content, which is sent in pieces."""
    live_upto: int = 0
    """The last of the entries up to `index` that the content still needs; 0: none. A member that
    takes in the content must have these, too."""


def noop(index: int, term: int, version: int) -> LogEntry:
    """A leader's first entry in its term."""
    return LogEntry(index, term, NOOP, str(version).encode())


def version_of(entry: LogEntry) -> int:
    """The machine version from this no-op on."""
    return int(bytes(entry.data))
