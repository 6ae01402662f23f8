"""Goal: without replication a command is applied when it arrives. Method: a machine that writes
down what it is told.
"""

from __future__ import annotations

from sluicemq.queues.commands import Command, Inspect, Purge
from sluicemq.queues.effects import Effect, Inspected
from sluicemq.queues.machine import QueueMachine
from sluicemq.replication.alone import Alone
from support.fakes import bystander


class Echo(QueueMachine):
    """Answers each Inspect with the number of commands so far."""

    def __init__(self) -> None:
        self.seen: list[Command] = []

    def apply(self, command: Command, effects: list[Effect]) -> None:
        self.seen.append(command)
        if isinstance(command, Inspect):
            effects.append(Inspected(command.channel, len(self.seen), 0))


def test_effects_come_at_once_and_in_order() -> None:
    machine = Echo()
    alone = Alone(machine)
    channel = bystander()
    commands: list[Command] = [Inspect(channel), Purge(channel), Inspect(channel)]
    effects: list[Effect] = []
    for command in commands:
        alone.submit(command, effects)
    assert machine.seen == commands
    assert [effect.ready for effect in effects if isinstance(effect, Inspected)] == [1, 3]
