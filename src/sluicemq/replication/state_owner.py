"""Whoever has a state that commands change, as the ways of agreeing on a command see it."""

from __future__ import annotations

from typing import Generic, TypeVar

C = TypeVar("C")


class StateOwner(Generic[C]):
    """Has the state: it is the shell around it. It works off the `rest` of a long command of its
    machine and calls `go_on` then; and it makes effects real at the end of its turn."""

    def applied(self, command: C) -> None:
        """Hear that a command is done. Its effects are at the end of the list; they are not real
        yet. This may submit others: they come behind what is agreed already."""
        raise NotImplementedError
