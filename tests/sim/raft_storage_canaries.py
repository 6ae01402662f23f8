"""Bugs of Raft's log on the disk to be planted: each makes it say what a crash does not leave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from sim.canaries import Plant
from sim.storage_canaries import journal_deleted_before_the_checkpoint, without
from sluicemq.chain.store import raft_storage
from sluicemq.chain.store.raft_answers import RaftAppended
from sluicemq.chain.store.raft_storage import (
    RaftAppend,
    RaftCommitted,
    RaftSnapshotAppend,
    RaftSnapshotTaken,
    RaftStorage,
)
from sluicemq.raft.entry import LogEntry
from sluicemq.storage.raft.codec import RaftRecord, RaftTruncation, TermAndVote
from sluicemq.storage.raft.group import RaftGroup
from sluicemq.storage.raft.live_indexes import LiveIndexes
from sluicemq.storage.raft.live_places import LivePlaces
from sluicemq.storage.raft.rewrite import RaftRewrite
from sluicemq.storage.raft.segment_file import RaftFilesGone, RaftSegmentWrite
from sluicemq.storage.raft.snapshot_file import RaftContentWrite

RAFT_STORAGE_CANARIES: Final[dict[str, Plant]] = {
    "journal_deleted_before_the_checkpoint": journal_deleted_before_the_checkpoint
}


def canary(plant: Plant) -> Plant:
    """Register a bug under its function's name."""
    RAFT_STORAGE_CANARIES[plant.__name__] = plant
    return plant


@canary
def acknowledged_before_its_sync(patch: pytest.MonkeyPatch) -> None:
    original = RaftAppend.entries

    def entries(self: RaftAppend, parts: list[bytes]) -> None:
        original(self, parts)
        self.owner.post(RaftAppended(self.group, self.number))

    patch.setattr(RaftAppend, "entries", entries)
    patch.setattr(RaftAppend, "appended", lambda self: self.storage.appended(self))


@canary
def old_sync_vouches_for_what_was_overwritten(patch: pytest.MonkeyPatch) -> None:
    """A completion counts for all that was handed in by then."""
    newest: dict[int, int] = {}
    original = RaftAppend.__init__

    def init(self: RaftAppend, *arguments: Any) -> None:
        original(self, *arguments)
        newest[self.group] = self.number

    def appended(self: RaftAppend) -> None:
        self.storage.appended(self)
        if newest[self.group] >= self.number:
            self.owner.post(RaftAppended(self.group, newest[self.group]))
            newest[self.group] = 0

    patch.setattr(RaftAppend, "__init__", init)
    patch.setattr(RaftAppend, "appended", appended)


def unread(patch: pytest.MonkeyPatch, kind: type) -> None:
    """Records of that kind are passed over by a start."""
    original = RaftGroup.apply

    def apply(self: RaftGroup, record: RaftRecord, file: int = 0, append: int = 0) -> None:
        if file or not isinstance(record, kind):
            original(self, record, file, append)

    patch.setattr(RaftGroup, "apply", apply)


@canary
def truncation_not_replayed(patch: pytest.MonkeyPatch) -> None:
    unread(patch, RaftTruncation)


@canary
def vote_not_written(patch: pytest.MonkeyPatch) -> None:
    original = raft_storage.encode_raft_record

    def encode(parts: list[bytes], record: RaftRecord) -> None:
        if not isinstance(record, TermAndVote):
            original(parts, record)

    patch.setattr(raft_storage, "encode_raft_record", encode)


@canary
def uncommitted_entries_in_segments(patch: pytest.MonkeyPatch) -> None:
    def settled(self: RaftGroup, cut: int) -> list[LogEntry]:
        return [
            self.held[index].entry for index in sorted(self.held) if self.held[index].file < cut
        ]

    patch.setattr(RaftGroup, "settled", settled)


@canary
def uncommitted_entries_not_carried(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftGroup, "carried", lambda _self, _cut: [])


@canary
def segment_not_synced(patch: pytest.MonkeyPatch) -> None:
    without(patch, RaftSegmentWrite, "sync", "raft")


@canary
def segment_directory_not_synced(patch: pytest.MonkeyPatch) -> None:
    without(patch, RaftSegmentWrite, "sync_directory", "raft")


@canary
def content_not_synced(patch: pytest.MonkeyPatch) -> None:
    without(patch, RaftContentWrite, "sync", "raft")


@canary
def content_written_after_the_journal(patch: pytest.MonkeyPatch) -> None:
    original = RaftStorage.take

    def take(self: RaftStorage, taken: RaftSnapshotTaken) -> None:
        original(self, taken)
        [append] = [*self.writing.values()][-1:]
        self.store.post(append)

    patch.setattr(RaftStorage, "take", take)
    patch.setattr(
        RaftStorage,
        "content_written",
        lambda self, job: RaftCommitted(self, self.writing.pop(job).record.group, 0),
    )


@canary
def checkpoint_does_not_wait_for_segments(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftSegmentWrite, "run", lambda _self, _files: None)


@canary
def files_gone_before_that_is_durable(patch: pytest.MonkeyPatch) -> None:
    original = RaftStorage.write

    def write(self: RaftStorage, append: RaftAppend, parts: list[bytes]) -> None:
        original(self, append, parts)
        if append.gone is not None:
            append.gone.run(self.store.services.world.disk.files)

    patch.setattr(RaftStorage, "write", write)


@canary
def rewritten_segments_gone_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(raft_storage, "CHECKPOINTS_UNTIL_GONE", 1)
    original = RaftStorage.rewritten

    def rewritten(self: RaftStorage, job: RaftRewrite) -> None:
        original(self, job)
        self.saved()

    patch.setattr(RaftStorage, "rewritten", rewritten)


@canary
def rewritten_to_what_was_needed_before(patch: pytest.MonkeyPatch) -> None:
    original = RaftRewrite.__init__

    def init(self: RaftRewrite, *arguments: Any) -> None:
        original(self, *arguments)
        self.live = LiveIndexes(self.live.ranges[1:])

    patch.setattr(RaftRewrite, "__init__", init)


@canary
def snapshot_takes_what_is_needed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftGroup, "is_live", lambda self, index: index > self.snapshot.index)


@canary
def trimmed_by_one_range_too_many(patch: pytest.MonkeyPatch) -> None:
    original = LivePlaces.find
    patch.setattr(LivePlaces, "find", lambda self, index: original(self, index)[1:])


@canary
def trimmed_to_what_an_earlier_snapshot_says(patch: pytest.MonkeyPatch) -> None:
    original = RaftStorage.keep

    def keep(self: RaftStorage, append: RaftSnapshotAppend, parts: list[bytes]) -> None:
        before = self.trimmings.get(append.record.group)
        original(self, append, parts)
        if before is not None:
            self.trimmings[append.record.group] = before

    patch.setattr(RaftStorage, "keep", keep)


@canary
def trimmed_for_a_snapshot_that_does_not_say_how(patch: pytest.MonkeyPatch) -> None:
    """What was said of messages counts for later snapshots, too."""
    original = RaftStorage._apply

    def apply(self: RaftStorage, group: RaftGroup, *arguments: Any) -> RaftFilesGone | None:
        before = self.trimmings.get(group.id)
        gone = original(self, group, *arguments)
        if before is not None:
            self.trimmings[group.id] = before
        return gone

    patch.setattr(RaftStorage, "_apply", apply)


@canary
def settled_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    original = RaftStorage.see

    def see(self: RaftStorage, cut: int) -> Iterator[RaftSegmentWrite | None]:
        for job in original(self, cut):
            if job is not None:
                self.settled(job)
            yield job

    patch.setattr(RaftStorage, "see", see)
