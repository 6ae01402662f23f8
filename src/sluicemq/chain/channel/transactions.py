"""What a channel in transactional mode keeps until tx.commit or tx.rollback.

A publish is checked and routed when it arrives, and an acknowledgement removes its tags from the
unacknowledged ones; then both wait here. A commit sends the publishes, in order, then the
acknowledgements, none of which may be on disk before the messages are. It is answered when each
queue has confirmed its messages; the client sees only the answer. Until then the client must not
send anything else on the channel. A channel that has never selected this mode has no such object.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from sluicemq.amqp.events import Acks, MethodFrame
from sluicemq.amqp.methods import BasicAck, BasicPublish, TxCommit, TxCommitOk
from sluicemq.chain.channel.transaction_port import PendingPublishes, TransactionPort
from sluicemq.chain.channel.unacked import Undoable
from sluicemq.errors import ChannelViolation, ConnectionViolation
from sluicemq.limits import TRANSACTION_BYTES_MAX
from sluicemq.model.batch import OVERHEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.amqp.method import Method
    from sluicemq.chain.channel.channel_port import ChannelPort
    from sluicemq.chain.channel.consuming import Consuming
    from sluicemq.chain.channel.publishing import Publishing
    from sluicemq.chain.channel.routes import Targets

BASIC_PUBLISH: Final = (BasicPublish.class_id, BasicPublish.method_id)
TX_COMMIT: Final = (TxCommit.class_id, TxCommit.method_id)

PENDING_WORK: Final = 5
TARGET_WORK: Final = 3
"""Units of work that it costs to commit a batch, for the batch and for each queue that it goes
to."""


class Transaction(TransactionPort):
    """The transactional mode of one channel. There is always a transaction: the next begins where
    one ends."""

    def __init__(self, channel: ChannelPort, publishing: Publishing, consuming: Consuming) -> None:
        self.channel = channel
        self.publishing = publishing
        self.consuming = consuming
        self.pending_publishes: list[PendingPublishes] = []
        self.settlements: list[tuple[Undoable, int]] = []
        """The acknowledgements that wait for the commit, each with its outcome, as Settle has
        it."""
        self.settling: list[tuple[Undoable, int]] = []
        """The acknowledgements that are being committed, while they have to wait for its publishes
        to be safe."""
        self.pending_bytes = 0
        self.messages = 0
        self.passing = False
        """True while the commit publishes: what is published now goes on at once."""
        self.committing = False
        """True while not all of what is being committed is on its way."""
        self.failed = False
        """True when a queue has rejected something of what is being committed."""

    def keep(self, pending: PendingPublishes) -> None:
        count = len(pending.contents)
        size = pending.size + OVERHEAD_BYTES * count
        if self.pending_publishes and self.pending_bytes + size > TRANSACTION_BYTES_MAX:
            text = f"a transaction may hold {TRANSACTION_BYTES_MAX} bytes of messages"
            raise ChannelViolation(406, text, *BASIC_PUBLISH)
        if not (self.pending_publishes and self.pending_publishes[-1].absorb(pending)):
            self.pending_publishes.append(pending)
        self.messages += count
        self.pending_bytes += size
        self.channel.services.memory_used(size)

    def keep_settlement(self, settlement: Undoable, outcome: int) -> None:
        if settlement.count:
            self.settlements.append((settlement, outcome))

    @property
    def acks(self) -> int:
        return sum(settlement.count for settlement, _ in self.settlements)

    def commit(self) -> None:
        pending = self.pending_publishes
        settlements = self.settlements
        self.clear()
        self.channel.question = self
        self.committing = True
        self.channel.begin(self.commit_in_pieces(pending, settlements))

    def commit_in_pieces(
        self, pending: list[PendingPublishes], settlements: list[tuple[Undoable, int]]
    ) -> Iterator[int]:
        """Send everything kept and yield the work of each piece. It is all one job of the channel,
        so its queues' answers wait until its end.

        Acknowledgements wait until the messages are safe. Otherwise a queue might drop an
        acknowledged message before the message that replaces it is written, and come back from a
        crash with neither.
        """
        channel = self.channel
        publishing = self.publishing
        is_received = False
        for each in pending:
            targets = self.targets(each)
            is_received |= bool(targets)
            self.passing = True
            publishing.send(
                each.route,
                each.contents,
                targets,
                each.same_size,
                each.properties,
                each.large,
            )
            self.passing = False
            yield PENDING_WORK + TARGET_WORK * len(targets)
            yield from publishing.spread()
        self.settling = settlements
        if not is_received:
            yield from self.settle_in_pieces()
        self.committing = False
        if not publishing.unconfirmed.count:
            channel.out.extend(self.answers())

    def settle(self) -> None:
        """Send all acknowledgements of the commit under way now."""
        deque(self.settle_in_pieces(), 0)

    def settle_in_pieces(self) -> Iterator[int]:
        """Send the acknowledgements of the commit under way, one settlement in each piece, and
        yield its work."""
        settling = self.settling
        self.settling = []
        for settlement, outcome in settling:
            self.consuming.post(settlement, outcome)
            yield PENDING_WORK

    def targets(self, pending: PendingPublishes) -> Targets:
        """Return links to the queues that kept messages go to. Only names were kept: deleted queues
        are left out, and a name may have been given to a new queue since."""
        look_ups = self.publishing.look_ups
        queues = self.channel.vhost.queues
        names = dict.fromkeys(pending.names)
        method = pending.route.method
        if not method.exchange:
            names[method.routing_key] = None
        there = [queues[name] for name in names if name in queues]
        there += [queues[name] for name in pending.names if name in queues.holding]
        return [look_ups.link(queue) for queue in there]

    def answers(self) -> list[bytes]:
        channel = self.channel
        unconfirmed = self.publishing.unconfirmed
        self.failed |= any(nack for _, _, nack in unconfirmed.drain())
        if unconfirmed.count or self.committing or channel.question is not self:
            return []
        channel.question = None
        if self.failed:
            self.failed = False
            channel.fail(ChannelViolation(406, "partial tx completion", *TX_COMMIT))
            return []
        self.settle()
        return [TxCommitOk().frame(channel.number)]

    def rollback(self) -> None:
        settlements = [settlement for settlement, _ in self.settlements]
        self.clear()
        self.consuming.unacked.take_back(settlements)

    def clear(self) -> None:
        self.channel.services.memory_used(-self.pending_bytes)
        self.pending_publishes = []
        self.settlements = []
        self.settling = []
        self.messages = 0
        self.pending_bytes = 0


def too_early(event: object) -> ConnectionViolation:
    """Return the error 504 for a client that sends this event while it should wait for the answer
    to its commit."""
    method: Method | type[Method] = BasicAck if isinstance(event, Acks) else BasicPublish
    if isinstance(event, MethodFrame):
        method = event.method
    text = "unexpected command while processing 'tx.commit'"
    return ConnectionViolation(504, text, method.class_id, method.method_id)
