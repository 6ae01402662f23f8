"""Actors that wait for a turn, in the order of their turns: one group after the other."""

from __future__ import annotations

from typing import Generic, TypeVar


class TurnGroupMember:
    """An actor that may have its turns together with those whose `turn_group` is equal. None: it
    has them alone."""

    turn_group: object = None


M = TypeVar("M", bound=TurnGroupMember)


class TurnGroups(Generic[M]):
    """A queue of actors in which those of one group have their turns one after the other, so that
    what they bring for the same receiver comes together. Who joins a group whose turns have
    begun waits for its next ones. So nobody is overtaken by the same one more than twice: once in
    such a group, once in one that waits before its own; with a group that changes, once for
    each of those."""

    def __init__(self) -> None:
        self.waiting: dict[object, list[M]] = {}
        self.called: list[M] = []
        """The rest of the group whose turns have begun, the last actor first."""
        self.count = 0
        """The number of actors that wait."""

    def __bool__(self) -> bool:
        return self.count > 0

    def append(self, actor: M) -> None:
        """Queue an actor with those of its group that wait, or behind all."""
        group = actor if actor.turn_group is None else actor.turn_group
        self.waiting.setdefault(group, []).append(actor)
        self.count += 1

    def popleft(self) -> M:
        """Take out and return the next actor; somebody has to wait."""
        if not self.called:
            self.called = self.waiting.pop(next(iter(self.waiting)))
            self.called.reverse()
        self.count -= 1
        return self.called.pop()

    def clear(self) -> None:
        """Forget everybody who waits for a turn."""
        self.waiting.clear()
        self.called = []
        self.count = 0
