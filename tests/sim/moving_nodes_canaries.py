"""Bugs to be planted in clusters whose nodes come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from sluicemq.cluster.membership import ClusterMembership
from sluicemq.metadata import state

CANARIES: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {}


def canary(plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    """Register a bug under its function's name."""
    CANARIES[plant.__name__] = plant


@canary
def who_was_removed_goes_on(patch: pytest.MonkeyPatch) -> None:
    """Nobody tells it, and the others go on to have links to it."""

    patch.setattr(ClusterMembership, "remove", lambda *_: None)
    patch.setattr(ClusterMembership, "_answered", lambda *_: None)


@canary
def queues_keep_their_members_on_who_was_removed(patch: pytest.MonkeyPatch) -> None:
    """A member that is gone for good goes on to count."""

    patch.setattr(state, "node_gone", lambda _queue, _node: [])
