"""propose -> agreed -> apply -> tell: how a change of what is declared comes to be.

Who wants a change proposes it. When all who have to have agreed on it, it is applied, those who
follow are told, and who has asked hears that it is so. What follows the state (virtual hosts with
their queues, access, rounds of policies) changes only because it is told; nobody calls it.

Looking at the state before (is there room, may this user) is a hint that saves a proposal: the
verdict is that of `DeclaredState.apply`.
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
    """Nothing can be agreed on now, or what was proposed cannot be made durable; the text says
    why."""


class Agreed:
    """To who has proposed a change: it is applied, and durable if it is to last. `refusal` is what
    `apply` has said against it, or NoAgreement; None: nothing."""

    __slots__ = ("refusal",)

    def __init__(self, refusal: SluiceError | None = None) -> None:
        self.refusal = refusal


class Agreement:
    """The way into the declared state of one node."""

    is_vital = True
    """Whoever follows has heard of a change or has not: a fault in between ends the node."""
    applies_at_once = True
    """A change is applied when `propose` returns, though it may not be durable."""

    def __init__(self, state: DeclaredState) -> None:
        self.state = state
        self._followers: dict[type, list[Callable[[Any], None]]] = {}

    def follow(self, kind: type[E], function: Callable[[E], None]) -> None:
        """Have `function` called with each event of this kind, in the order in which they happen
        and behind those who have asked before."""
        self._followers.setdefault(kind, []).append(function)

    def tell(self, events: Iterable[Event]) -> None:
        """Let those who follow know what has happened."""
        for event in events:
            for function in self._followers.get(type(event), ()):
                function(event)

    def check_ready(self, change: Change) -> None:
        """Raise NoAgreement when it is known already that this cannot be agreed on now."""
        raise NotImplementedError

    def propose(self, change: Change, proposer: Actor | None = None) -> bool:
        """Ask for a change. True: it is applied, and there is nothing to wait for. False: the
        proposer gets an Agreed later, and has to wait for it before it relies on the change.
        Without a proposer nobody waits: it is True if the change is applied; if not it will be some
        time, behind what this node has proposed before, unless `apply` refuses it then.

        Raises what `apply` has against it, or NoAgreement, if that is known at once."""
        raise NotImplementedError
