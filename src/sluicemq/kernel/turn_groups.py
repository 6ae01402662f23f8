"""Actors that wait for a turn, in the order of their turns: group by group."""

from __future__ import annotations

from typing import Generic, TypeVar

from sluicemq.compiling import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class TurnGroupMember:
    """An actor that has its turns together with those of an equal `turn_group`; alone when that is
    None."""

    turn_group: object = None


M = TypeVar("M", bound=TurnGroupMember)


class TurnGroups(Generic[M]):
    """A queue of actors in which those of one group have their turns one after the other, so that
    their messages for the same receiver arrive together. An actor that joins a group whose turns
    have begun waits for the next ones. So the same actor overtakes another at most twice: once in
    such a group, once in one that waits before the other's; with a group that changes, once for
    each of those."""

    def __init__(self) -> None:
        self.lone: M | None = None
        """The actor that waits while no other does; when a second one comes it waits in its
        group."""
        self.waiting: dict[object, list[M]] = {}
        self.called: list[M] = []
        """The rest of the group whose turns have begun, the last actor first."""
        self.count = 0
        """The number of actors that wait."""

    def __bool__(self) -> bool:
        return self.count > 0

    def append(self, actor: M) -> None:
        """Queue an actor with the waiting ones of its group, or behind all."""
        self.count += 1
        if self.count == 1:
            self.lone = actor
            return
        lone = self.lone
        if lone is not None:
            self.lone = None
            self.join(lone)
        self.join(actor)

    def join(self, actor: M) -> None:
        """Queue an actor in its group."""
        group = actor if actor.turn_group is None else actor.turn_group
        self.waiting.setdefault(group, []).append(actor)

    def popleft(self) -> M:
        """Remove and return the next actor; at least one must be waiting."""
        self.count -= 1
        lone = self.lone
        if lone is not None:
            self.lone = None
            return lone
        if self.called:
            return self.called.pop()
        group = self.waiting.pop(next(iter(self.waiting)))
        if len(group) > 1:
            group.reverse()
            self.called = group
            return group.pop()
        return group[0]

    def clear(self) -> None:
        """Forget all actors that wait for a turn."""
        self.lone = None
        self.waiting.clear()
        self.called = []
        self.count = 0
