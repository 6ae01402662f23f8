"""The owner of a state that commands change, as the ways of agreeing on commands see it."""

from __future__ import annotations

from typing import Generic, TypeVar

C = TypeVar("C")


class StateOwner(Generic[C]):
    """The owner of a state: the shell around it. It finishes the `rest` of its machine's long
    command and then calls `go_on`; and it makes effects real at the end of its turn."""

    def applied(self, command: C) -> None:
        """Note that a command is done. Its effects are last in the list; they are not real yet.
        Commands submitted here come behind those already agreed on."""
        raise NotImplementedError
