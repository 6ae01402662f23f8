"""propose -> agreed -> apply -> tell: the way of a change of definitions.

A change is proposed. When everybody concerned has agreed on it, it is applied, the followers are
told, and then the proposer. Whatever depends on the state (virtual hosts with their queues, access,
policy rounds) changes only because it is told; nobody calls it directly.

Checking the state before (is there room, does the user have the permission) only saves a proposal:
`DeclaredState.apply` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sluicemq.errors import SluiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sluicemq.kernel.actor import Actor
    from sluicemq.metadata.changes import Change
    from sluicemq.metadata.events import Event
    from sluicemq.metadata.state import DeclaredState

E = TypeVar("E")


class NoAgreement(SluiceError):
    """Nothing can be agreed on now, or a change cannot be made durable; the text says why."""


class Agreed:
    """Posted to the proposer of a change: it is applied, and durable if it is to last. `refusal` is
    the objection of `apply`, or NoAgreement; None when there is none."""

    __slots__ = ("refusal",)

    def __init__(self, refusal: SluiceError | None = None) -> None:
        self.refusal = refusal


class Agreement:
    """The way into the declared state of one node."""

    is_vital = True
    """Whoever follows has heard of a change or has not: a fault in between ends the node."""
    applies_at_once = True
    """A change is applied when `propose` returns, though it may not be durable."""
    is_ready = True
    """This node has all that was agreed on before it started."""
    is_current = True
    """This node has all that was agreed on until a moment ago."""

    def __init__(self, state: DeclaredState) -> None:
        self.state = state
        self._followers: dict[type, list[Callable[[Any], None]]] = {}

    def follow(self, kind: type[E], function: Callable[[E], None]) -> None:
        """Have `function` called with each event of this kind, in order, after those that followed
        before."""
        self._followers.setdefault(kind, []).append(function)

    def tell(self, events: Iterable[Event]) -> None:
        """Tell the followers what has happened."""
        for event in events:
            for function in self._followers.get(type(event), ()):
                function(event)

    def when_ready(self, function: Callable[[], None]) -> None:
        """Call the function when this node has all definitions; at once if it has."""
        function()

    def when_current(self, function: Callable[[], None]) -> None:
        """Call the function when this node has all that is agreed on now; at once if it has."""
        function()

    def check_ready(self, change: Change) -> None:
        """Raise NoAgreement when it is known already that this cannot be agreed on now."""
        raise NotImplementedError

    def propose(self, change: Change, proposer: Actor | None = None) -> bool:
        """Propose a change. Returns True when it is applied, and there is nothing to wait for.
        Returns False when the proposer gets an Agreed later, and must wait for it before it relies
        on the change. Without a proposer nobody waits: False then means that the change will be
        applied after this node's earlier proposals, unless `apply` refuses it.

        Raises the objection of `apply`, or NoAgreement, if that is known at once.
        """
        raise NotImplementedError
