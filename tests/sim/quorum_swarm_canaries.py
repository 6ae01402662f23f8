"""Bugs of quorum queues to be planted in whole runs: each breaks one promise, most of them
rarely."""

from __future__ import annotations

from typing import Any, Final

import pytest

from sim.canaries import Plant, rarely, skip
from sluicemq.chain.queue.group.member_log import GroupLog
from sluicemq.chain.queue.quorum import shell
from sluicemq.chain.queue.quorum.asked_queue import AskedQueue
from sluicemq.chain.queue.quorum.channel_ends import ChannelEnd
from sluicemq.chain.queue.quorum.deliveries import QuorumDeliveries
from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.chain.store import group_commit
from sluicemq.chain.store.group_commit import Append
from sluicemq.chain.store.message_store import MessageStore
from sluicemq.chain.store.raft_answers import RaftAppended
from sluicemq.queues import commands as c
from sluicemq.queues.quorum import commands as q
from sluicemq.queues.quorum import fifo, snapshot
from sluicemq.queues.quorum.command_codec import decode_entry, encode_entry
from sluicemq.queues.quorum.effects import EnqueueRejected
from sluicemq.queues.quorum.entry_content import STAMP
from sluicemq.queues.quorum.fifo import Fifo
from sluicemq.queues.quorum.message_runs import MessageRun
from sluicemq.raft.entry import DATA
from sluicemq.replication.majority import Majority
from sluicemq.storage.raft.group import RaftGroup

QUORUM_SWARM_CANARIES: Final[dict[str, Plant]] = {}


def canary(plant: Plant) -> Plant:
    """Register a bug under its function's name."""
    QUORUM_SWARM_CANARIES[plant.__name__] = plant
    return plant


@canary
def confirmed_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def append(original: Any, self: GroupLog, number: int, records: list[Any]) -> None:
        original(self, number, records)
        self.owner.post(RaftAppended(self.group, number))

    rarely(patch, GroupLog, "append", 5, append)


@canary
def delivery_counts_begin_anew_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    """They are in the snapshot, or follow from the log behind it."""
    run_of, replay, give_back = snapshot.run_of, Majority.replay, Fifo.give_back

    def forgetful(*arguments: Any) -> MessageRun:
        return run_of(*arguments)._replace(returns=0)

    def uncounted(self: Majority[Any, Any], entry: Any) -> None:
        fifo: Any = self.machine
        fifo.give_back = lambda runs, *_, **__: give_back(fifo, runs, counts=False)
        try:
            replay(self, entry)
        finally:
            del fifo.give_back

    patch.setattr(snapshot, "run_of", forgetful)
    patch.setattr(Majority, "replay", uncounted)


@canary
def acknowledgement_lost_at_a_rewrite(patch: pytest.MonkeyPatch) -> None:
    """When entries go to segments, those behind the snapshot are taken for as dead as those before
    it if no message is in them."""
    flush = RaftGroup.flush

    def without_settles(self: RaftGroup, cut: int, *arguments: Any) -> Any:
        for index, held in [*self.held.items()]:
            entry = held.entry
            if entry.kind == DATA and index > self.snapshot.index:
                commands = decode_entry(bytes(entry.data)[STAMP.size :])
                if not any(isinstance(each, q.Enqueue) for each in commands):
                    left = [each for each in commands if not isinstance(each, q.SettleDelivered)]
                    data = encode_entry(left or [q.PassTime()], bytes(entry.data)[: STAMP.size])
                    self.held[index] = held._replace(entry=entry.with_data(data))
        return flush(self, cut, *arguments)

    patch.setattr(RaftGroup, "flush", without_settles)


@canary
def dead_letter_settled_before_its_target_has_it(patch: pytest.MonkeyPatch) -> None:
    def dead_letter(original: Any, self: QuorumShell, letter: Any) -> None:
        original(self, letter)
        if letter.run:
            parts = [(letter.run, 0, len(letter.contents))]
            self.post(c.Settle(self.machine.own_link, parts, c.ACK))

    def settle(self: ChannelEnd, run: int, *arguments: int) -> Any:
        return settled(self, run, *arguments) if run in self.runs else None

    settled = ChannelEnd.settled
    patch.setattr(ChannelEnd, "settled", settle)
    rarely(patch, QuorumShell, "dead_letter", 2, dead_letter)


@canary
def length_limit_decided_by_one_member(patch: pytest.MonkeyPatch) -> None:
    """By what waits there to be agreed on."""
    is_full, look_at_state = Fifo.is_full, QuorumShell.look_at_state
    waiting: dict[Fifo, int] = {}

    def look(self: QuorumShell) -> None:
        waiting[self.fifo] = len(self.replicator.gathered)
        look_at_state(self)

    patch.setattr(QuorumShell, "look_at_state", look)
    patch.setattr(Fifo, "is_full", lambda self: is_full(self) or waiting.get(self, 0) > 0)


@canary
def expiry_decided_by_the_local_clock(patch: pytest.MonkeyPatch) -> None:
    """And not by the time that the leader has given to the entry."""
    replay = Majority.replay

    def by_the_clock(self: Majority[Any, Any], entry: Any) -> None:
        fifo: Any = self.machine
        entered, now_ms = fifo.entered, self._clock.wall_ms()
        fifo.entered = lambda index, _: entered(index, now_ms)
        try:
            replay(self, entry)
        finally:
            fifo.entered = entered

    patch.setattr(Majority, "replay", by_the_clock)


@canary
def enqueuers_forgotten_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    read = snapshot.read_enqueuers

    def from_the_first(state: Any, rows: Any) -> None:
        read(state, rows)
        for enqueuer in state.enqueuers.members.values():
            enqueuer.next_seq = 1
            enqueuer.heard_seq = 1

    patch.setattr(snapshot, "read_enqueuers", from_the_first)


@canary
def enqueued_twice(patch: pytest.MonkeyPatch) -> None:
    """What is sent again is taken for new."""

    def submit(original: Any, self: AskedQueue, command: Any) -> None:
        original(self, command)
        if isinstance(command, q.Enqueue):
            original(self, command)

    def enqueue(self: Fifo, command: Any, effects: list[Any]) -> None:
        enqueuer = self.enqueuers.members.get(command.sender)
        if enqueuer is not None and enqueuer.next_seq > command.first_seq:
            enqueuer.next_seq = command.first_seq
        before(self, command, effects)

    before = Fifo.enqueue
    patch.setitem(fifo.HANDLERS, q.Enqueue, enqueue)
    rarely(patch, AskedQueue, "submit", 6, submit)


@canary
def unsent_is_counted_as_returned(patch: pytest.MonkeyPatch) -> None:
    def returned(self: AskedQueue, end: Any, consumer: Any) -> None:
        for key, ids in end.unsent(consumer).items():
            self.submit(q.SettleDelivered(key, tuple(ids), c.REQUEUE))

    patch.setattr(AskedQueue, "return_unsent", returned)


@canary
def refused_and_taken_all_the_same(patch: pytest.MonkeyPatch) -> None:
    def enqueue(self: Fifo, command: Any, effects: list[Any]) -> None:
        if self.rejects:
            self.rejects = False
            taken: list[Any] = []
            before(self, command, taken)
            self.rejects = True
            effects += [EnqueueRejected(*effect) for effect in taken]
        else:
            before(self, command, effects)

    before = Fifo.enqueue
    patch.setitem(fifo.HANDLERS, q.Enqueue, enqueue)


@canary
def credit_of_batches_lost(patch: pytest.MonkeyPatch) -> None:
    rarely(patch, ChannelEnd, "give_credit_back", 3, skip)


@canary
def memory_of_a_body_not_given_back(patch: pytest.MonkeyPatch) -> None:
    def release(original: Any, self: Any, upto: int) -> None:
        before = self.ram_bytes
        original(self, upto)
        self.ram_bytes += before > self.ram_bytes

    rarely(patch, shell.EntryBodies, "release", 10, release)


@canary
def delivered_beyond_the_window(patch: pytest.MonkeyPatch) -> None:
    """And not taken out of the outbox."""

    def send_some(original: Any, self: QuorumDeliveries, end: Any) -> bool:
        first = end.outbox[0] if end.outbox else None
        found: bool = original(self, end)
        if first is not None and (not end.outbox or end.outbox[0] is not first):
            end.outbox.appendleft(first)
        return found

    rarely(patch, QuorumDeliveries, "send_some", 20, send_some)


@canary
def an_append_waits_for_all_that_has_gathered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(group_commit, "parted", lambda gathered, _: (gathered, []))


@canary
def a_quantum_is_never_full(patch: pytest.MonkeyPatch) -> None:
    gather = MessageStore.gather

    def gather_more(self: MessageStore, *arguments: Any, **named: Any) -> Any:
        quantum_bytes, self.quantum_bytes = self.quantum_bytes, 1 << 30
        try:
            return gather(self, *arguments, **named)
        finally:
            self.quantum_bytes = quantum_bytes

    patch.setattr(MessageStore, "gather", gather_more)


@canary
def a_quantum_passes_those_before_it(patch: pytest.MonkeyPatch) -> None:
    """So a removal may be on the disk before what is removed."""
    before = group_commit.parted

    def newest_first(gathered: list[Append], most: int) -> tuple[list[Append], list[Append]]:
        places = [at for at, each in enumerate(gathered) if each.quantum_bytes]
        turned = [*gathered]
        for at, other in zip(places, reversed(places), strict=True):
            turned[at] = gathered[other]
        taken, left = before(turned, most)
        return taken, [each for each in gathered if each in left]

    patch.setattr(group_commit, "parted", newest_first)
