"""The entries of a log."""

from __future__ import annotations

from typing import Final

from sluicemq.compiling import mypyc_attr
from sluicemq.raft.entry_data import EntryData

DATA: Final = "data"
"""A proposal: a batch of commands for the machine."""
NOOP: Final = "no-op"
"""A leader's first entry of its term. Its data is the machine version that holds from here on."""
CONFIGURATION: Final = "members"
"""Its data is a configuration, which counts as soon as the entry is in a log."""

ENTRY_OVERHEAD_BYTES: Final = 64
"""The generous cost of an entry beyond its data, in memory and on the wire."""


@mypyc_attr(acyclic=True)
class LogEntry:
    """One place in the log, which never changes. Two entries with the same index and term are the
    same entry. The data of all kinds but DATA is bytes."""

    __slots__ = ("data", "index", "kind", "term")

    def __init__(self, index: int, term: int, kind: str, data: EntryData) -> None:
        self.index = index
        self.term = term
        self.kind = kind
        self.data = data

    @property
    def size_bytes(self) -> int:
        """The entry's weight where bytes are bounded."""
        return len(self.data) + ENTRY_OVERHEAD_BYTES

    def with_data(self, data: EntryData) -> LogEntry:
        """Return this entry with other data: the same in another form, or what is left of it."""
        return LogEntry(self.index, self.term, self.kind, data)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LogEntry)
            and (other.index, other.term, other.kind) == (self.index, self.term, self.kind)
            and other.data == self.data
        )

    def __hash__(self) -> int:
        return hash((self.index, self.term))

    def __repr__(self) -> str:
        return f"LogEntry({self.index}, {self.term}, {self.kind!r}, {self.data!r})"


def noop(index: int, term: int, version: int) -> LogEntry:
    """A leader's first entry in its term."""
    return LogEntry(index, term, NOOP, str(version).encode())


def version_of(entry: LogEntry) -> int:
    """The machine version from this no-op on."""
    return int(bytes(entry.data))
