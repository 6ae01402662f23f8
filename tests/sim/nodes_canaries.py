"""Bugs to be planted in whole nodes of a cluster: each breaks one promise to clients, or to the
other nodes. Those of Raft are the ones that are planted in Raft alone, too, and some are planted
in one node alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from sim import canaries, raft_canaries
from sluicemq.chain.channel.transactions import Transaction
from sluicemq.chain.definitions import cluster_agreement
from sluicemq.chain.definitions.cluster_agreement import ClusterAgreement
from sluicemq.chain.queue.quorum.asking import Asking
from sluicemq.chain.remote.remote_channel import PeerLost, RemoteChannel
from sluicemq.chain.remote.remote_end import HeldDelivery, RemoteEnd
from sluicemq.chain.remote.remote_queue import RemoteQueue
from sluicemq.flow.confirms import Unconfirmed
from sluicemq.kernel.actor import Actor
from sluicemq.metadata.agreement import Agreed
from sluicemq.metadata.changes import Change
from sluicemq.queues import commands as c
from sluicemq.queues.quorum import commands as q
from sluicemq.queues.quorum import fifo
from sluicemq.queues.quorum.fifo import Fifo
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.leading import Leading

NodesPlant = Callable[[pytest.MonkeyPatch], None]
OF_RAFT: Final = (
    "two_votes_in_a_term",
    "a_vote_is_said_before_it_is_durable",
    "acknowledged_before_the_sync",
    "counted_before_the_own_sync",
    "an_old_term_is_counted",
    "a_stale_append_truncates",
)
OF_ONE_NODE: Final = (
    "a_stream_has_lost_an_entry",
    "a_dead_letter_comes_twice",
    "the_last_dead_letter_is_forgotten",
)
CANARIES: Final[dict[str, NodesPlant]] = {
    **{name: raft_canaries.CANARIES[name] for name in OF_RAFT},
    **{name: canaries.CANARIES[name] for name in OF_ONE_NODE},
}


def canary(plant: NodesPlant) -> NodesPlant:
    """Register a bug under its function's name."""
    CANARIES[plant.__name__] = plant
    return plant


@canary
def a_change_is_answered_before_it_is_agreed_on(patch: pytest.MonkeyPatch) -> None:
    original = ClusterAgreement.propose

    def propose(self: ClusterAgreement, change: Change, proposer: Actor | None = None) -> bool:
        original(self, change)
        if proposer is not None:
            proposer.post(Agreed(None))
        return False

    patch.setattr(ClusterAgreement, "propose", propose)


@canary
def members_apply_in_their_own_order(patch: pytest.MonkeyPatch) -> None:
    """The proposals of an entry, where there are several."""
    decode = cluster_agreement.decode_proposals
    nodes: dict[int, int] = {}

    def turned(data: bytes) -> Any:
        found = decode(data)
        nodes[len(nodes)] = 0
        return found[::-1] if len(nodes) % 3 == 0 else found

    patch.setattr(cluster_agreement, "decode_proposals", turned)


@canary
def what_a_lost_node_has_not_answered_is_confirmed(patch: pytest.MonkeyPatch) -> None:
    """To who publishes to a queue of a node that is not reached."""

    def refuse_publish(self: RemoteQueue, publish: c.Publish) -> None:
        self.publish_to_deleted(publish)

    patch.setattr(RemoteQueue, "refuse_publish", refuse_publish)


@canary
def a_channel_of_a_lost_node_stays(patch: pytest.MonkeyPatch) -> None:
    """What it has unacknowledged never comes back."""
    receive = RemoteChannel.receive

    def deaf(self: RemoteChannel, message: object) -> None:
        if not isinstance(message, PeerLost):
            receive(self, message)

    patch.setattr(RemoteChannel, "receive", deaf)


@canary
def flags_are_lost_between_nodes(patch: pytest.MonkeyPatch) -> None:
    give = RemoteEnd._give

    def unflagged(self: RemoteEnd, delivery: HeldDelivery, count: int) -> None:
        came = delivery.came._replace(redelivered=False)
        other = HeldDelivery(delivery.consumer, came)
        other.offset = delivery.offset
        give(self, other, count)
        delivery.offset = other.offset

    patch.setattr(RemoteEnd, "_give", unflagged)


@canary
def what_is_sent_again_is_taken_again(patch: pytest.MonkeyPatch) -> None:
    """Neither rows that a queue has had are passed over, nor messages."""
    enqueue, asked = Fifo.enqueue, Fifo.asked

    def once_more(self: Fifo, command: q.Enqueue, effects: list[Any]) -> None:
        enqueuer = self.enqueuers.members.get(command.sender)
        if enqueuer is not None and command.first_seq < enqueuer.next_seq:
            enqueuer.next_seq = command.first_seq
            enqueuer.heard_seq = min(enqueuer.heard_seq, command.first_seq)
        enqueue(self, command, effects)

    def as_new(self: Fifo, command: q.Asked, effects: list[Any]) -> None:
        asked(self, command, effects)
        self.is_repeat = False

    patch.setitem(fifo.HANDLERS, q.Enqueue, once_more)
    patch.setitem(fifo.HANDLERS, q.Asked, as_new)


@canary
def a_leader_that_is_cut_off_answers(patch: pytest.MonkeyPatch) -> None:
    """For those whom it does not reach it answers itself."""
    original = Leading.durable_at

    def durable_at(self: Leading, name: int) -> int:
        is_lost = name in self.member.lost
        return self.member.log.durable if is_lost else original(self, name)

    patch.setattr(Leading, "durable_at", durable_at)


@canary
def what_a_leader_has_not_taken_is_not_sent_again(patch: pytest.MonkeyPatch) -> None:
    """To the next one."""
    patch.setattr(Asking, "begin_anew", lambda _self: None)


@canary
def earlier_lives_of_a_node_keep_their_messages(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(fifo.HANDLERS, q.NodeRestarted, lambda _self, _command, _effects: None)


@canary
def the_first_queue_answers_for_all(patch: pytest.MonkeyPatch) -> None:
    """What is published to several queues is confirmed when one has it."""
    original = Unconfirmed.expect

    def expect(self: Unconfirmed, first_seq: int, count: int, links: Any, to_come: int = 0) -> None:
        original(self, first_seq, count, [*links][:1], 0 if links else to_come)

    patch.setattr(Unconfirmed, "expect", expect)
    patch.setattr(Unconfirmed, "sent", lambda *_: None)


@canary
def a_commit_is_not_told_what_was_refused(patch: pytest.MonkeyPatch) -> None:
    original = Transaction.answers

    def answers(self: Transaction) -> list[bytes]:
        self.publishing.unconfirmed.drain()
        self.failed = False
        return original(self)

    patch.setattr(Transaction, "answers", answers)


@canary
def one_disk_is_a_majority(patch: pytest.MonkeyPatch) -> None:
    """An entry is agreed on as soon as one member has it."""

    def agreed(self: Configuration, value_of: Callable[[int], int]) -> int:
        return max(map(value_of, self.voters))

    patch.setattr(Configuration, "agreed", agreed)


@canary
def a_deleted_queue_leaves_its_last_batch_to_the_next(patch: pytest.MonkeyPatch) -> None:
    """Who publishes to a queue of another node sends it once more, when a queue of that name is
    declared again."""
    publish = RemoteQueue.publish
    last: dict[tuple[Any, str], tuple[RemoteQueue, c.Publish]] = {}

    def once_more(self: RemoteQueue, command: c.Publish) -> None:
        former, before = last.get((self.office, self.name), (self, command))
        last[self.office, self.name] = self, command
        if former is not self:
            publish(self, c.Publish(before.batch, command.link, 0, False))
        publish(self, command)

    patch.setattr(RemoteQueue, "publish", once_more)
