"""The interface between the owner of a state and the ways of agreeing on its commands."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar
from weakref import ref

from sluicemq.compiling import mypyc_attr

if TYPE_CHECKING:
    from sluicemq.kernel.machine import StateMachine
    from sluicemq.replication.state_owner import StateOwner

C = TypeVar("C")
E = TypeVar("E")

Role: TypeAlias = Literal["leader", "follower", "candidate"]

CLOSED: Final[Any] = object()
"""The value of `current` when no command is applied any more."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Replicator(Generic[C, E]):
    """Takes the commands of one owner as they arrive, gets them agreed on, and applies each.

    Every replicator guarantees that:

    * each submitted command is applied once, in the order of submission, or given back by `close`;
    * one command is applied at a time, and none while the machine has the `rest` of one to do;
    * effects are appended to the one list of the owner, in the order of application: this list
      stays the same object, which the owner empties and never replaces;
    * it only acts in these calls: `submit`, `receive` and `go_on` may apply a command,
      `turn_ended` applies none.

    A subclass calls `agreed` when a command is agreed on. This class does all the rest.
    """

    __slots__ = ("_owner", "current", "effects", "machine", "waiting")

    def __init__(self, machine: StateMachine[C, E], effects: list[E], owner: StateOwner[C]) -> None:
        self.machine = machine
        self.effects = effects
        self._owner = ref(owner)  # an owner that ends is freed at once
        self.current: C | None = None
        """The command in progress; after a fault the one that failed."""
        self.waiting: deque[C] | tuple[()] = ()
        """Agreed commands that wait for the one in progress; a tuple while there were none, because
        an empty deque takes 760 bytes."""

    @property
    def is_closed(self) -> bool:
        """Tell whether the owner has ended, so that nothing is applied any more."""
        return self.current is CLOSED

    # -- what the owner calls

    def submit(self, command: C) -> None:
        """Get a command agreed on and applied: before this returns, or at any time later."""
        raise NotImplementedError

    def receive(self, message: object) -> bool:
        """Handle a message of the owner's inbox if it is for the replicator: from a peer, the
        journal, or a timer. Returns False, and does nothing, if it is not."""
        raise NotImplementedError

    def turn_ended(self) -> None:
        """Send the gathered commands as one batch, because the owner's turn is over. Nothing else
        makes batches; this is free when there is nothing."""
        raise NotImplementedError

    def role(self) -> Role:
        """Return this member's role in its group. Only a leader's commands get agreed on."""
        raise NotImplementedError

    def figures(self) -> dict[str, int]:
        """Return counts for users, by name. `pending` is always there: commands that were submitted
        and are not done."""
        raise NotImplementedError

    def close(self) -> list[C]:
        """Stop, because the owner has ended, by a fault or for good. Nothing is applied or may be
        submitted any more. Returns the commands that are not done, in order, so that the askers
        learn of the loss; the first may be done in part."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Apply commands agreed on meanwhile: the owner has finished the `rest` of a command."""
        assert self.machine.rest is None, "on with a command that is not done"
        if self.current is not None:
            self._is_done(self.current)
        self._catch_up()

    # -- for subclasses

    def agreed(self, command: C) -> None:
        """Apply the next command agreed on, behind those that wait for a long one."""
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
        """Apply the next commands agreed on, each as `agreed` does. At a fault those behind it are
        still known."""
        assert not self.is_closed, "commands are agreed on after the end"
        if not isinstance(self.waiting, deque):
            self.waiting = deque()
        self.waiting.extend(commands)
        self._catch_up()

    def undone(self) -> list[C]:
        """Return commands that are agreed on and not done, in order. This is called once; nothing
        may be agreed on any more."""
        assert not self.is_closed, "the end comes once"
        left = [*self.waiting] if self.current is None else [self.current, *self.waiting]
        self.waiting = ()
        self.current = CLOSED
        return left

    def carry_out(self, command: C) -> None:
        """Apply the command, except for what takes long. Where the machine is Replicated a subclass
        tells it of the entry before."""
        assert self.current is None, "a command is applied within another one"
        self.current = command
        self.apply(command)
        if self.machine.rest is None:
            self._is_done(command)

    def apply(self, command: C) -> None:
        """Have the machine apply a command."""
        self.machine.apply(command, self.effects)

    def _catch_up(self) -> None:
        while self.waiting and self.current is None:
            self.carry_out(self.waiting.popleft())

    def _is_done(self, command: C) -> None:
        self.current = None
        owner = self._owner()
        assert owner is not None, "a replicator without its owner"
        owner.applied(command)
