"""What replaces the entries at the beginning of a log."""

from __future__ import annotations

from dataclasses import dataclass

from sluicemq.raft.configuration import Configuration


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
