"""Goal: every rule that a log, a member or a configuration can see broken ends the process.

Method: break each of them once. Majorities are compared exhaustively for small groups.
"""

from __future__ import annotations

from itertools import combinations

import pytest

from sluicemq.errors import Refused
from sluicemq.raft import election
from sluicemq.raft.configuration import Configuration, decoded
from sluicemq.raft.durable import Durable
from sluicemq.raft.entry import CONFIGURATION, LogEntry, noop
from sluicemq.raft.log import RaftLog
from sluicemq.raft.member import RaftMember
from sluicemq.raft.settings import RaftSettings
from sluicemq.raft.snapshot import LogSnapshot

THREE = Configuration((1, 2, 3))


def entry(index: int, term: int) -> LogEntry:
    return LogEntry(index, term, "data", b"")


def log(*terms: int) -> RaftLog:
    entries = [entry(index, term) for index, term in enumerate(terms, start=1)]
    return RaftLog(LogSnapshot(0, 0, THREE), entries)


def member() -> RaftMember:
    durable = Durable(snapshot=LogSnapshot(0, 0, THREE))
    return RaftMember(1, durable, RaftSettings(), 1, lambda _: 0)


def subsets(names: tuple[int, ...]) -> list[set[int]]:
    return [{*chosen} for n in range(len(names) + 1) for chosen in combinations(names, n)]


def test_a_log_has_no_gap() -> None:
    with pytest.raises(AssertionError, match="no gap"):
        log(1).append(entry(3, 1), 1)


def test_terms_do_not_go_back_along_a_log() -> None:
    with pytest.raises(AssertionError, match="terms grow"):
        log(1, 2).append(entry(3, 1), 1)


def test_machine_versions_do_not_go_back() -> None:
    one = log()
    one.append(noop(1, 1, 3), 1)
    with pytest.raises(AssertionError, match="versions never go back"):
        one.append(noop(2, 2, 2), 1)


def test_two_voters_do_not_change_at_one_time() -> None:
    data = Configuration((1,)).encoded()
    with pytest.raises(AssertionError, match="one by one"):
        log().append(LogEntry(1, 1, CONFIGURATION, data), 1)


def test_what_is_committed_is_not_truncated_by_an_append() -> None:
    one = log(1, 1, 1)
    one.commit_to(2)
    with pytest.raises(AssertionError, match="never truncated"):
        one.merge([entry(2, 2)], 1)


def test_what_is_not_there_is_not_committed() -> None:
    with pytest.raises(AssertionError, match="was the log lost"):
        log(1).commit_to(2)


def test_what_is_not_durable_is_not_compacted() -> None:
    one = log(1)
    one.append(entry(2, 1), 1)
    one.commit_to(2)
    with pytest.raises(AssertionError, match="not durable"):
        one.compact(one.snapshot_at(2, 0))


def test_a_log_that_has_it_is_not_replaced_by_a_snapshot() -> None:
    with pytest.raises(AssertionError, match="is kept"):
        log(1, 1).install(LogSnapshot(1, 1, THREE), 1)


def test_syncs_are_told_in_order_and_not_before_they_were_handed_out() -> None:
    one = log()
    one.synced(2)
    with pytest.raises(AssertionError, match="in order"):
        one.synced(1)
    with pytest.raises(AssertionError, match="handed out"):
        member().synced(1)


def test_a_member_has_one_vote_a_term() -> None:
    one = member()
    one.adopt(1, 2)
    with pytest.raises(AssertionError, match="one vote a term"):
        one.adopt(1, 3)
    with pytest.raises(AssertionError, match="one vote a term"):
        one.adopt(0, 0)


@pytest.mark.parametrize(
    ("configuration", "wants_others"), [(THREE, False), (Configuration(learners=(1,)), True)]
)
def test_a_new_member_believes_its_leader_that_it_leads_no_more(
    configuration: Configuration, wants_others: bool
) -> None:
    """It may have no ticks by which it would notice."""
    durable = Durable(snapshot=LogSnapshot(0, 0, configuration))
    one = RaftMember(1, durable, RaftSettings(), 1, lambda _: 0)
    one.leader = 2
    assert election.loyal(one, 3)
    assert election.loyal(one, 2) != wants_others


@pytest.mark.parametrize("size", range(1, 6))
def test_majorities_of_neighbouring_configurations_meet(size: int) -> None:
    smaller = Configuration((*range(1, size + 1),))
    larger = smaller.with_learner(9).with_promoted(9)
    assert larger.is_one_step_from(smaller)
    for one in filter(smaller.has_majority, subsets(smaller.voters)):
        for other in filter(larger.has_majority, subsets(larger.voters)):
            assert one & other


@pytest.mark.parametrize("size", range(1, 6))
def test_what_is_agreed_is_what_a_majority_has_reached(size: int) -> None:
    group = Configuration((*range(1, size + 1),), learners=(9,))
    for reached in subsets(group.voters):
        values = {name: 7 if name in reached else 3 for name in group.voters}
        assert (group.agreed(values.__getitem__) == 7) == group.has_majority(reached)


def test_nobody_decides_in_a_group_without_voters() -> None:
    nobody = Configuration(learners=(1,))
    assert not nobody.has_majority({1})
    assert nobody.agreed(lambda _: 7) == 0


def test_a_configuration_is_read_as_it_was_written() -> None:
    for group in (Configuration(), THREE, THREE.with_learner(12), Configuration(learners=(4,))):
        assert decoded(group.encoded()) == group


def test_the_id_of_a_member_is_given_once() -> None:
    """Who was removed, and whose log may be gone, must not come back, whoever says so."""
    log = RaftLog(LogSnapshot(0, 0, THREE))
    without = THREE.without(3)
    with pytest.raises(Refused, match="may have been in the group before"):
        without.with_learner(3)
    for again in (Configuration((1, 2), (3,)), Configuration((1, 2), (3,), 3)):
        log = RaftLog(LogSnapshot(0, 0, without))
        with pytest.raises(AssertionError, match="given once"):
            log.append(LogEntry(1, 1, CONFIGURATION, again.encoded()), 1)
    log.append(LogEntry(1, 1, CONFIGURATION, without.with_learner(4).encoded()), 1)
    assert log.configuration.removed_max == 3


def test_who_is_ruled_out_is_never_added() -> None:
    without = THREE.ruling_out(5)
    assert decoded(without.encoded()) == without
    assert without.members == THREE.members
    with pytest.raises(Refused, match="may have been in the group before"):
        without.with_learner(5)
    assert without.with_learner(6).learners == (6,)
    assert without.ruling_out(4) == without
    with pytest.raises(Refused, match="member 3 is in the group"):
        THREE.ruling_out(3)


def test_a_change_that_cannot_be_is_refused() -> None:
    with pytest.raises(Refused, match="in the group already"):
        THREE.with_learner(3)
    with pytest.raises(Refused, match="not a learner"):
        THREE.with_promoted(3)
    with pytest.raises(Refused, match="not in the group"):
        THREE.without(4)
    with pytest.raises(Refused, match="only voter"):
        Configuration((1,)).without(1)
