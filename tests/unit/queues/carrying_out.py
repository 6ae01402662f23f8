"""What the queue actor does with a command that takes long: work it off, then take the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluicemq.queues.classic import ClassicQueue
    from sluicemq.queues.commands import Command
    from sluicemq.queues.effects import Effect

PIECE = 2
"""Lots, chunks or consumers of a piece: so few that some commands leave a rest."""

ENDLESS = 10**9


def carry_out(machine: ClassicQueue, command: Command, effects: list[Effect]) -> None:
    """Apply the command, all pieces of it, and with all deliveries that it leads to."""
    machine.piece_max = PIECE
    machine.deals_max = ENDLESS
    machine.apply(command, effects)
    if machine.rest is not None:
        for _ in machine.rest:
            pass
        machine.rest = None
    machine.work = 0


def serve(machine: ClassicQueue, effects: list[Effect]) -> None:
    """Deal out all that somebody has room for."""
    machine.deals_max = ENDLESS
    machine.serve(effects)
    machine.work = 0
