"""The interface between a queue actor and the ways of agreeing on a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluicemq.queues.commands import Command
    from sluicemq.queues.effects import Effect


class Replicator:
    """Takes commands as they arrive; applies each to the machine once it is agreed."""

    def submit(self, command: Command, effects: list[Effect]) -> None:
        """A command arrived. Effects of what is agreed by now are appended to `effects`."""
        raise NotImplementedError
