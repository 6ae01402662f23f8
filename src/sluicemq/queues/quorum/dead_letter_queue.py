"""The dead letters of a quorum queue, and their departure (RabbitMQ's two dead-letter strategies).

At most once: a dead letter leaves the queue when it is handed over. At least once: it stays until
the leader's publisher reports that all target queues have it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from sluicemq.limits import QUORUM_DEAD_LETTERS_MAX
from sluicemq.queues.quorum.checked_out import CheckedOut
from sluicemq.queues.quorum.effects import DeadLettered, DeadPart, FifoEffect
from sluicemq.queues.quorum.message_runs import MessageRun
from sluicemq.queues.quorum.ready_messages import ReadyMessages
from sluicemq.queues.settings import AT_LEAST_ONCE, REJECT_PUBLISH, QueueSettings

EXPIRED: Final = "expired"
MAX_LENGTH: Final = "maxlen"
REJECTED: Final = "rejected"
DELIVERY_LIMIT: Final = "delivery_limit"

NO_ID: Final = -1
"""The id of messages that need no settlement."""


class DeadLetterQueue:
    """The dead letters of a queue: `pending` ones that must arrive and were not handed over, and
    those that were and are unsettled. Their messages are out of `messages`."""

    __slots__ = (
        "bytes",
        "checked_out",
        "count",
        "has_exchange",
        "must_arrive",
        "next_id",
        "parts",
        "pending",
    )

    def __init__(self) -> None:
        self.has_exchange = False
        self.must_arrive = False
        self.pending: deque[MessageRun] = deque()
        self.checked_out = CheckedOut()
        self.next_id = 0
        self.count = 0
        """The number of dead letters in the queue; `bytes` is the size of their bodies."""
        self.bytes = 0
        self.parts: list[DeadPart] = []
        """Dead letters that the present command has handed over at most once."""

    def configure(self, settings: QueueSettings, messages: ReadyMessages) -> None:
        """Replace the settings. As in RabbitMQ dead letters must arrive only if the queue rejects
        publishes beyond its limits. Pending ones go by the new settings."""
        self.has_exchange = settings.dead_letter_exchange is not None
        self.must_arrive = (
            self.has_exchange
            and settings.dead_letter_strategy == AT_LEAST_ONCE
            and settings.overflow == REJECT_PUBLISH
        )
        if not self.must_arrive:
            pending, self.pending = self.pending, deque()
            for run in pending:
                self._remove(run)
                self._let_go(run, messages)

    def die(self, run: MessageRun, reason: str, messages: ReadyMessages) -> None:
        """Let messages that are out die for `reason`; without an exchange they are dropped."""
        run = MessageRun(run.batch, run.places, run.returns, run.redelivered, reason)
        if self.must_arrive:
            self.pending.append(run)
            self.count += len(run.places)
            self.bytes += run.bytes
        else:
            self._let_go(run, messages)

    def _let_go(self, run: MessageRun, messages: ReadyMessages) -> None:
        if self.has_exchange:
            self.parts.append(dead_part(NO_ID, run))
        messages.release(run)

    @property
    def has_some(self) -> bool:
        """Tell whether there are dead letters that may have to be handed over."""
        return bool(self.parts or self.pending)

    def hand_over(self, effects: list[FifoEffect]) -> None:
        """Hand over dead letters; those that must arrive only as far as there is room."""
        if self.parts:
            effects.append(DeadLettered(self.parts, must_arrive=False))
            self.parts = []
        room = QUORUM_DEAD_LETTERS_MAX - self.checked_out.count
        parts: list[DeadPart] = []
        while self.pending and room > 0:
            run = self.pending[0]
            count = min(room, len(run.places))
            if count < len(run.places):
                self.pending[0] = run.part(count, len(run.places))
                run = run.part(0, count)
            else:
                self.pending.popleft()
            self.checked_out.add(self.next_id, run)
            parts.append(dead_part(self.next_id, run))
            self.next_id += count
            room -= count
        if parts:
            effects.append(DeadLettered(parts, must_arrive=True))
        assert self.checked_out.count <= QUORUM_DEAD_LETTERS_MAX

    def settle(self, start: int, end: int, has_arrived: bool, messages: ReadyMessages) -> None:
        """Let the dead letters with ids from `start` to before `end` leave the queue, or, unless
        they have arrived, hand them over again behind the others."""
        for run in self.checked_out.take(start, end):
            if has_arrived:
                self._remove(run)
                messages.release(run)
            elif self.must_arrive:
                self.pending.append(run)
            else:
                self._remove(run)
                self._let_go(run, messages)

    def _remove(self, run: MessageRun) -> None:
        self.count -= len(run.places)
        self.bytes -= run.bytes
        assert self.count >= 0 and self.bytes >= 0, "a dead letter was settled twice"

    def resume(self, next_id: int, effects: list[FifoEffect]) -> None:
        """Hand over all unsettled dead letters again, from the id `next_id` on."""
        parts = [dead_part(first_id, run) for first_id, run in self.checked_out.since(next_id)]
        if parts:
            effects.append(DeadLettered(parts, must_arrive=True, is_again=True))

    def forget(self, messages: ReadyMessages) -> None:
        """Drop all dead letters, because the queue was deleted."""
        for run in (*self.pending, *self.checked_out.take_all()):
            messages.release(run)
        self.pending.clear()
        self.count = self.bytes = 0


def dead_part(first_id: int, run: MessageRun) -> DeadPart:
    """Return a run of dead letters in the form that effects have."""
    return DeadPart(first_id, run.batch.index, run.places, run.returns, run.reason)
