"""Bugs to be planted in mirrored queues: each breaks one of the promises of
docs/decisions/0029-mirrored-queues.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pytest

from sluicemq.queues.effects import Confirm, Effect
from sluicemq.queues.mirrored import mastership
from sluicemq.queues.mirrored.command_codec import trimmed
from sluicemq.queues.mirrored.commands import MirrorCommand, RemoveMessages, WriteMessages
from sluicemq.queues.mirrored.delivery_marks import DeliveryMarks
from sluicemq.queues.mirrored.group_standing import GroupStanding, has_all
from sluicemq.queues.mirrored.mastership import Mastership
from sluicemq.queues.mirrored.mirror import Mirror
from sluicemq.queues.mirrored.mirror_lag import MirrorLags
from sluicemq.queues.mirrored.mirrored_rows import MirroredRun
from sluicemq.queues.mirrored.pending_writes import PendingWrites
from sluicemq.replication import mirrored_master
from sluicemq.replication.mirrored_master import MirroredMaster
from sluicemq.sim.raft import mirrored_member
from sluicemq.sim.raft.stored_mirror import StoredMirrorRegister

Plant = Callable[[pytest.MonkeyPatch], None]
CANARIES: Final[dict[str, Plant]] = {}
OF_STORAGE: Final[dict[str, Plant]] = {}
"""Those that only a real storage notices."""


def canary(plant: Plant) -> Plant:
    """Register a bug under its function's name."""
    CANARIES[plant.__name__] = plant
    return plant


@canary
def an_unsynced_mirror_is_promoted(patch: pytest.MonkeyPatch) -> None:
    """Who is elected serves at once, with what it has applied."""
    patch.setattr(mirrored_member, "may_serve", lambda raft: raft.is_leader)


@canary
def confirmed_before_all_mirrors(patch: pytest.MonkeyPatch) -> None:
    """A majority is enough."""
    patch.setattr(mastership, "has_all", lambda standing, _members: standing.commit)


@canary
def confirmed_without_a_majority(patch: pytest.MonkeyPatch) -> None:
    """The in-sync set is enough, which is the master alone at times."""

    def on_all(standing: GroupStanding, members: tuple[int, ...]) -> int:
        return min((standing.durable.get(member, 0) for member in members), default=0)

    patch.setattr(mastership, "has_all", on_all)


@canary
def not_waited_for_while_it_is_dropped(patch: pytest.MonkeyPatch) -> None:
    """Whom a master wants to drop it does not wait for any more, agreed or not."""
    original = Mastership.confirmed

    def confirmed(self: Mastership[Any], standing: GroupStanding) -> list[Any]:
        going = {member for member, is_in in self.changing.items() if not is_in}

        def of_others(standing: GroupStanding, members: tuple[int, ...]) -> int:
            return has_all(standing, (*(each for each in members if each not in going),))

        with pytest.MonkeyPatch.context() as within:
            within.setattr(mastership, "has_all", of_others)
            return original(self, standing)

    patch.setattr(Mastership, "confirmed", confirmed)


@canary
def credit_of_a_dead_mirror_is_kept(patch: pytest.MonkeyPatch) -> None:
    """A gate that was shut when its mirror was dropped stays."""
    original = MirrorLags.look

    def look(
        self: MirrorLags, standing: GroupStanding, mirrors: tuple[int, ...], now_ms: int
    ) -> None:
        kept = {member: lag for member, lag in self.lags.items() if lag.is_shut}
        original(self, standing, mirrors, now_ms)
        self.lags = kept | self.lags

    patch.setattr(MirrorLags, "look", look)


@canary
def delivered_beyond_the_mark(patch: pytest.MonkeyPatch) -> None:
    """What is delivered is marked afterwards."""
    original = DeliveryMarks.cover

    def cover(self: DeliveryMarks, delivered: list[int]) -> bool:
        original(self, delivered)
        return True

    patch.setattr(DeliveryMarks, "cover", cover)


@canary
def confirmed_before_it_is_delivered(patch: pytest.MonkeyPatch) -> None:
    """What is in no entry is confirmed while its delivery waits for the mark."""
    original = MirroredMaster.take

    def take(self: MirroredMaster, effects: list[Effect]) -> list[Effect]:
        real = original(self, effects)
        for _, held in self.held:
            real += [each for each in held if isinstance(each, Confirm)]
            held[:] = [each for each in held if not isinstance(each, Confirm)]
        return real

    patch.setattr(MirroredMaster, "take", take)


@canary
def confirmed_with_a_mark_that_went_ahead(patch: pytest.MonkeyPatch) -> None:
    """What waits for the entry behind one with marks is confirmed with these."""
    original = Mastership.take_entry

    def take_entry(self: Mastership[Any]) -> list[MirrorCommand]:
        is_ahead = self.keeps_writes
        commands = original(self)
        if is_ahead:
            for write in self.pending.writes.values():
                self.receipts += [] if write.receipt is None else [write.receipt]
                write.receipt = None
        return commands

    patch.setattr(Mastership, "take_entry", take_entry)


@canary
def gone_before_its_entry_and_written_all_the_same(patch: pytest.MonkeyPatch) -> None:
    """Of a batch all is written of which something is left."""
    original = PendingWrites.take

    def take(self: PendingWrites[Any]) -> tuple[list[WriteMessages], list[range], list[Any]]:
        commands, _, receipts = original(self)
        return commands, [], receipts

    patch.setattr(PendingWrites, "take", take)


@canary
def removed_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    """What came and went in one turn comes behind its going."""
    original = Mastership.take_entry

    def take_entry(self: Mastership[Any]) -> list[MirrorCommand]:
        commands = original(self)
        return sorted(commands, key=lambda each: not isinstance(each, RemoveMessages))

    patch.setattr(Mastership, "take_entry", take_entry)


@canary
def restored_messages_are_not_flagged(patch: pytest.MonkeyPatch) -> None:
    """A new master begins as if nothing had been delivered."""
    original = mirrored_master.chunks_of
    patch.setattr(mirrored_master, "chunks_of", lambda run, _delivered: original(run, 0))


@canary
def a_snapshot_forgets_what_was_removed(patch: pytest.MonkeyPatch) -> None:
    """A run is either there or not."""
    patch.setattr(MirroredRun, "is_whole", True)


@canary
def what_a_master_had_is_kept_when_it_is_deposed(patch: pytest.MonkeyPatch) -> None:
    """It goes on with its own queue when it leads again, agreed or not."""

    original = mirrored_member.MirroredMember._look

    def look(self: mirrored_member.MirroredMember) -> bool:
        return self.raft.leading is not None and self.raft.leading.knows_commit and original(self)

    patch.setattr(mirrored_member.MirroredMember, "_look", look)
    patch.setattr(mirrored_member.MirroredMember, "is_of_this_term", lambda _self, _master: True)


def canary_of_storage(plant: Plant) -> Plant:
    """Register a bug under its function's name."""
    OF_STORAGE[plant.__name__] = plant
    return plant


@canary_of_storage
def an_entry_is_trimmed_too_far(patch: pytest.MonkeyPatch) -> None:
    """Of each run of places the last one is forgotten."""

    def trim(data: bytes, places: Sequence[range]) -> bytes:
        return trimmed(data, [each[: max(1, len(each) - 1)] for each in places])

    patch.setattr(StoredMirrorRegister, "trim", staticmethod(trim))


@canary_of_storage
def a_snapshot_names_too_little(patch: pytest.MonkeyPatch) -> None:
    """The newest entry that it needs is not named."""
    original = Mirror.live

    def live(self: Mirror) -> Iterator[tuple[int, Sequence[range]]]:
        return iter([*original(self)][:-1])

    patch.setattr(Mirror, "live", live)
