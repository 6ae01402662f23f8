"""What an event may have changed: the parts of the node whose actors had a turn in it, or were
posted something. Whoever had no turn and got nothing is as it was, but for what others do to it in
turns of theirs."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.kernel.actor import Scheduler


class RecordedTurns(deque[Actor]):
    """The run queue of a scheduler, which notes who is taken out of it: it has a turn then."""

    def __init__(self, actors: Iterable[Actor], had_turns: dict[Actor, None]) -> None:
        super().__init__(actors)
        self.had_turns = had_turns

    def popleft(self) -> Actor:
        """Take out who is next, and note it."""
        actor = super().popleft()
        self.had_turns[actor] = None
        return actor


class Touched:
    """Watches the turns of one scheduler, and the inboxes of those actors that it is told of. Each
    of them is of a part, which is named by one of its actors."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.had_turns: dict[Actor, None] = {}
        """Who had one since `take`; of the members of a share, only the share."""
        self.part_of: dict[Actor, Actor] = {}
        self.parts: dict[Actor, list[Actor]] = {}
        """The actors of each part whose inboxes are watched."""
        self.inbox_sizes: dict[Actor, int] = {}
        """The messages in each, as of the last `take`."""
        scheduler.ready = RecordedTurns(scheduler.ready, self.had_turns)
        self._popleft = scheduler.patient.popleft
        scheduler.patient.popleft = self._next_patient  # type: ignore[method-assign]

    def _next_patient(self) -> Actor:
        """Take out who is next of those that bring work in, and note it."""
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
        """Return the parts that were touched since the last call; None when an actor had a turn
        that is of none."""
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
