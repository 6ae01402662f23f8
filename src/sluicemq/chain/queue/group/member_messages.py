"""Messages of a node to its members of groups: about declared members, and about their end."""

from __future__ import annotations

from typing import NamedTuple


class MembersDue(NamedTuple):
    """Tells a queue that its declared members have changed."""


class LeadFrom(NamedTuple):
    """Tells a queue to let the member on that node lead, if the one here leads."""

    node: int


class HandOver(NamedTuple):
    """Tells a queue to let another member lead, because this node stops."""


class SyncMirrors(NamedTuple):
    """Tells the master of a mirrored queue to send new mirrors the queue's messages, or, with
    `is_cancelled`, to stop that."""

    is_cancelled: bool


class MemberGone(NamedTuple):
    """Tells a queue that the member on this node has left its group and can be forgotten here."""
