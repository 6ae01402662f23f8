"""No replication: agreed at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.replication.replicator import Replicator

if TYPE_CHECKING:
    from sluicemq.queues.commands import Command
    from sluicemq.queues.effects import Effect
    from sluicemq.queues.machine import QueueMachine


class Alone(Replicator):
    """One member decides by itself."""

    def __init__(self, machine: QueueMachine) -> None:
        self.machine = machine

    def submit(self, command: Command, effects: list[Effect]) -> None:
        """See Replicator."""
        self.machine.apply(command, effects)
