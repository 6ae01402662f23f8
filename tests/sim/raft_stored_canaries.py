"""Bugs of Raft's log on the disk, and of what a snapshot brings with it, to be planted under whole
groups: each makes a member forget what it has said, or lack what it needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from sim.canaries import Plant
from sim.raft_storage_canaries import RAFT_STORAGE_CANARIES
from sluicemq.kernel.disk import Files
from sluicemq.raft.entry import LogEntry
from sluicemq.raft.following import Following
from sluicemq.raft.log import RaftLog
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.storage.raft.codec import RaftRecord, RaftSnapshot
from sluicemq.storage.raft.group import RaftGroup
from sluicemq.storage.raft.staging import StagedSync, Staging

OF_ONE_NODE: Final = (
    "acknowledged_before_its_sync",
    "vote_not_written",
    "truncation_not_replayed",
    "uncommitted_entries_in_segments",
    "uncommitted_entries_not_carried",
    "checkpoint_does_not_wait_for_segments",
    "snapshot_takes_what_is_needed",
)
"""Those that are planted under a storage alone, too."""

CANARIES: Final[dict[str, Plant]] = {name: RAFT_STORAGE_CANARIES[name] for name in OF_ONE_NODE}


def canary(plant: Plant) -> Plant:
    """Register a bug under its function's name."""
    CANARIES[plant.__name__] = plant
    return plant


@canary
def a_snapshot_comes_without_what_it_needs(patch: pytest.MonkeyPatch) -> None:
    original = RaftLog.snapshot_at

    def snapshot_at(self: RaftLog, *arguments: int) -> LogSnapshot:
        return replace(original(self, *arguments), live_upto=0)

    patch.setattr(RaftLog, "snapshot_at", snapshot_at)


@canary
def what_a_snapshot_needs_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    def run(self: StagedSync, files: Files) -> None:
        """Leave that to the system."""

    patch.setattr(StagedSync, "run", run)


@canary
def a_piece_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = Staging.add

    def add(self: Staging, entries: list[LogEntry], *rest: Any) -> Any:
        return original(self, entries[:1], *rest)

    patch.setattr(Staging, "add", add)


@canary
def pieces_are_taken_for_an_earlier_snapshot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Following, "has_of", lambda self, _snapshot: self.live)


@canary
def what_came_with_a_snapshot_is_not_found_again(patch: pytest.MonkeyPatch) -> None:
    """The journal's record is read without its segments."""
    original = RaftGroup.apply

    def apply(self: RaftGroup, record: RaftRecord, file: int = 0, append: int = 0) -> None:
        if isinstance(record, RaftSnapshot) and not file:
            record = record._replace(segments=())
        original(self, record, file, append)

    patch.setattr(RaftGroup, "apply", apply)
