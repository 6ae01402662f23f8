"""Bugs to be planted: each breaks one promise, most of them rarely. `plant` puts one in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import pytest

from sluicemq.amqp.connection import AmqpConnection
from sluicemq.broker import policy_rounds
from sluicemq.chain.channel.channel import Channel
from sluicemq.chain.channel.publishing import Publishing
from sluicemq.chain.channel.unacked import Span
from sluicemq.chain.connection.reader import Reader
from sluicemq.chain.queue.classic import ClassicShell
from sluicemq.chain.queue.dead_lettering import DeadLettering
from sluicemq.chain.queue.queue import PolicyChanged
from sluicemq.chain.queue.quorum.asked_queue import AskedQueue
from sluicemq.chain.queue.quorum.channel_ends import ChannelEnd
from sluicemq.chain.queue.republish_messages import Republish
from sluicemq.chain.republish import delayer
from sluicemq.chain.republish.delayer import Delayer
from sluicemq.chain.republish.republisher import Republisher
from sluicemq.chain.store import local_agreement
from sluicemq.chain.store.local_agreement import LocalAgreement
from sluicemq.chain.store.message_store import MessageStore
from sluicemq.chain.store.messages import StoreWrite
from sluicemq.chain.store.store_group import StoreGroup
from sluicemq.chain.writer import Writer
from sluicemq.flow import confirms
from sluicemq.flow.alarm import AlarmBoard
from sluicemq.flow.budget import Budget
from sluicemq.flow.confirms import Unconfirmed
from sluicemq.flow.credit import Grant, Inflow
from sluicemq.flow.link import Link
from sluicemq.flow.throttle import BLOCKING
from sluicemq.kernel.actor import Actor
from sluicemq.manage.task import Task
from sluicemq.queues.classic.delivery_counts import DeliveryCounts, Stretch
from sluicemq.queues.classic.limits import Limits
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.queues.classic.paging import PlainBacking
from sluicemq.queues.classic.priorities import PriorityBacking
from sluicemq.queues.classic.unacked_runs import UnackedRun
from sluicemq.queues.consumers import Consumer, ConsumerGroups
from sluicemq.queues.effects import Confirm, Deliver
from sluicemq.queues.stream.machine import Stream
from sluicemq.queues.stream.reader import StreamReader
from sluicemq.storage.checkpoint import QueueState
from sluicemq.storage.queue_recovery import OneQueue
from sluicemq.storage.queue_replica import QueueReplica
from sluicemq.storage.stream_log import StreamLog

Plant = Callable[[pytest.MonkeyPatch], None]
CANARIES: Final[dict[str, Plant]] = {}


def canary(plant: Plant) -> Plant:
    """Register a bug under its function's name."""
    CANARIES[plant.__name__] = plant
    return plant


class OneIn:
    """True every `n`-th time."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.times = 0

    def __call__(self) -> bool:
        self.times += 1
        return self.times % self.n == 0


def rarely(
    patch: pytest.MonkeyPatch, owner: type, name: str, one_in: int, instead: Callable[..., Any]
) -> None:
    """Every so often call `instead(original, self, *arguments)`."""
    original = getattr(owner, name)
    due = OneIn(one_in)

    def method(self: Any, *arguments: Any) -> Any:
        if due():
            return instead(original, self, *arguments)
        return original(self, *arguments)

    patch.setattr(owner, name, method)


def skip(*_: Any) -> None:
    """Do nothing in the method's place."""


@canary
def confirm_lost(patch: pytest.MonkeyPatch) -> None:
    rarely(patch, Unconfirmed, "confirm", 40, skip)


@canary
def confirm_told_twice(patch: pytest.MonkeyPatch) -> None:
    def twice(original: Any, self: Unconfirmed) -> list[confirms.Frame]:
        frames: list[confirms.Frame] = original(self)
        return frames + frames[:1]

    rarely(patch, Unconfirmed, "drain", 20, twice)
    patch.setattr(Unconfirmed, "take_lone", lambda _: 0)


@canary
def confirm_covers_too_much(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(confirms, "_cutoff", lambda *_: None)


@canary
def confirm_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def receive(original: Any, self: MessageStore, message: object) -> None:
        original(self, message)
        under_way = [each for each in self.commits.committing if isinstance(each, StoreGroup)]
        if isinstance(message, StoreWrite) and under_way and self.group.writes:
            under_way[0].writes.append(self.group.writes.pop())

    rarely(patch, MessageStore, "receive", 1, receive)


@canary
def delivered_twice(patch: pytest.MonkeyPatch) -> None:
    def too_few(original: Any, self: PlainBacking, chunk: Any, count: int) -> None:
        original(self, chunk, max(1, count - 1))

    rarely(patch, PlainBacking, "took", 30, too_few)


@canary
def dealt_in_disorder(patch: pytest.MonkeyPatch) -> None:
    def backwards(original: Any, self: ClassicQueue, *arguments: Any) -> None:
        original(self, *arguments)
        for effect in arguments[-1]:
            if isinstance(effect, Deliver):
                effect.contents.reverse()

    rarely(patch, ClassicQueue, "deal", 5, backwards)


@canary
def requeued_at_the_tail(patch: pytest.MonkeyPatch) -> None:
    def at_the_tail(original: Any, self: PlainBacking, chunks: list[Any]) -> None:
        if self.q1.count:
            original(self, chunks)
            return
        for chunk in chunks:
            if chunk.bodies:
                self.depth.ram_messages += chunk.left()
            self.q4.add(chunk)

    rarely(patch, PlainBacking, "give_back", 1, at_the_tail)


@canary
def redelivered_without_its_flag(patch: pytest.MonkeyPatch) -> None:
    def fresh(original: Any, self: UnackedRun, *arguments: Any) -> Any:
        chunk = original(self, *arguments)
        chunk.redelivered = False
        return chunk

    rarely(patch, UnackedRun, "returned", 1, fresh)


@canary
def kept_from_a_channel_that_is_gone(patch: pytest.MonkeyPatch) -> None:
    rarely(patch, UnackedRun, "open_parts", 3, lambda original, self: original(self)[1:])


@canary
def ack_range_off_by_one(patch: pytest.MonkeyPatch) -> None:
    def one_more(original: Any, self: Span, end: int) -> Any:
        return original(self, min(self.count, end + 1))

    rarely(patch, Span, "parts", 1, one_more)


@canary
def grant_not_deferred(patch: pytest.MonkeyPatch) -> None:
    def at_once(self: Inflow, amount: int) -> None:
        if self.attached:
            self.sender.post(Grant(self.outflow, amount))

    patch.setattr(Inflow, "grant", at_once)


@canary
def grant_lost(patch: pytest.MonkeyPatch) -> None:
    rarely(patch, Inflow, "release_deferred", 3, skip)


@canary
def credit_never_settled(patch: pytest.MonkeyPatch) -> None:
    rarely(patch, Channel, "settle", 30, skip)


@canary
def resumed_without_a_word(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reader, "flow_resumed", skip)


@canary
def alarm_never_cleared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AlarmBoard, "clear_alarm", skip)


@canary
def alarm_blocks_who_only_consumes(patch: pytest.MonkeyPatch) -> None:
    def publishing(original: Any, self: Reader, message: object) -> None:
        original(self, message)
        if self.throttle.state == BLOCKING:
            self.tell_client(self.throttle.publish_seen())

    rarely(patch, Reader, "receive", 1, publishing)


@canary
def prefetch_overlooked(patch: pytest.MonkeyPatch) -> None:
    rarely(patch, Consumer, "room", 1, lambda _, self, cost, __: max(0, self.window.credit // cost))


@canary
def memory_not_released(patch: pytest.MonkeyPatch) -> None:
    def leak(original: Any, self: ClassicQueue, *arguments: Any) -> None:
        original(self, *arguments)
        self.depth.footprint += 100

    rarely(patch, ClassicQueue, "acknowledge", 50, leak)


@canary
def unfinished_body_counted_for_ever(patch: pytest.MonkeyPatch) -> None:
    def leak(original: Any, self: AmqpConnection, channel: int) -> None:
        held_bytes = self.held_bytes
        original(self, channel)
        if self.held_bytes < held_bytes:
            self._content_bytes += 1

    rarely(patch, AmqpConnection, "_forget_content", 20, leak)


@canary
def written_to_a_full_socket(patch: pytest.MonkeyPatch) -> None:
    def unchoked(original: Any, self: Writer) -> None:
        self.choked = False
        original(self)

    rarely(patch, Writer, "turn_ended", 1, unchoked)


@canary
def publish_lost_on_its_way(patch: pytest.MonkeyPatch) -> None:
    def without_the_last(
        original: Any, self: Publishing, route: Any, contents: Any, *rest: Any
    ) -> None:
        if len(contents) > 1:
            contents = contents[:-1]
        original(self, route, contents, *rest)

    rarely(patch, Publishing, "send", 20, without_the_last)


@canary
def message_dropped_from_an_inbox(patch: pytest.MonkeyPatch) -> None:
    rarely(patch, Actor, "post", 3000, skip)


@canary
def windows_beyond_the_budget(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Budget, "_share", lambda self, *_: self.ceiling)


@canary
def paged_out_and_forgotten(patch: pytest.MonkeyPatch) -> None:
    def without_the_last(original: Any, self: PlainBacking, job: Any, out: Any) -> Any:
        job.runs = job.runs[:-1]
        return original(self, job, out)

    rarely(patch, PlainBacking, "loaded", 5, without_the_last)


@canary
def loaded_only_once_in_a_while(patch: pytest.MonkeyPatch) -> None:
    def further(original: Any, self: PlainBacking, job: Any, out: Any) -> Any:
        lost = original(self, job, out)
        self.delta.start += self.delta.count > 1
        return lost

    rarely(patch, PlainBacking, "loaded", 5, further)


@canary
def bodies_mixed_up(patch: pytest.MonkeyPatch) -> None:
    def mixed(original: Any, self: PlainBacking, chunk: Any, contents: dict[int, bytes]) -> Any:
        shifted = dict(zip(contents, [*list(contents.values())[1:], b""], strict=True))
        return original(self, chunk, shifted if len(shifted) > 1 else contents)

    rarely(patch, PlainBacking, "got_bodies", 3, mixed)


@canary
def removal_not_told(patch: pytest.MonkeyPatch) -> None:
    rarely(patch, ClassicQueue, "remove", 50, skip)


@canary
def an_urgent_message_waits(patch: pytest.MonkeyPatch) -> None:
    def lowest(_: Any, self: PriorityBacking) -> PlainBacking | None:
        return next((level for level in self.levels.values() if level.length()), None)

    rarely(patch, PriorityBacking, "top", 50, lowest)


@canary
def priorities_begin_anew_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    marks = PriorityBacking.marks
    patch.setattr(PriorityBacking, "marks", lambda *arguments: marks(*arguments)[:1])


@canary
def two_are_active(patch: pytest.MonkeyPatch) -> None:
    def add(original: Any, self: ConsumerGroups, consumer: Consumer) -> None:
        original(self, consumer)
        if self.single_active and not consumer.active:
            self._activate(consumer)

    rarely(patch, ConsumerGroups, "add", 1, add)


@canary
def a_message_comes_back_once_too_often(patch: pytest.MonkeyPatch) -> None:
    def spare(original: Any, *arguments: Any) -> list[Stretch]:
        return [(start, end, False) for start, end, _ in original(*arguments)]

    rarely(patch, DeliveryCounts, "come_back", 1, spare)


@canary
def a_return_is_remembered_for_ever(patch: pytest.MonkeyPatch) -> None:
    rarely(patch, DeliveryCounts, "forget", 3, skip)


@canary
def a_dead_letter_is_settled_twice(patch: pytest.MonkeyPatch) -> None:
    def republished(_: Any, self: Limits, *__: object) -> None:
        self.queue.depth.unacked -= 1

    rarely(patch, Limits, "republished", 3, republished)


@canary
def the_last_one_is_too_much(patch: pytest.MonkeyPatch) -> None:
    surplus = Limits.surplus

    def one_more(self: Limits) -> int:
        return surplus(self) or int(self.has_limit and self.queue.depth.ready > 0)

    patch.setattr(Limits, "surplus", one_more)


@canary
def what_has_expired_is_delivered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Limits, "is_overdue", lambda *_: False)
    patch.setattr(Limits, "is_old", lambda *_: False)


@canary
def a_fault_confirms_what_it_loses(patch: pytest.MonkeyPatch) -> None:
    def lose(self: Unconfirmed, link: Link) -> None:
        for first_seq, expected in [*self._expected.items()]:
            if link in expected.links:
                self.confirm(link, first_seq, expected.count)

    patch.setattr(Unconfirmed, "lose", lose)


@canary
def a_queue_is_read_back_without_its_messages(patch: pytest.MonkeyPatch) -> None:
    run_one = OneQueue.run_one

    def emptied(self: OneQueue, state: QueueState | None, first: int) -> QueueReplica:
        found = run_one(self, state, first)
        found.index.acknowledge(range(found.next_position))
        return found

    patch.setattr(OneQueue, "run_one", emptied)


@canary
def a_dead_letter_leaves_before_it_is_safe(patch: pytest.MonkeyPatch) -> None:
    def settled(_: Any, self: Republisher, republish: Any) -> None:
        republish.open -= 1
        done, republish.done = republish.done, None
        if done is not None:
            self.source.post(done)

    rarely(patch, Republisher, "settled", 1, settled)


@canary
def a_dead_letter_goes_to_one_grave_only(patch: pytest.MonkeyPatch) -> None:
    def way_by(original: Any, self: Republisher, names: tuple[str, ...], letter: Any) -> Any:
        return original(self, names[:1], letter)

    rarely(patch, Republisher, "way_by", 1, way_by)


@canary
def the_last_dead_letter_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def letters(original: Any, self: DeadLettering, effect: Any, settings: Any) -> Any:
        found = original(self, effect, settings)
        return found[:-1] if len(found) > 1 else found

    rarely(patch, DeadLettering, "letters", 1, letters)


@canary
def a_dead_letter_comes_twice(patch: pytest.MonkeyPatch) -> None:
    def offer(original: Any, self: Republisher, *arguments: Any) -> None:
        original(self, *arguments)
        original(self, *arguments)

    rarely(patch, Republisher, "offer", 5, offer)


@canary
def a_policy_is_not_heard_of_by_all(patch: pytest.MonkeyPatch) -> None:
    tell = policy_rounds.tell
    due = OneIn(7)
    patch.setattr(policy_rounds, "tell", lambda queue: None if due() else tell(queue))


@canary
def a_queue_hears_of_a_policy_and_does_nothing(patch: pytest.MonkeyPatch) -> None:
    def receive_rare(original: Any, self: ClassicShell, message: object) -> None:
        if not isinstance(message, PolicyChanged):
            original(self, message)

    rarely(patch, ClassicShell, "receive_rare", 1, receive_rare)


@canary
def a_command_is_never_answered(patch: pytest.MonkeyPatch) -> None:
    rarely(patch, Task, "answer", 20, skip)


@canary
def a_command_is_answered_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    def propose(original: Any, self: LocalAgreement, change: Any, proposer: Any = None) -> bool:
        return bool(original(self, change, None if isinstance(proposer, Task) else proposer))

    rarely(patch, LocalAgreement, "propose", 1, propose)


@canary
def a_change_is_never_written(patch: pytest.MonkeyPatch) -> None:
    encoded = local_agreement.encoded
    due = OneIn(2)
    patch.setattr(local_agreement, "encoded", lambda durable: b"" if due() else encoded(durable))


@canary
def a_delayed_message_comes_too_early(patch: pytest.MonkeyPatch) -> None:
    dated = delayer.dated
    patch.setattr(delayer, "dated", lambda batch, now_ms: dated(batch, now_ms - 20))


@canary
def a_delayed_message_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def take(original: Any, self: Delayer, deliver: Any) -> None:
        original(self, deliver)
        if len(self.waiting) > 1:
            self.waiting.pop()

    rarely(patch, Delayer, "take", 5, take)


@canary
def nobody_looks_at_delayed_messages(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delayer, "wake_at", skip)


@canary
def a_delayed_message_leaves_before_it_is_safe(patch: pytest.MonkeyPatch) -> None:
    def republish(original: Any, self: Delayer) -> None:
        post = self.republisher.post

        def early(message: Any) -> None:
            if isinstance(message, Republish):
                self.post(message.done)
                message.done = None
            post(message)

        patch.setattr(self.republisher, "post", early)
        original(self)
        patch.setattr(self.republisher, "post", post)

    rarely(patch, Delayer, "republish", 1, republish)


@canary
def a_stream_confirms_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def publish(original: Any, self: Stream, command: Any, effects: list[Any]) -> None:
        original(self, command, effects)
        if command.confirm and self.receipts:
            receipt = self.receipts.pop()[1]
            effects.append(Confirm(receipt.link, receipt.first_seq, receipt.count))

    rarely(patch, Stream, "publish", 1, publish)


@canary
def a_stream_skips_a_message(patch: pytest.MonkeyPatch) -> None:
    def take(original: Any, self: StreamReader, count: int, cost_each: int) -> int:
        cost: int = original(self, count, cost_each)
        self.offset += 1
        return cost

    rarely(patch, StreamReader, "take", 10, take)


@canary
def a_stream_has_lost_an_entry(patch: pytest.MonkeyPatch) -> None:
    def append(original: Any, self: StreamLog, *arguments: Any) -> int:
        traits, contents, size = arguments
        return cast("int", original(self, traits, [contents[0], *contents[:-1]], size))

    rarely(patch, StreamLog, "append", 3, append)


@canary
def a_reader_of_a_stream_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def committed(original: Any, self: Stream, *arguments: Any) -> None:
        self.at_end.clear()
        original(self, *arguments)

    rarely(patch, Stream, "committed", 1, committed)


@canary
def what_a_gone_channel_published_is_under_way_for_ever(patch: pytest.MonkeyPatch) -> None:
    def return_all(original: Any, self: AskedQueue, end: ChannelEnd) -> None:
        self.under_way += end.under_way
        original(self, end)

    rarely(patch, AskedQueue, "return_all", 1, return_all)
