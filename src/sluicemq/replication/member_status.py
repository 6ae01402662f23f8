"""What members of groups are asked about how they are, by whoever has to compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MemberStatus: TypeAlias = dict[str, Any]
"""What a member knows of its group, by the names of columns."""


class TellsStatus:
    """This is a member of a group that others may ask how it is."""

    def status(self) -> MemberStatus:
        """Return what this member knows of its group."""
        raise NotImplementedError


class AsksMembers(Protocol):
    """Whoever has members on other nodes asked how they are."""

    def ask(
        self,
        group: int,
        nodes: Iterable[int],
        tell: Callable[[dict[int, MemberStatus]], None],
    ) -> None:
        """Ask these nodes about a group, and call `tell` with what each has answered, in a second
        at the latest."""
        raise NotImplementedError
