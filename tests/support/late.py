"""A replicator that agrees later, for tests of what must not count on being alone.

It keeps to the interface, and to nothing that Alone does besides: what was submitted in a turn is
agreed on when a message has come back, in a later turn of the owner.
"""

from __future__ import annotations

from collections import deque
from typing import Any, cast

from sluicemq.kernel.actor import Actor
from sluicemq.kernel.machine import Replicated, StateMachine
from sluicemq.replication.replicator import C, E, Replicator, Role
from sluicemq.replication.state_owner import StateOwner

ENTRY_MS = 10
"""Milliseconds from one entry's stamp to the next one's."""


class Agreed:
    """To the owner of `replicator`: the oldest `count` of what it has submitted is agreed on."""

    def __init__(self, replicator: Replicator[Any, Any], count: int) -> None:
        self.replicator = replicator
        self.count = count


class Late(Replicator[C, E]):
    """Of an owner whose inbox `actor` has. It numbers entries where the machine wants to know."""

    __slots__ = ("actor", "asked", "index", "pending")

    def __init__(
        self, machine: StateMachine[C, E], effects: list[E], owner: StateOwner[C], actor: Actor
    ) -> None:
        super().__init__(machine, effects, owner)
        self.actor = actor
        self.pending: deque[C] = deque()
        """Submitted and not agreed on."""
        self.asked = 0
        """So many of these are on their way."""
        self.index = 0

    def submit(self, command: C) -> None:
        assert not self.is_closed, "a command comes after the end"
        self.pending.append(command)
        self.actor.schedule()  # its turn may be over

    def receive(self, message: object) -> bool:
        if not isinstance(message, Agreed) or message.replicator is not self:
            return False
        for _ in range(min(message.count, len(self.pending))):
            self.asked -= 1
            self.agreed(self.pending.popleft())
        return True

    def turn_ended(self) -> None:
        count = len(self.pending) - self.asked
        if count:
            self.asked += count
            self.actor.post(Agreed(self, count))

    def role(self) -> Role:
        return "leader"

    def figures(self) -> dict[str, int]:
        done = self.current is None
        return {"pending": len(self.pending) + len(self.waiting) + (not done)}

    def close(self) -> list[C]:
        left = [*self.undone(), *self.pending]
        self.pending.clear()
        return left

    def carry_out(self, command: C) -> None:
        if isinstance(self.machine, Replicated):
            self.index += 1
            cast("Replicated[C, E]", self.machine).entered(self.index, self.index * ENTRY_MS)
        super().carry_out(command)
