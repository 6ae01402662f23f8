"""What members of a queue's group are told by their node: of what is declared, and of its end."""

from __future__ import annotations

from typing import NamedTuple


class MembersDue(NamedTuple):
    """Tells a queue that other members of it are declared than were."""


class LeadFrom(NamedTuple):
    """Tells a queue that the member on that node is to lead, if the one here does."""

    node: int


class HandOver(NamedTuple):
    """Tells a queue that this node stops, so that another member had better lead."""


class SyncMirrors(NamedTuple):
    """Tells the member of a mirrored queue that is master to have new mirrors sent what is in the
    queue, or, with `is_cancelled`, not any more."""

    is_cancelled: bool


class MemberGone(NamedTuple):
    """Tells a queue that the member on this node is out of its group: it can be forgotten here."""
