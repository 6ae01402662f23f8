"""Actors that wait for a turn, in the order of their turns: one company after the other."""

from __future__ import annotations

from typing import Generic, TypeVar


class Member:
    """An actor that may have its turns together with those whose `company` is equal. None: it has
    them alone."""

    company: object = None


M = TypeVar("M", bound=Member)


class Companies(Generic[M]):
    """A queue of actors in which those of one company have their turns one after the other, so that
    what they bring for the same receiver comes together. Who comes to a company whose turns have
    begun waits for its next ones. So nobody is overtaken by the same one more than twice: once in
    such a company, once in one that waits before its own; with a company that changes, once for
    each of those."""

    def __init__(self) -> None:
        self.waiting: dict[object, list[M]] = {}
        self.called: list[M] = []
        """What is left of the company whose turns have begun, the last first."""
        self.count = 0
        """How many wait."""

    def __bool__(self) -> bool:
        return self.count > 0

    def append(self, actor: M) -> None:
        """Queue an actor with those of its company that wait, or behind all."""
        company = actor if actor.company is None else actor.company
        self.waiting.setdefault(company, []).append(actor)
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
