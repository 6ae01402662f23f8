"""The interface between whoever has a state and the ways of agreeing on a command to it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar
from weakref import ref

from sluicemq.kernel.compiling import mypyc_attr

if TYPE_CHECKING:
    from sluicemq.kernel.machine import StateMachine
    from sluicemq.replication.state_owner import StateOwner

C = TypeVar("C")
E = TypeVar("E")

Role: TypeAlias = Literal["leader", "follower", "candidate"]

CLOSED: Final[Any] = object()
"""In place of the command that is being applied, when none is applied any more."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Replicator(Generic[C, E]):
    """Takes the commands of one owner as they arrive, has them agreed on, and applies each.

    However it agrees, it holds that:

    * each submitted command is applied once, in the order of submission, or given back by `close`;
    * one command is applied at a time, and none while the machine has the `rest` of one to do;
    * effects are appended to the one list of the owner, in the order of application: this list
      stays the same object, which the owner empties and never replaces;
    * it does something in these calls only: `submit`, `receive` and `go_on` may apply a command,
      `turn_ended` applies none.

    A subclass says when a command is agreed, by `agreed`. All the rest of application is here.
    """

    __slots__ = ("_owner", "current", "effects", "machine", "waiting")

    def __init__(self, machine: StateMachine[C, E], effects: list[E], owner: StateOwner[C]) -> None:
        self.machine = machine
        self.effects = effects
        self._owner = ref(owner)  # what is gone goes at once
        self.current: C | None = None
        """The command that is being applied or worked off; after a fault the one it came at."""
        self.waiting: deque[C] | tuple[()] = ()
        """Commands that are agreed on, and wait for the one that is being applied; a tuple while
        there were none, for an empty deque takes 760 bytes."""

    @property
    def is_closed(self) -> bool:
        """Tell whether the owner has come to its end, so that nothing is applied any more."""
        return self.current is CLOSED

    # -- what the owner calls

    def submit(self, command: C) -> None:
        """Have a command agreed on and applied: before this returns, or at any time later."""
        raise NotImplementedError

    def receive(self, message: object) -> bool:
        """Handle a message of the owner's inbox if it is for the replicator: from a peer, of the
        journal, of a timer. Returns whether it was; when not, nothing was done."""
        raise NotImplementedError

    def turn_ended(self) -> None:
        """Send what has gathered, as one batch: the owner's turn is over, and what it has submitted
        is all there. Nothing is batched elsewhere; it is free when there is nothing."""
        raise NotImplementedError

    def role(self) -> Role:
        """Return what this member is in its group. Only a leader's commands come to be agreed
        on."""
        raise NotImplementedError

    def figures(self) -> dict[str, int]:
        """Return counts for people, by name. `pending` is there always: commands that were
        submitted and are not done."""
        raise NotImplementedError

    def close(self) -> list[C]:
        """Stop: the owner has come to its end, by a fault or for good. Nothing is applied any more,
        and nothing may be submitted. Returns what was submitted and is not done, in order, for
        whoever has asked must hear that it was lost; the first may be done in part."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Apply what was agreed meanwhile: the owner has worked off the `rest` of a command."""
        assert self.machine.rest is None, "on with a command that is not done"
        if self.current is not None:
            self._is_done(self.current)
        self._catch_up()

    # -- for those that implement it

    def agreed(self, command: C) -> None:
        """Apply the next command that all agree on, behind those that wait for a long one."""
        if self.current is None and not self.waiting:
            self.carry_out(command)
            if self.waiting:
                self._catch_up()
        else:
            assert not self.is_closed, "a command is agreed on after the end"
            if not isinstance(self.waiting, deque):
                self.waiting = deque()
            self.waiting.append(command)

    def all_agreed(self, commands: list[C]) -> None:
        """Apply the next commands that all agree on, as `agreed` does each. At a fault those behind
        it are still known."""
        assert not self.is_closed, "commands are agreed on after the end"
        if not isinstance(self.waiting, deque):
            self.waiting = deque()
        self.waiting.extend(commands)
        self._catch_up()

    def undone(self) -> list[C]:
        """Return what was agreed and is not done, in order. From now on nothing may be agreed on;
        this is called once."""
        assert not self.is_closed, "the end comes once"
        left = [*self.waiting] if self.current is None else [self.current, *self.waiting]
        self.waiting = ()
        self.current = CLOSED
        return left

    def carry_out(self, command: C) -> None:
        """Apply the command, at least as far as it does not take long. Where the machine is
        Replicated a subclass tells it of the entry before."""
        assert self.current is None, "a command is applied within another one"
        self.current = command
        machine = self.machine
        machine.apply(command, self.effects)
        if machine.rest is None:
            self._is_done(command)

    def _catch_up(self) -> None:
        while self.waiting and self.current is None:
            self.carry_out(self.waiting.popleft())

    def _is_done(self, command: C) -> None:
        self.current = None
        owner = self._owner()
        assert owner is not None, "a replicator without its owner"
        owner.applied(command)
