"""Goal: members of a quorum queue come and go as they are declared to, no id comes twice, and all
nodes agree on that.

Method: changes of a state, which is then taken over by another one as bytes.
"""

from __future__ import annotations

import pytest

from sluicemq.errors import Refused
from sluicemq.kernel.address import member_name, node_of
from sluicemq.metadata.changes import (
    AddMember,
    DeclareQueue,
    Life,
    MemberLeft,
    MoveLeader,
    NodeStarted,
    PromoteMember,
    RemoveMember,
    RemoveNode,
    UpsertRecord,
)
from sluicemq.metadata.codec import as_json, changes_of
from sluicemq.metadata.events import DeclaredQueue, LeaderMoved, MembersChanged
from sluicemq.metadata.replacing import replace_state
from sluicemq.metadata.restoring import restored, restored_from_snapshot
from sluicemq.metadata.state import DeclaredState
from sluicemq.metadata.tables import DurableTables
from sluicemq.model.definitions import QueueDefinition
from sluicemq.model.vhosts import VhostDefinition

PLACE = ("v", "q", 1)


@pytest.fixture
def state() -> DeclaredState:
    state = DeclaredState()
    state.apply(UpsertRecord(VhostDefinition("v")))
    queue = QueueDefinition("q", durable=True, vhost="v")
    state.apply(DeclareQueue(queue, home=1, members=(1, 2)))
    return state


def q(state: DeclaredState) -> DeclaredQueue:
    return state.hosts["v"].queues["q"]


def test_members_come_with_ids_that_nobody_had(state: DeclaredState) -> None:
    [event] = state.apply(AddMember(*PLACE, 3)).events
    assert event == MembersChanged(q(state))
    assert q(state).members == (1, 2, member_name(2, 3))
    state.apply(RemoveMember(*PLACE, 3))
    assert (q(state).members, q(state).leaving) == ((1, 2), (member_name(2, 3),))
    state.apply(MemberLeft(*PLACE, member_name(2, 3)))
    state.apply(AddMember(*PLACE, 3))
    assert q(state).members == (1, 2, member_name(3, 3))
    assert state.next_queue_id == 4, "the id of a queue is not that of a member"


@pytest.mark.parametrize(
    ("home", "members", "home_then", "members_then"),
    [
        (1, (1, 2, 3), 1, (1, 3)),
        (2, (2, 3, 1), 3, (3, 1)),
        (2, (2,), 1, (1,)),
        (2, (), 1, ()),
        (3, (), 3, ()),
    ],
)
@pytest.mark.parametrize("durable", [True, False])
def test_a_queue_is_on_no_node_that_was_removed_before_it_was_agreed_on(
    home: int,
    members: tuple[int, ...],
    home_then: int,
    members_then: tuple[int, ...],
    durable: bool,
    state: DeclaredState,
) -> None:
    for node in (1, 2, 3):
        state.apply(NodeStarted(Life(node, 7)))
    state.apply(RemoveNode(2, "n2", "00"))
    queue = QueueDefinition("late", durable=durable, vhost="v")
    state.apply(DeclareQueue(queue, life=Life(home, 7), home=home, members=members))
    found = state.hosts["v"].queues["late"]
    assert (found.home, found.members) == (home_then, members_then)
    assert durable or found.life == Life(home_then, 7)


def test_what_makes_no_sense_is_refused(state: DeclaredState) -> None:
    state.apply(DeclareQueue(QueueDefinition("c", durable=True, vhost="v"), home=1))
    state.apply(AddMember(*PLACE, 3))
    state.apply(RemoveMember(*PLACE, 3))
    before = state.snapshot()
    for change, text in [
        (AddMember(*PLACE, 2), "queue 'q' in vhost 'v' has a member on node 2 already"),
        (AddMember(*PLACE, 3), "on node 3 is still being removed"),
        (RemoveMember(*PLACE, 3), "has no member on node 3"),
        (MoveLeader(*PLACE, 3), "has no member on node 3"),
        (AddMember("v", "c", 2, 3), "it is no quorum queue in a cluster, nor mirrored"),
        (AddMember("v", "q", 2, 3), "there is no queue 'q' in vhost 'v' any more"),
        (RemoveMember("z", "q", 1, 3), "there is no queue"),
    ]:
        with pytest.raises(Refused, match=text):
            state.apply(change)
    assert not state.apply(MemberLeft(*PLACE, 2)).events, "it was not to leave"
    assert state.snapshot() == before
    state.apply(RemoveMember(*PLACE, 1))
    with pytest.raises(Refused, match="on node 2 is the last one of queue 'q'"):
        state.apply(RemoveMember(*PLACE, 2))


def test_who_is_to_lead_first_is_a_member(state: DeclaredState) -> None:
    [event] = state.apply(MoveLeader(*PLACE, 2)).events
    assert event == LeaderMoved(q(state))
    state.apply(AddMember(*PLACE, 3))
    state.apply(RemoveMember(*PLACE, 2))
    assert q(state).home == 1


def test_one_of_a_mirrored_queue_goes_on_alone(state: DeclaredState) -> None:
    state.apply(AddMember(*PLACE, 3))
    state.apply(RemoveMember(*PLACE, 3))
    with pytest.raises(Refused, match="not mirrored by these members any more"):
        state.apply(PromoteMember(*PLACE, 2, (1,)))
    with pytest.raises(Refused, match="has no member on node 3"):
        state.apply(PromoteMember(*PLACE, 3, (1, 2)))
    [event] = state.apply(PromoteMember(*PLACE, 2, (1, 2))).events
    assert event == MembersChanged(q(state))
    assert (q(state).members, q(state).leaving, q(state).home) == ((member_name(3, 2),), (), 2)
    [change] = changes_of([as_json(PromoteMember(*PLACE, 2, (1, 2)))])
    assert change == PromoteMember(*PLACE, 2, (1, 2))


def test_all_of_it_is_kept(state: DeclaredState) -> None:
    state.apply(AddMember(*PLACE, 3))
    state.apply(RemoveMember(*PLACE, 2))
    state.apply(MemberLeft(*PLACE, 2))
    assert q(state).born == (1, 2), "a member that is born late has to begin with them"
    other = restored_from_snapshot(state.snapshot())
    assert q(other) == q(state)
    assert other.snapshot() == state.snapshot()
    assert q(restored(DurableTables(state.encode()), 9)) == q(state)
    assert DurableTables(state.encode()).encode() == state.encode()


def test_who_has_missed_a_change_hears_of_it(state: DeclaredState) -> None:
    other = restored_from_snapshot(state.snapshot())
    state.apply(AddMember(*PLACE, 3))
    [event] = replace_state(other, restored_from_snapshot(state.snapshot()))
    assert isinstance(event, MembersChanged)
    assert [*map(node_of, event.queue.members)] == [1, 2, 3]
    assert not replace_state(other, restored_from_snapshot(state.snapshot()))


def test_who_was_on_a_node_that_is_gone_is_to_go(state: DeclaredState) -> None:
    events = state.apply(RemoveNode(2, "n2", "00")).events
    assert MembersChanged(q(state)) in events
    assert (q(state).members, q(state).leaving) == ((1,), (2,))
    with pytest.raises(Refused, match="node 2 was removed from the cluster"):
        state.apply(AddMember(*PLACE, 2))
