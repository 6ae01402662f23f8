"""Goal: a node that starts takes no log of an earlier member of a quorum queue for that of the one
that is declared, and begins with an empty one only where nothing can have been said.

Method: what a start finds, by hand.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sluicemq.chain.queue.quorum.births import declared_member, is_of_earlier_member
from sluicemq.kernel.address import member_name
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.durable import Durable
from sluicemq.raft.entry import CONFIGURATION, LogEntry
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.storage.raft.group import RaftGroup

BIRTH = Configuration((1, 2, 3))
AGAIN = member_name(7, 3)
"""The second member of node 3."""


def found(
    log: Durable | None, members: tuple[int, ...], leaving: tuple[int, ...] = (), joined: int = 0
) -> Any:
    """What node 3 finds of group 5, whose files are those of the member `joined`, if not 0."""
    tables = SimpleNamespace(members={5: members}, leaving={5: leaving})
    group = RaftGroup(5)
    group.joined = joined
    groups = SimpleNamespace(found={} if log is None else {5: log}, groups={5: group})
    return SimpleNamespace(definitions=tables, groups=groups)


def log_of(born: Configuration, *later: Configuration) -> Durable:
    entries = [
        LogEntry(index, 1, CONFIGURATION, each.encoded()) for index, each in enumerate(later, 1)
    ]
    return Durable(1, 0, LogSnapshot(0, 0, born), entries)


@pytest.mark.parametrize(
    ("log", "members", "is_earlier"),
    [
        (None, (1, 2, AGAIN), False),
        (log_of(BIRTH), (1, 2, 3), False),
        (log_of(BIRTH), (1, 2, AGAIN), True),
        (log_of(BIRTH, BIRTH.without(3)), (1, 2, AGAIN), True),
        (log_of(BIRTH.without(3)), (1, 2, AGAIN), True),
        (log_of(Configuration(learners=(AGAIN,))), (1, 2, AGAIN), False),
        (log_of(Configuration(), BIRTH.without(3).with_learner(AGAIN)), (1, 2, AGAIN), False),
        (log_of(Configuration()), (1, 2, 3), False),
    ],
)
def test_whose_log_it_is(log: Durable | None, members: tuple[int, ...], is_earlier: bool) -> None:
    assert is_of_earlier_member(3, 5, found(log, members)) is is_earlier


def test_a_leaders_snapshot_from_before_a_member_was_added_is_that_members_log() -> None:
    log = log_of(BIRTH)
    assert not is_of_earlier_member(3, 5, found(log, (1, 2, AGAIN), joined=AGAIN))
    assert is_of_earlier_member(3, 5, found(log, (1, 2, member_name(8, 3)), joined=AGAIN))


def test_who_is_to_go_is_a_member_until_it_is_gone() -> None:
    assert declared_member(3, 5, found(None, (1, 2), leaving=(3,))) == 3
    assert declared_member(3, 5, found(None, (1, 2, AGAIN))) == AGAIN
    assert declared_member(3, 5, found(None, (1, 2))) == 0
