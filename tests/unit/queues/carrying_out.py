"""What the queue actor does with a command that takes long: work it off, then take the next one.
And what channels do with what is settled: name the link that it came over.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from sluicemq.queues.commands import LinkId, Settle

if TYPE_CHECKING:
    from sluicemq.queues.classic.machine import ClassicQueue
    from sluicemq.queues.commands import Command
    from sluicemq.queues.effects import Effect

PIECE = 2
"""Unacknowledged runs, chunks or consumers of a piece: so few that some commands leave a rest."""

ENDLESS = 10**9

Part = tuple[int, int, int]


def settles(machine: ClassicQueue, parts: list[Part], outcome: int) -> list[Settle]:
    """A command for each run of parts that are out over one link; of runs that nobody knows, one
    over a link that nobody has."""

    def link_of(part: Part) -> LinkId:
        run = machine.unacked_runs.get(part[0])
        return LinkId(machine.term, 10**6) if run is None else run.link

    return [Settle(link, list(some), outcome) for link, some in groupby(parts, link_of)]


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
