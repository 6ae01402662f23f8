"""What the queue of a master sees of this node's member of its group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.queues.mirrored.commands import MirrorCommand
    from sluicemq.queues.mirrored.group_standing import GroupStanding
    from sluicemq.queues.mirrored.mirror import Mirror


class MemberPort(Actor):
    """This node's member, whose `mirror` is as far as it has applied the log; it has the id `own`
    in its group."""

    mirror: Mirror
    own: int

    @property
    def standing(self) -> GroupStanding | None:
        """Return how the group stands; None: this member does not serve, or not yet."""
        raise NotImplementedError

    @property
    def mirrors(self) -> frozenset[int]:
        """Return the members that are to be mirrors; the others are witnesses."""
        raise NotImplementedError

    @property
    def takes_proposals(self) -> bool:
        """Tell whether what has become of messages can be said to the others now."""
        raise NotImplementedError

    @property
    def has_heir(self) -> bool:
        """Tell whether another member could serve as well."""
        raise NotImplementedError

    def propose(self, commands: list[MirrorCommand]) -> tuple[int, int]:
        """Have an entry agreed on. Returns its index and its bytes."""
        raise NotImplementedError

    def names_of(self, members: Iterable[int]) -> list[str]:
        """Return the names of the nodes of these members, for people."""
        raise NotImplementedError

    def contents(self, indexes: Iterable[int]) -> dict[int, bytes]:
        """Return those of these entries that are in RAM."""
        raise NotImplementedError

    @property
    def can_move(self) -> bool:
        """Tell whether what is moved to this queue can be written now."""
        raise NotImplementedError

    def moved(self) -> None:
        """Serve from now on: what was to be moved to this queue is there."""
        raise NotImplementedError

    def policy_changed(self) -> None:
        """Have the mirrors be those that the policy wants."""
        raise NotImplementedError

    def master_failed(self, error: Exception) -> None:
        """End the queue of this master, for it has had a fault."""
        raise NotImplementedError
