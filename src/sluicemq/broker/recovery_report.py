"""The log line about what a start has recovered, written when all queues know what they have.

A quorum queue knows when its log is agreed on, some syncs after the start; others know at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.kernel.actor import Actor
from sluicemq.model.queue_types import QUORUM
from sluicemq.queues.effects import Inspected

if TYPE_CHECKING:
    from sluicemq.broker.broker import Broker
    from sluicemq.chain.queue.queue import Queue


class RecoveryReport(Actor):
    """Asks the quorum queues of a start how many messages they have, and logs the line when all
    have answered. `began_ns` is when the start began; `clean` tells that the last run ended in
    order."""

    def __init__(self, broker: Broker, began_ns: int, clean: bool) -> None:
        super().__init__(broker.scheduler)
        self.world = broker.world
        self.began_ns = began_ns
        self.clean = clean
        queues = [queue for queue in broker.all_with_messages() if queue.is_durable]
        self.queues = len(queues)
        self.messages = sum(queue.machine.depth.ready for queue in queues)
        asked = [each for each in queues if each.is_local and each.definition.type == QUORUM]
        self.unanswered = len(asked)
        if asked:
            self.ask(asked)
        else:
            self.log()

    def ask(self, queues: list[Queue]) -> None:
        """Ask quorum queues how many messages they have."""
        from sluicemq.chain.queue.quorum.asked_queue import (  # noqa: PLC0415 (start-up time)
            CountReady,
        )

        for queue in queues:
            queue.post(CountReady(self))

    def receive(self, message: object) -> None:
        """Note the answer of a queue. A queue that refuses is down, and the log says so already."""
        if isinstance(message, Inspected):
            self.messages += message.ready
        self.unanswered -= 1
        if not self.unanswered:
            self.log()

    def log(self) -> None:
        """Write the line, with the time since the start began."""
        duration_ms = (self.world.clock.now_ns() - self.began_ns) // 1_000_000
        how = "cleanly" if self.clean else "without shutting down"
        text = (
            f"recovered {self.queues} queues with {self.messages} messages in {duration_ms} ms;"
            f" the last run ended {how}"
        )
        self.world.log.write("info", text)
