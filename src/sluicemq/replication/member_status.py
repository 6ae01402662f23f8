"""Questions about the state of groups' members, for comparing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MemberStatus: TypeAlias = dict[str, Any]
"""A member's view of its group, by the names of columns."""
StatusTeller: TypeAlias = "Callable[[dict[int, MemberStatus], dict[int, int]], None]"
"""Takes, by node, what its member knows, or why it does not say; and of those that have answered
which node leads the group, as far as it knows; 0: it knows none."""


class TellsStatus:
    """A member of a group that can be asked for its status."""

    def status(self) -> MemberStatus:
        """Return this member's view of its group."""
        raise NotImplementedError


class AsksMembers(Protocol):
    """Asks members on other nodes for their status."""

    def ask(
        self,
        group: int,
        nodes: Iterable[int],
        tell: StatusTeller,
    ) -> None:
        """Ask these nodes about a group, and call `tell` with all answers, in a second at the
        latest."""
        raise NotImplementedError
