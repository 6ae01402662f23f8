"""Bugs of storage to be planted: each makes it promise what a crash does not leave."""

from __future__ import annotations

from typing import Any, Final

import pytest

from sim.canaries import Plant, rarely, skip
from sluicemq.chain.store.checkpoints import CheckpointSaved, SegmentSync
from sluicemq.chain.store.message_store import MessageStore
from sluicemq.chain.store.messages import StoreRemove, StoreWrite, Written
from sluicemq.kernel.disk import Files
from sluicemq.sim.disk import SimFiles
from sluicemq.storage.journal import GroupWrite, journal_numbers, journal_path
from sluicemq.storage.queue_index import QueueIndex
from sluicemq.storage.queue_replica import QueueReplica
from sluicemq.storage.recovery import Recovery

STORAGE_CANARIES: Final[dict[str, Plant]] = {}


def canary(plant: Plant) -> Plant:
    """Register a bug under its function's name."""
    STORAGE_CANARIES[plant.__name__] = plant
    return plant


def without(
    patch: pytest.MonkeyPatch, job: type, action: str, where: str, owner_method: str = "run"
) -> None:
    """While such a job runs, leave out an action on paths that begin so."""
    original = getattr(job, owner_method)
    inner = getattr(SimFiles, action)
    inside: list[object] = []

    def run(self: Any, *arguments: Any) -> Any:
        inside.append(self)
        try:
            return original(self, *arguments)
        finally:
            inside.pop()

    def primitive(self: SimFiles, path: str, *arguments: Any) -> Any:
        if not (inside and path.startswith(where)):
            return inner(self, path, *arguments)
        return None

    patch.setattr(job, owner_method, run)
    patch.setattr(SimFiles, action, primitive)


@canary
def confirm_before_the_write(patch: pytest.MonkeyPatch) -> None:
    def receive(original: Any, self: MessageStore, message: object) -> None:
        if isinstance(message, StoreWrite) and message.receipt is not None:
            message.queue.post(Written([message.receipt]))
            message.receipt = None
        original(self, message)

    rarely(patch, MessageStore, "receive", 3, receive)


@canary
def journal_not_synced(patch: pytest.MonkeyPatch) -> None:
    without(patch, GroupWrite, "sync", "journal")


@canary
def journal_directory_not_synced(patch: pytest.MonkeyPatch) -> None:
    without(patch, GroupWrite, "sync_directory", "journal")


@canary
def bodies_not_synced(patch: pytest.MonkeyPatch) -> None:
    without(patch, GroupWrite, "sync", "messages")


@canary
def index_ahead_of_its_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentSync, "run", skip)


@canary
def checkpoint_not_synced(patch: pytest.MonkeyPatch) -> None:
    without(patch, CheckpointSaved, "sync", "checkpoint")


@canary
def journal_deleted_before_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    original = CheckpointSaved.run

    def run(self: CheckpointSaved, files: Files) -> None:
        for number in journal_numbers(files):
            if number < self.checkpoint.journal_first:
                files.delete(journal_path(number))
        original(self, files)

    patch.setattr(CheckpointSaved, "run", run)


@canary
def acknowledgement_lost(patch: pytest.MonkeyPatch) -> None:
    def remove(original: Any, self: MessageStore, message: StoreRemove) -> None:
        message.ranges = []
        original(self, message)

    rarely(patch, MessageStore, "remove", 1, remove)


@canary
def acknowledged_too_much(patch: pytest.MonkeyPatch) -> None:
    def one_more(original: Any, self: QueueReplica, positions: range) -> None:
        original(self, range(positions.start, positions.stop + 1))

    rarely(patch, QueueReplica, "acknowledge", 1, one_more)


@canary
def nothing_is_redelivered(patch: pytest.MonkeyPatch) -> None:
    original = Recovery.match_definitions

    def match(self: Recovery) -> None:
        self.clean = True
        original(self)

    patch.setattr(Recovery, "match_definitions", match)
    patch.setattr(QueueReplica, "apply", forget_deliveries(QueueReplica.apply))


def forget_deliveries(apply: Any) -> Any:
    """QueueReplica.apply, but what was delivered stays unknown."""

    def forgetful(self: QueueReplica, entry: Any) -> None:
        apply(self, entry)
        self.rows = {row: mark._replace(delivered=0) for row, mark in self.rows.items()}

    return forgetful


@canary
def recovered_to_the_journal_only(patch: pytest.MonkeyPatch) -> None:
    without(patch, Recovery, "sync", "queues", "write_back")


@canary
def segment_kept_for_too_long(patch: pytest.MonkeyPatch) -> None:
    """The bits of a segment come back with the next checkpoint."""

    def forget(original: Any, self: QueueIndex, positions: range) -> Any:
        return original(self, positions[:-1]) if len(positions) > 1 else original(self, positions)

    rarely(patch, QueueIndex, "acknowledge", 2, forget)
