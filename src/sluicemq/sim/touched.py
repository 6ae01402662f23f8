"""The parts of the node that an event may have changed: those whose actors had a turn or got a
message. An actor without either is unchanged, except for what other actors do to it in their turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.kernel.actor import TurnLine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.kernel.actor import Actor, Scheduler


class RecordedTurns(TurnLine):
    """The run queue of a scheduler, which notes every actor taken out of it, because that actor has
    a turn then."""

    def __init__(self, line: TurnLine, had_turns: dict[Actor, None]) -> None:
        """The actors of `line` wait here from now on, and `had_turns` gets those taken out."""
        super().__init__()
        self.first, self.last = line.first, line.last
        self.had_turns = had_turns

    def popleft(self) -> Actor:
        """Take out the next actor, and note it."""
        actor = super().popleft()
        self.had_turns[actor] = None
        return actor


class Touched:
    """Watches the turns of one scheduler, and the inboxes of registered actors. Each actor belongs
    to a part, which is named by one of its actors."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.had_turns: dict[Actor, None] = {}
        """Actors that had a turn since `take`; for members of a share only the share."""
        self.part_of: dict[Actor, Actor] = {}
        self.parts: dict[Actor, list[Actor]] = {}
        """The actors of each part whose inboxes are watched."""
        self.inbox_sizes: dict[Actor, int] = {}
        """The messages in each inbox at the last `take`."""
        scheduler.ready = RecordedTurns(scheduler.ready, self.had_turns)
        self._popleft = scheduler.patient.popleft
        scheduler.patient.popleft = self._next_patient  # type: ignore[method-assign]

    def _next_patient(self) -> Actor:
        """Take out the next of the actors that bring work in, and note it."""
        actor = self._popleft()
        self.had_turns[actor] = None
        return actor

    def clear(self) -> None:
        """Forget all actors that are watched."""
        self.part_of.clear()
        self.parts.clear()
        self.inbox_sizes.clear()

    def watch(self, part: Actor, actors: Iterable[Actor], others: Iterable[Actor] = ()) -> None:
        """Watch the inboxes of these actors, which belong to this part. A turn of the `others`
        touches the part too."""
        watched = self.parts.setdefault(part, [])
        for actor in actors:
            watched.append(actor)
            self.part_of[actor] = part
            self.inbox_sizes[actor] = len(actor.inbox)
        for actor in others:
            self.part_of[actor] = part

    def take(self) -> list[Actor] | None:
        """Return the parts touched since the last call; None when an actor that belongs to no part
        had a turn."""
        touched: dict[Actor, None] = {}
        part_of = self.part_of
        is_known = True
        for actor in self.had_turns:
            part = part_of.get(actor)
            if part is None:
                is_known = False
            else:
                touched[part] = None
        self.had_turns.clear()
        sizes = self.inbox_sizes
        for actor, size in sizes.items():
            if len(actor.inbox) != size:
                touched[part_of[actor]] = None
        for part in touched:
            for actor in self.parts[part]:
                sizes[actor] = len(actor.inbox)
        return [*touched] if is_known else None
