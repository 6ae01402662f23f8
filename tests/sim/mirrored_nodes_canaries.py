"""Bugs to be planted in the mirrored queues of whole nodes: each breaks one promise to clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from sluicemq.broker.mirrored_queues import MirroredQueues
from sluicemq.chain.channel import channel
from sluicemq.chain.queue.mirrored import member
from sluicemq.chain.queue.mirrored.master import MasterShell
from sluicemq.chain.queue.mirrored.member import MirrorMember
from sluicemq.chain.remote.mirrored_stand_in import MirroredStandIn
from sluicemq.kernel.address import number_of
from sluicemq.metadata.events import DeclaredQueue
from sluicemq.queues.effects import Confirm, Effect, Write
from sluicemq.queues.mirrored import promotion
from sluicemq.queues.mirrored.delivery_marks import DeliveryMarks
from sluicemq.replication import mirrored_master
from sluicemq.replication.ask_post import LeaderKnown
from sluicemq.replication.mirrored_master import MirroredMaster

CANARIES: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {}


def canary(plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    """Register a bug under its function's name."""
    CANARIES[plant.__name__] = plant


@canary
def confirmed_at_once(patch: pytest.MonkeyPatch) -> None:
    """Who has published hears that all is well before anybody else has it."""
    original = MirroredMaster.take

    def take(self: MirroredMaster, effects: list[Effect]) -> list[Effect]:
        real = original(self, [*effects])
        for each in effects:
            if isinstance(each, Write) and each.receipt is not None:
                receipt = each.receipt
                real.append(Confirm(receipt.link, receipt.first_seq, receipt.count))
        for write in self.mastership.pending.writes.values():
            write.receipt = None
        return real

    patch.setattr(MirroredMaster, "take", take)


@canary
def a_leader_serves_at_once(patch: pytest.MonkeyPatch) -> None:
    """It does not wait until it knows what is agreed on."""
    patch.setattr(member, "may_serve", lambda raft: raft.is_leader)
    patch.setattr(member, "may_begin", lambda _: True)


@canary
def a_deposed_master_goes_on(patch: pytest.MonkeyPatch) -> None:
    """Its channels go on to use the queue that they know."""
    patch.setattr(MirrorMember, "may_go_on", lambda _self, _term: True)


@canary
def a_new_master_is_not_turned_to(patch: pytest.MonkeyPatch) -> None:
    """Other nodes hold on to the first master."""
    original = MirroredStandIn.led_by

    def led_by(self: MirroredStandIn, known: LeaderKnown) -> None:
        if not self.led_term:
            original(self, known)

    patch.setattr(MirroredStandIn, "led_by", led_by)


@canary
def consumers_are_not_attached_again(patch: pytest.MonkeyPatch) -> None:
    """They are gone with the master, and nobody hears of it."""
    patch.setattr(channel, "attach_again", lambda *_: None)


@canary
def delivered_beyond_the_mark(patch: pytest.MonkeyPatch) -> None:
    """What is delivered is marked afterwards, and comes again unflagged."""
    original = DeliveryMarks.cover

    def cover(self: DeliveryMarks, delivered: list[int]) -> bool:
        original(self, delivered)
        return True

    patch.setattr(DeliveryMarks, "cover", cover)
    chunks_of = mirrored_master.chunks_of
    patch.setattr(mirrored_master, "chunks_of", lambda run, _delivered: chunks_of(run, 0))


@canary
def removals_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """What was acknowledged comes again with the next master."""
    original = MasterShell.propose

    def propose(self: MasterShell) -> None:
        self.mirrored.mastership.removed.clear()
        original(self)

    patch.setattr(MasterShell, "propose", propose)


@canary
def who_was_left_behind_keeps_what_it_has(patch: pytest.MonkeyPatch) -> None:
    """It goes on when another mirror was promoted."""
    original = MirroredQueues.change

    def change(self: MirroredQueues, declared: DeclaredQueue) -> None:
        member, name = self.members.get(declared.id), self.member_name(declared)
        if name or member is None or not number_of(min(declared.members)):
            original(self, declared)

    patch.setattr(MirroredQueues, "change", change)


@canary
def the_oldest_log_goes_on(patch: pytest.MonkeyPatch) -> None:
    """Of those that are left."""
    newest = promotion.newest

    def oldest(found: Mapping[str, Any]) -> tuple[int, int]:
        term, index = newest(found)
        return -term, -index

    patch.setattr(promotion, "newest", oldest)
