"""Bugs of quorum queues to be planted: each loses what was confirmed, or finds again what was done
with, at some crash."""

from __future__ import annotations

from typing import Any, Final

import pytest

from sim.canaries import Plant
from sim.raft_storage_canaries import RAFT_STORAGE_CANARIES
from sluicemq.chain.queue.group import snapshots
from sluicemq.chain.queue.quorum.asked_queue import AskedQueue
from sluicemq.chain.queue.quorum.entry_bodies import BodyLimits, EntryBodies
from sluicemq.chain.queue.quorum.replicator import FifoReplicator
from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.queues.quorum import commands as q
from sluicemq.queues.quorum.fifo import HANDLERS
from sluicemq.raft.entry import LogEntry
from sluicemq.replication.majority import Majority
from sluicemq.storage.raft.live_places import LivePlaces

QUORUM_CANARIES: Final[dict[str, Plant]] = {
    name: RAFT_STORAGE_CANARIES[name]
    for name in ("acknowledged_before_its_sync", "rewritten_to_what_was_needed_before")
}


def canary(plant: Plant) -> Plant:
    """Register a bug under its function's name."""
    QUORUM_CANARIES[plant.__name__] = plant
    return plant


@canary
def bodies_let_go_before_they_are_in_a_segment(patch: pytest.MonkeyPatch) -> None:
    original = EntryBodies.shrink

    def shrink(self: EntryBodies, limits: BodyLimits) -> None:
        self.were_stored(1 << 60)
        original(self, limits)

    patch.setattr(EntryBodies, "shrink", shrink)


@canary
def bodies_let_go_that_are_needed(patch: pytest.MonkeyPatch) -> None:
    """Of the entry from which messages are still to be delivered."""
    original = EntryBodies.release

    def release(self: EntryBodies, upto: int) -> None:
        original(self, upto + 1)

    patch.setattr(EntryBodies, "release", release)


@canary
def bodies_before_the_snapshot_forgotten_at_a_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QuorumShell, "hold_bodies", lambda _self: None)


@canary
def snapshot_names_too_little(patch: pytest.MonkeyPatch) -> None:
    """Not the first messages that are needed."""

    class Forgetful(LivePlaces):
        def __init__(self) -> None:
            super().__init__()
            self.is_first = True

        def add(self, *place: Any) -> None:
            if not self.is_first:
                super().add(*place)
            self.is_first = False

    patch.setattr(snapshots, "LivePlaces", Forgetful)


@canary
def snapshot_begun_before_its_index(patch: pytest.MonkeyPatch) -> None:
    """What the last entry has changed is applied to it once more."""
    original = QuorumShell.look_at_state

    def look_at_state(self: QuorumShell) -> None:
        self.fifo.index -= 1
        original(self)
        self.fifo.index += 1

    patch.setattr(QuorumShell, "look_at_state", look_at_state)


@canary
def restart_not_proposed(patch: pytest.MonkeyPatch) -> None:
    """What was out in an earlier life stays there."""
    original = AskedQueue.submit

    def submit(self: AskedQueue, command: Any) -> None:
        if not isinstance(command, q.NodeRestarted):
            original(self, command)

    patch.setattr(AskedQueue, "submit", submit)


@canary
def depth_told_before_all_is_done(patch: pytest.MonkeyPatch) -> None:
    """So that who asks believes that what it has settled is durable."""
    original = QuorumShell.answer_inspections

    def answer(self: QuorumShell) -> None:
        self.done, done = 1 << 60, self.done
        original(self)
        self.done = done

    patch.setattr(QuorumShell, "answer_inspections", answer)


@canary
def acknowledged_is_not_applied_at_a_start(patch: pytest.MonkeyPatch) -> None:
    original = Majority.replay

    def replay(self: Majority[Any, Any], entry: LogEntry) -> None:
        settle = HANDLERS[q.SettleDelivered]
        HANDLERS[q.SettleDelivered] = lambda *_: None
        try:
            original(self, entry)
        finally:
            HANDLERS[q.SettleDelivered] = settle

    patch.setattr(Majority, "replay", replay)


@canary
def replayed_bodies_not_kept(patch: pytest.MonkeyPatch) -> None:
    original = FifoReplicator.replay

    def replay(self: FifoReplicator, entry: LogEntry) -> None:
        self.keep_bodies = lambda _: None
        original(self, entry)

    patch.setattr(FifoReplicator, "replay", replay)
