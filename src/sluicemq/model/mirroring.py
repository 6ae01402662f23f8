"""What a policy says of the mirrors of a queue, and the nodes that get one by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

AUTOMATIC: Final = "automatic"
ALWAYS: Final = "always"
BATCH: Final = 4096
"""Messages that a new mirror is sent at a time where a policy says nothing of it, as in
RabbitMQ."""


class Mirroring(NamedTuple):
    """How many mirrors a queue should have, with the master (`most`; None: as many as there are
    nodes), or the names of the nodes that should have them. With `syncs` a new mirror is sent the
    messages in the queue at once, about `batch` messages at a time. When no majority of the members
    can be reached any more, one that can goes on with what it has, if the master's node has failed
    (`after_failure`) or was stopped (`after_shutdown`)."""

    most: int | None
    names: tuple[str, ...]
    syncs: bool = True
    batch: int = BATCH
    after_failure: bool = False
    after_shutdown: bool = False


def mirroring_of(policy: Mapping[str, Any]) -> Mirroring | None:
    """Return what a policy says of mirrors; None when it says nothing."""
    mode, params = policy.get("ha-mode"), policy.get("ha-params")
    how = (
        policy.get("ha-sync-mode", AUTOMATIC) == AUTOMATIC,
        int(policy.get("ha-sync-batch-size", BATCH)),
        policy.get("ha-promote-on-failure") == ALWAYS,
        policy.get("ha-promote-on-shutdown") == ALWAYS,
    )
    if mode == "all":
        return Mirroring(None, (), *how)
    if mode == "exactly":
        return Mirroring(int(params or 1), (), *how)
    if mode == "nodes":
        return Mirroring(None, (*map(str, params or ()),), *how)
    return None


def mirror_nodes(
    mirroring: Mirroring | None, nodes: Sequence[int], name_of: Callable[[int], str]
) -> tuple[int, ...]:
    """Return the nodes that should have mirrors, the master's among them. `nodes` begins with those
    that have some, the master's first."""
    if mirroring is None:
        return (*nodes[:1],)
    if mirroring.names:
        return (*(node for node in nodes if name_of(node) in mirroring.names),) or (*nodes[:1],)
    return (*nodes[: mirroring.most],)


def voting_nodes(mirrors: Sequence[int], nodes: Sequence[int]) -> tuple[int, ...]:
    """Return the nodes that should have members of the queue's group: those with mirrors and, where
    these are two, one that only votes, because two that are separated could not agree on anything.
    """
    witnesses = [node for node in nodes if node not in mirrors] if len(mirrors) == 2 else []
    return (*mirrors, *witnesses[:1])
