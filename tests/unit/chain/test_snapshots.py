"""Goal: a snapshot of a queue's state is due when it replaces a part of the log. Method: figures of
a member's log and of its state, without either.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from sluicemq.chain.queue.group.snapshots import Snapshots

ENTRIES_MAX = 3


def snapshots(last: int, in_snapshot: int, state_index: int) -> Snapshots:
    """Those of a member whose log is durable and applied up to `last`, where the last entry with
    commands was at `state_index`."""
    state = SimpleNamespace(index=state_index, snapshot_rows=1, body_bytes=0)
    log = SimpleNamespace(snapshot=SimpleNamespace(index=in_snapshot), entries=[])
    raft = SimpleNamespace(snapshot_index_max=last, member=SimpleNamespace(log=log))
    written = SimpleNamespace(bytes_since=0)
    return Snapshots(cast("Any", state), cast("Any", raft), cast("Any", written), ENTRIES_MAX, 1000)


def test_a_snapshot_is_due_when_it_replaces_enough_entries() -> None:
    assert not snapshots(last=7, in_snapshot=5, state_index=7).is_due
    assert snapshots(last=8, in_snapshot=5, state_index=8).is_due


def test_elections_alone_make_no_snapshot_due() -> None:
    """Each adds an entry of Raft's own, after which the state is that of the last snapshot."""
    assert not snapshots(last=50, in_snapshot=5, state_index=5).is_due
    assert not snapshots(last=50, in_snapshot=5, state_index=6).is_due
