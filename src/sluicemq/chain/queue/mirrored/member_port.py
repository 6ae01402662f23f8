"""This node's member of a mirrored queue, as the master's queue sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.queues.mirrored.commands import MirrorCommand
    from sluicemq.queues.mirrored.group_standing import GroupStanding
    from sluicemq.queues.mirrored.mirror import Mirror
    from sluicemq.queues.mirrored.mirror_bounds import MirrorBounds


class MemberPort(Actor):
    """This node's member, with the id `own` in its group; `mirror` is the state up to where it has
    applied the log, and `bounds` are those of the next master here."""

    mirror: Mirror
    own: int
    bounds: MirrorBounds

    @property
    def standing(self) -> GroupStanding | None:
        """Return the state of the group; None: this member does not serve, or not yet."""
        raise NotImplementedError

    @property
    def mirrors(self) -> frozenset[int]:
        """Return the members that should be mirrors; the others are witnesses."""
        raise NotImplementedError

    @property
    def takes_proposals(self) -> bool:
        """Tell whether entries about messages can be proposed now."""
        raise NotImplementedError

    @property
    def has_heir(self) -> bool:
        """Tell whether another mirror could take over."""
        raise NotImplementedError

    def propose(self, commands: list[MirrorCommand]) -> tuple[int, int]:
        """Propose an entry. Returns its index and its bytes."""
        raise NotImplementedError

    def names_of(self, members: Iterable[int]) -> list[str]:
        """Return the names of these members' nodes, for users."""
        raise NotImplementedError

    def contents(self, indexes: Iterable[int]) -> dict[int, bytes]:
        """Return the bytes of those of these entries that are in RAM."""
        raise NotImplementedError

    @property
    def can_move(self) -> bool:
        """Tell whether messages that move to this queue can be written now."""
        raise NotImplementedError

    def moved(self) -> None:
        """Serve from now on: all messages that had to move here have arrived."""
        raise NotImplementedError

    def policy_changed(self) -> None:
        """Adapt the mirrors to the policy."""
        raise NotImplementedError

    def master_failed(self, error: Exception) -> None:
        """End the queue of this master, because it has had a fault."""
        raise NotImplementedError
