"""plain queue ---deliveries---> MOVE ---entries---> the log of the mirrored queue that replaces it.

When a policy makes an existing queue mirrored, its messages are written to the log of a new group,
whose only member is here, in order and at their positions. Nothing else consumes from the queue
meanwhile; new publishes to it go the same way. When nothing is left, and that is durable, the move
ends and the member serves. After a restart the move goes on: it only acknowledges what was written
before.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from sluicemq.chain.flow_actor import FlowActor
from sluicemq.chain.store.messages import WhenSafe
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.prefetch import Limiter, Prefetch
from sluicemq.metadata.agreement import Agreed
from sluicemq.queues import commands as c
from sluicemq.queues import effects as e
from sluicemq.queues.consumers import Consumer
from sluicemq.queues.mirrored.commands import MarkDelivered, MirrorCommand, WriteMessages
from sluicemq.storage.entries import Run
from sluicemq.storage.positions import priority_at

if TYPE_CHECKING:
    from sluicemq.chain.queue.classic import ClassicShell
    from sluicemq.chain.queue.mirrored.member_port import MemberPort
    from sluicemq.queues.commands import LinkId


class MovedRun(NamedTuple):
    """A delivered run, which is in the entry `entry`; 0: in none yet."""

    run: int
    messages: int
    cost: int
    entry: int


class MirrorMove(FlowActor):
    """Moves what is in `source` into the log of `member`."""

    kind = "channel"
    is_vital = False

    def __init__(self, source: ClassicShell, member: MemberPort) -> None:
        services = source.services
        super().__init__(services.scheduler, services.world.clock)
        self.source = source
        self.member = member
        self.name = f"mirrors of {source.name}"
        self.deliveries = GateKeeper(services.world.clock)
        keepers = source.deliveries, self.deliveries
        self.window = services.delivery_link(source, keepers, self.name)
        self.consumer = Consumer(
            self, "", False, False, 0, Prefetch(0), Limiter(), self.window[0], {}
        )
        self.link: LinkId | None = None
        self.due: deque[e.Deliver] = deque()
        """Deliveries that are in no entry yet."""
        self.moved: deque[MovedRun] = deque()
        """Deliveries that are in an entry and not acknowledged."""
        self.asks = False
        """It has asked whether all that the source has written is durable; it asks no more when it
        never will be, or when the move is over."""
        source.begin_move(self)
        source.post(c.Consume(self.consumer))

    def receive(self, message: object) -> None:
        if isinstance(message, e.Deliver):
            self.due.append(message)
        elif isinstance(message, e.Consumed):
            self.link = message.link
        elif isinstance(message, Agreed):
            is_over = message.refusal is None and self.is_empty
            self.asks = is_over or message.refusal is not None
            if is_over:
                self.member.moved()
        elif not isinstance(message, e.Cancelled):
            super().receive(message)

    @property
    def is_empty(self) -> bool:
        """Tell whether the source has no message left."""
        source = self.source
        depth = source.machine.depth
        left = depth.ready or depth.unacked or source.inbox or source.underway is not None
        return not (left or self.due or self.moved)

    def turn_ended(self) -> None:
        """Write deliveries, acknowledge those that all present members have, and check whether that
        is all."""
        member = self.member
        while self.due and member.can_move:
            self.write(self.due.popleft())
        done: list[tuple[int, int, int]] = []
        cost = 0
        while self.moved and self.moved[0].entry <= member.mirror.index:
            moved = self.moved.popleft()
            done.append((moved.run, 0, moved.messages))
            cost += moved.cost
        if done:
            assert self.link is not None, "deliveries without a link"
            self.source.post(c.Settle(self.link, done, c.ACK))
            self.window[1].settle(cost)
        if self.is_empty and member.can_move and not self.asks:
            self.asks = True
            self.source.store.post(WhenSafe(self))

    def write(self, deliver: e.Deliver) -> None:
        """Write delivered messages to the log, unless that was done before a restart."""
        run = self.source.machine.unacked_runs[deliver.run]
        positions, chunk = run.positions, run.chunk
        assert positions.step == 1, "a delivery to one of several consumers"
        row = self.member.mirror.rows.get(priority_at(positions.start))
        index = 0
        if row is None or positions.start >= row.next:
            contents = deliver.contents
            sizes = [*map(len, contents)]
            same = len({*sizes}) == 1
            count, start = len(contents), positions.start
            written = Run(
                0, start, 1, count, chunk.traits, same, contents, sizes, expiry=chunk.expiry
            )
            commands: list[MirrorCommand] = [WriteMessages(written)]
            if deliver.redelivered:
                commands.append(MarkDelivered(positions.stop))
            index, _ = self.member.propose(commands)
        self.moved.append(MovedRun(deliver.run, len(deliver.contents), deliver.cost, index))

    def faulted(self, error: Exception) -> None:
        """Stop the move until a restart, which loses nothing."""
        self.go_deaf()
        log = self.source.services.world.log
        log.write("error", f"{self.source.title} cannot be moved to its mirrors: {error}")
