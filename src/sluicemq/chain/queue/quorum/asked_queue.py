"""Requests of channels to a quorum queue: they become commands for the log, which answers later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from sluicemq.amqp.types import encode_table
from sluicemq.chain.queue.queue import LinkEnded
from sluicemq.chain.queue.quorum.channel_ends import ChannelEnd, PendingBatch, joined_ids
from sluicemq.chain.queue.quorum.local_state import LocalState
from sluicemq.chain.queue.quorum.quorum_port import QuorumPort
from sluicemq.kernel.address import NOBODY, ActorAddress
from sluicemq.queues import commands as c
from sluicemq.queues import effects as e
from sluicemq.queues.quorum import commands as q
from sluicemq.queues.quorum.command_codec import enqueue_of, joined

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluicemq.amqp.types import FieldValue
    from sluicemq.chain.queue.quorum.deliveries import QuorumDeliveries
    from sluicemq.chain.queue.vhost_port import VhostPort
    from sluicemq.kernel.actor import Actor
    from sluicemq.model.definitions import QueueDefinition
    from sluicemq.queues.consumers import Consumer
    from sluicemq.queues.quorum.commands import FifoCommand

JOINED_BYTES_MAX: Final = 64 << 10
"""Larger batches are not joined to others, because there is little to gain."""
ENQUEUE_WORK: Final = 20
"""The units of work to put a batch in an entry, and to apply it."""


class CountReady(c.Inspect):
    """Asks what Inspect asks, on behalf of the broker: it does not count as use of the queue."""

    __slots__ = ()


class AskedQueue(QuorumPort):
    """A quorum queue as channels see it: their requests, and its record of each channel."""

    deliveries_due: QuorumDeliveries

    def __init__(
        self, vhost: VhostPort, definition: QueueDefinition, queue_id: int, term: int
    ) -> None:
        super().__init__(vhost, definition, queue_id)
        self.machine = LocalState(term)
        self.ends: dict[Actor, ChannelEnd] = {}
        self.ends_at: dict[ActorAddress, ChannelEnd] = {}
        self.ends_of: dict[c.LinkId, ChannelEnd] = {}
        own_link = self.machine.own_link
        self.dead_letter_worker = self.ends_of[own_link] = ChannelEnd(self, NOBODY, own_link)
        self.pending_max = self.services.raft_profile.quorum_commands_soft_limit
        """A channel with so many unanswered batches gets no further credit."""
        self.under_way = 0
        """The messages of all channels that are published and not agreed on."""
        self.submitted = 0
        """The number of commands in this life."""
        self.is_urgent = False
        """A channel waits for the gathered commands."""
        self.inspections: deque[tuple[int, Actor]] = deque()
        """The channels that ask for the depth, each with the number of commands to be done
        before."""

    def submit(self, command: FifoCommand) -> None:
        """Propose a command at the end of the turn. A deleted queue whose bindings have still to go
        proposes nothing."""
        if not self.machine.deleted:
            self.submitted += 1
            self.is_urgent = True
            self.replicator.submit(command)

    def submit_settle(self, command: q.SettleDelivered) -> None:
        if not self.machine.deleted:
            self.submitted += 1
            self.replicator.submit(command)

    def end_of(self, actor: Actor) -> ChannelEnd:
        """Return what the queue keeps for a channel or republisher, made at its first request."""
        end = self.ends.get(actor)
        if end is None:
            address = self.services.new_address()
            end = ChannelEnd(actor, address, self.machine.link_to(actor))
            self.ends[actor] = self.ends_at[address] = self.ends_of[end.link] = end
        return end

    def publish(self, publish: c.Publish) -> None:
        """Propose a batch. A sender with too many unanswered batches gets credit for more only when
        these are answered."""
        batch, link = publish.batch, publish.link
        count = len(batch.contents)
        self.published += count
        if self.machine.deleted:
            link.taken(count, batch.size)
            link.sender.post(LinkEnded(self, link, False))
            if publish.confirm:
                link.sender.post(e.Confirm(link, publish.first_seq, count))
            return
        self.upstream[link.sender] = link
        end = self.end_of(link.sender)
        if not end.next_seq:
            end.next_seq = 1
            self.submit(q.RegisterEnqueuer(end.address))
        seq, heard_seq = end.next_seq, end.heard_seq
        end.next_seq = seq + count
        self.enqueue(enqueue_of(batch, end.address, seq, heard_seq), batch.size)
        if len(end.pending) >= self.pending_max:
            end.withheld.append((link, count, batch.size))
        else:
            link.taken(count, batch.size)
        pending = PendingBatch(seq, count, link, publish.first_seq, publish.confirm)
        end.pending.append(pending)
        self.under_way += count
        self.spend(ENQUEUE_WORK)

    def enqueue(self, enqueue: q.Enqueue, size_bytes: int) -> None:
        """Propose a batch, merged with the command submitted last if that is a similar batch of the
        same sender: both would be in one entry anyway."""
        last = self.replicator.last_gathered()
        if isinstance(last, q.Enqueue) and size_bytes < JOINED_BYTES_MAX and joined(last, enqueue):
            self.replicator.grew(size_bytes)
        else:
            self.submit(enqueue)

    def settle(self, settle: c.Settle) -> None:
        """Propose the settlements of a channel. Deliveries over another link are ignored."""
        end = self.ends_of.get(settle.link)
        if end is None:
            return
        ids: dict[q.ConsumerKey, list[tuple[int, int]]] = {}
        for run, start, stop in settle.parts:
            found = end.settled(run, start, stop)
            if found is not None:
                key, first, last = found
                ids.setdefault(key, []).append((first, last))
                consumer = end.consumers.get(key.tag)
                if consumer is not None:
                    consumer.prefetch.unacked -= last - first
        for key, ranges in ids.items():
            self.submit_settle(q.SettleDelivered(key, joined_ids(ranges), settle.outcome))
        self.spend(len(settle.parts))

    @property
    def next_row(self) -> int:
        """Return the number of the row for the next command; 0: there are no rows."""
        return 0

    def has_asked(self, channel: Actor, command: c.Command) -> ChannelEnd:
        """Note that a channel waits for the answer to a command, which is proposed next. Returns
        its end."""
        end = self.end_of(channel)
        end.question, end.question_row = command, self.next_row
        return end

    def consume(self, command: c.Consume) -> None:
        consumer = command.consumer
        if self.refuses(consumer.channel):
            return
        end = self.has_asked(consumer.channel, command)
        end.consumers[consumer.tag] = consumer
        self.submit(
            q.AddConsumer(
                end.key(consumer.tag),
                0 if consumer.no_ack else consumer.prefetch.limit,
                consumer.priority,
                consumer.exclusive,
                consumer.no_ack,
                encode_table(cast("Mapping[str, FieldValue]", consumer.arguments)),
            )
        )

    def cancel(self, command: c.Cancel) -> None:
        consumer = command.consumer
        end = self.ends.get(consumer.channel)
        is_over = self.machine.deleted or bool(self.store.storage_failed)
        if is_over or end is None or consumer.tag not in end.consumers:
            consumer.channel.post(e.Cancelled(consumer, False))
            return
        self.has_asked(consumer.channel, command)
        self.submit(q.CancelConsumer(end.key(consumer.tag)))

    def get(self, command: c.Get) -> None:
        if self.refuses(command.channel):
            return
        end = self.has_asked(command.channel, command)
        self.submit(q.GetMessage(end.address, command.no_ack))

    def purge(self, command: c.Purge) -> None:
        if self.refuses(command.channel):
            return
        end = self.has_asked(command.channel, command)
        self.submit(q.PurgeQueue(end.address))

    def inspect(self, command: c.Inspect) -> None:
        """Answer when all earlier requests are done, so that a channel sees what it has
        published.
        """
        if self.refuses(command.channel):
            return
        if self.settings.expires_ms is not None and not isinstance(command, CountReady):
            self.submit(q.UseQueue())
        self.is_urgent = True
        self.inspections.append((self.submitted, command.channel))

    def delete(self, command: c.Delete) -> None:
        channel = command.channel
        if self.machine.deleted:
            if channel is not None:
                self.leave(e.Deleted(channel, 0))
            return
        if channel is not None and self.refuses(channel):
            return
        address = None
        if channel is not None:
            address = self.has_asked(channel, command).address
        self.submit(q.DeleteFifo(address, command.if_unused, command.if_empty))

    def down(self, command: c.Down) -> None:
        """Forget a channel that is gone. Messages assigned to it and not sent return undelivered,
        behind those that it was sent, and it is assigned no more."""
        self.upstream.pop(command.channel, None)
        end = self.ends.pop(command.channel, None)
        if end is None:
            return
        del self.ends_at[end.address], self.ends_of[end.link]
        self.under_way -= end.under_way
        self.machine.links.pop(command.channel, None)
        for consumer in end.consumers.values():
            self.machine.consumers.members.pop(consumer, None)
        self.inspections = deque(each for each in self.inspections if each[1] is not end.actor)
        self.return_all(end)
        self.deliveries_due.forget(end)
        self.submit(q.AddressDown(end.address, is_lost=command.is_lost))

    def return_all(self, end: ChannelEnd) -> None:
        """Return the messages of a gone channel's consumers if some of them were not sent. The
        consumers are cancelled first, or one would get what another returns. The single active
        consumer is the last, so that no other takes over."""
        unsent = end.unsent(None)
        if not unsent:
            return
        for consumer in sorted(end.consumers.values(), key=lambda each: each.active):
            self.submit(q.CancelConsumer(end.key(consumer.tag)))
        for key, ids in unsent.items():
            first, _ = min(ids)
            if first:
                self.submit(q.SettleDelivered(key, ((0, first),), c.REQUEUE))
            self.submit(q.SettleDelivered(key, joined_ids(ids), q.UNSENT))

    def return_unsent(self, end: ChannelEnd, consumer: Consumer) -> None:
        """Return the messages that were assigned to a consumer and not sent."""
        for key, ids in end.unsent(consumer).items():
            self.submit(q.SettleDelivered(key, joined_ids(ids), q.UNSENT))

    def refuses(self, channel: Actor) -> bool:
        """Refuse a channel's request if the queue is deleted, or if the storage has failed and
        nothing can be committed. Returns whether it was refused."""
        if self.machine.deleted:
            self.refuse_deleted(channel)
        elif self.store.storage_failed:
            channel.post(e.Refuse(channel, 406, self.store.storage_failed))
        return self.machine.deleted or bool(self.store.storage_failed)

    def refuse_deleted(self, channel: Actor) -> None:
        channel.post(e.Refuse(channel, 404, f"no {self.title}"))

    def refuse_all(self) -> None:
        """Refuse all requests that cannot be committed because the storage has failed."""
        for end in self.ends.values():
            question, end.question = end.question, None
            if question is not None:
                self.refuses(end.actor)
        for _, channel in self.inspections:
            self.refuses(channel)
        self.inspections.clear()


ASKED: Final[dict[type, Callable[[AskedQueue, Any], None]]] = {
    c.Consume: AskedQueue.consume,
    c.Cancel: AskedQueue.cancel,
    c.Get: AskedQueue.get,
    c.Purge: AskedQueue.purge,
    c.Inspect: AskedQueue.inspect,
    CountReady: AskedQueue.inspect,
    c.Delete: AskedQueue.delete,
    c.Down: AskedQueue.down,
}
