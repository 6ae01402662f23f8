"""The durable state of a group's member."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluicemq.raft.configuration import Configuration
from sluicemq.raft.entry import LogEntry
from sluicemq.raft.snapshot import LogSnapshot


@dataclass(slots=True)
class Durable:
    """What a member finds on its disk at a start. In a new group members begin with a snapshot at
    index 0 that names them all; an added member begins with one that names nobody."""

    term: int = 0
    vote: int = 0
    """The member that it has voted for in that term; 0: none."""
    snapshot: LogSnapshot = field(default_factory=lambda: LogSnapshot(0, 0, Configuration()))
    entries: list[LogEntry] = field(default_factory=list)
