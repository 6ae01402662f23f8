"""Goal: a new node joins a cluster that runs, and one that is lost is removed and replaced, without
anybody else being started again; nobody is let in, or counted, who should not be.

Method: whole brokers in simulated time, and one that begins as `serve --cluster-join` does.
Mistakes that would let a majority be of those who are not there are planted.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sluicemq.chain.definitions import cluster_agreement
from sluicemq.chain.definitions.cluster_agreement import ClusterAgreement
from sluicemq.chain.definitions.group_members import follow_nodes
from sluicemq.chain.definitions.member import DefinitionsMember
from sluicemq.chain.definitions.registrar import NodeRegistrar
from sluicemq.errors import SluiceError
from sluicemq.kernel.actor import Actor
from sluicemq.metadata.agreement import Agreed, NoAgreement
from sluicemq.metadata.changes import Change, DeclareQueue, RemoveNode, UpsertRecord
from sluicemq.metadata.joined_nodes import JoinedNodes
from sluicemq.metadata.proposals import Proposal, encode_proposal
from sluicemq.model.definitions import QueueDefinition
from sluicemq.model.users import User
from sluicemq.raft.raft import Raft
from support.linked_brokers import Cluster, LinkedBroker
from support.newcomer import Newcomer


class Asker(Actor):
    def __init__(self, broker: LinkedBroker) -> None:
        super().__init__(broker.node.scheduler)
        self.answers: list[SluiceError | None] = []

    def receive(self, message: object) -> None:
        assert isinstance(message, Agreed)
        self.answers.append(message.refusal)


def agreement(broker: LinkedBroker) -> ClusterAgreement:
    found = broker.node.broker.clustered
    assert found is not None
    return found


def member(broker: LinkedBroker) -> DefinitionsMember:
    found = agreement(broker).member
    assert found is not None
    return found


def agree(broker: LinkedBroker, *changes: Change) -> list[SluiceError | None]:
    """Propose these there, and return what has become of them."""
    asker = Asker(broker)
    for change in changes:
        agreement(broker).propose(change, asker)
    broker.run.until(lambda: len(asker.answers) == len(changes))
    return asker.answers


def forget(by: LinkedBroker, number: int) -> list[SluiceError | None]:
    membership = by.node.membership
    assert membership is not None
    gone = membership.cluster.roster.members[number]
    return agree(by, RemoveNode(number, gone.name, gone.home.hex()))


def voters(broker: LinkedBroker) -> list[int]:
    return [*member(broker).raft.configuration.voters]


def all_apply(*brokers: LinkedBroker) -> Callable[[], bool]:
    """Tell whether they have all applied the same, and their states are the same bytes."""

    def is_so() -> bool:
        states = {agreement(each).state.snapshot() for each in brokers}
        return len(states) == 1

    return is_so


def user(name: str) -> UpsertRecord:
    return UpsertRecord(User(name))


def queue(name: str, home: int = 0, **options: object) -> DeclareQueue:
    definition = QueueDefinition(name, durable=True, **options)  # type: ignore[arg-type]
    return DeclareQueue(definition, home=home)


def joined(run: Cluster, number: int = 4, **options: object) -> Newcomer:
    newcomer = Newcomer(run, number, **options)  # type: ignore[arg-type]
    run.brokers.append(newcomer)
    run.until(lambda: newcomer.is_open)
    return newcomer


def test_a_new_node_gets_all_that_is_declared_and_then_votes() -> None:
    run = Cluster()
    one, two, three = run.brokers
    assert agree(one, user("u"), queue("q")) == [None, None]
    four = joined(run)
    assert four.number_there == 4
    assert four.has("q")
    run.until(lambda: voters(four) == [1, 2, 3, 4] == voters(one))
    run.until(all_apply(*run.brokers))
    assert agree(four, queue("of four")) == [None]
    assert all(each.has("of four") for each in run.brokers)
    run.until(lambda: all(each.is_up(4) for each in (one, two, three)))
    four.crash(power=True)
    four.start()
    run.until(lambda: four.is_open)
    assert [*four.node.broker.vhosts["/"].queues] == ["q", "of four"]
    for each in (one, two):
        each.crash(power=True)
        each.start()
    run.until(lambda: all(each.node.is_open for each in run.brokers))
    run.until(lambda: one.is_up(4) and four.is_up(2))
    run.until(all_apply(*run.brokers))
    run.no_faults()


def test_five_lose_two_and_a_sixth_takes_the_place_of_one() -> None:
    """The majority is that of who belongs to it, whoever founded it."""
    run = Cluster()
    four, five = joined(run), joined(run, 5, asks=4)
    run.until(lambda: voters(five) == [1, 2, 3, 4, 5])
    one, two, three = run.brokers[:3]
    one.crash(power=True)
    two.crash(power=True)
    assert agree(four, user("u")) == [None]
    run.until(lambda: not five.is_up(1))
    assert forget(five, 1) == [None]
    run.until(lambda: voters(three) == [2, 3, 4, 5])
    six = joined(run, 6, asks=3)
    assert six.number_there == 6
    run.until(lambda: voters(six) == [2, 3, 4, 5, 6])
    two.start()
    run.until(lambda: two.node.is_open and two.is_up(6))
    run.until(all_apply(two, three, four, five, six))
    run.no_faults()


def test_who_was_removed_hears_it_and_comes_back_as_a_new_node() -> None:
    run = Cluster()
    one, two, three = run.brokers
    assert agree(three, queue("lost"), queue("kept", home=1)) == [None, None]
    before = three.files
    three.crash(power=True)
    run.until(lambda: not one.is_up(3))
    assert forget(two, 3) == [None]
    run.until(lambda: voters(one) == [1, 2])
    assert not one.has("lost")
    assert one.has("kept")
    three.start()
    run.until(lambda: "was removed from the cluster" in three.said_goodbye)
    three.crash()
    wiped = joined(run, 3)
    assert wiped.number_there == 4, "a number that was given before"
    run.until(lambda: voters(one) == [1, 2, 4])
    assert agree(wiped, queue("lost")) == [None]
    run.until(all_apply(one, two, wiped))
    wiped.crash()
    wiped.files = before
    wiped.start()
    run.until(lambda: "was removed from the cluster" in wiped.said_goodbye)
    run.no_faults()


def test_who_is_cut_off_while_it_is_removed_ends_when_it_is_back() -> None:
    run = Cluster()
    one, _, three = run.brokers
    ways = [("h3", each) for each in ("h1", "h2")] + [(each, "h3") for each in ("h1", "h2")]
    run.network.cut(dict.fromkeys(ways))
    run.until(lambda: not one.is_up(3))
    assert forget(one, 3) == [None]
    run.network.cut({})
    run.until(lambda: "was removed from the cluster" in three.said_goodbye)
    assert agree(one, user("u")) == [None]
    run.no_faults()


def test_who_cannot_join_hears_why() -> None:
    run = Cluster()
    one = run.brokers[0]
    taken = Newcomer(run, 4, name="n2")
    run.until(lambda: "the name 'n2' is that of node 2" in taken.refusal)
    stranger = Newcomer(run, 5, secret=b"another secret of some length")
    run.until(lambda: any("shared secret" in line for line in stranger.log.lines))
    assert not stranger.refusal, "it may be told the right one"
    for each in run.brokers[1:3]:
        each.crash()
    run.until(lambda: not (one.is_up(2) or one.is_up(3)))
    early = Newcomer(run, 6)
    run.until(lambda: any("a majority of the 3 nodes" in line for line in early.log.lines))
    for each in run.brokers[1:3]:
        each.start()
    run.until(lambda: early.is_open)
    assert early.number_there == 4
    run.no_faults()


def test_who_dies_while_it_joins_is_the_same_when_it_comes_again() -> None:
    run = Cluster()
    one = run.brokers[0]
    for passed_ms in range(10, 400, 30):
        four = Newcomer(run, 4)
        run.rest(passed_ms)
        four.crash(power=True)
        four.start()
        run.until(lambda four=four: four.is_open)  # type: ignore[misc]
        numbers = [*agreement(one).state.nodes.added]
        assert numbers == [four.number_there], "two rows of one node"
        four.crash(power=True)
        run.until(lambda: not one.is_up(four.number_there))  # noqa: B023
        assert forget(one, four.number_there) == [None]
    run.no_faults()


@pytest.mark.parametrize("is_planted", [False, True], ids=["", "planted: nobody is asked"])
def test_who_was_down_while_another_joined_that_leads_now_finds_it(
    is_planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has links to a majority, and has to connect to one that it does not know."""
    if is_planted:
        monkeypatch.setattr(ClusterAgreement, "is_led", True)
    run = Cluster()
    one, two, three = run.brokers
    three.crash()
    run.until(lambda: not one.is_up(3))
    four = joined(run)
    run.until(lambda: voters(four) == [1, 2, 3, 4])
    leader = next(each for each in (one, two, four) if member(each).raft.is_leader)
    if leader is not four:
        member(leader).raft.transfer(4)
        agreement(leader).schedule()
    run.until(lambda: member(four).raft.is_leader)
    three.start()
    run.rest(15_000)
    assert three.node.is_open is not is_planted
    assert three.is_up(4) is not is_planted
    run.no_faults()


def eager(raft: Raft, nodes: JoinedNodes, _: object) -> None:
    """Lets a node vote as soon as it is known, though it was never heard."""
    if raft.leading is not None:
        for name in raft.configuration.learners:
            progress = raft.leading.progress[name]
            progress.match = max(progress.match, 1)
    follow_nodes(raft, nodes, dict.fromkeys(nodes.added, 1))


@pytest.mark.parametrize("is_planted", [False, True], ids=["", "planted: votes at once"])
def test_a_node_that_never_comes_counts_for_no_majority(
    is_planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was let in, and died before it was told."""
    if is_planted:
        monkeypatch.setattr(cluster_agreement, "follow_nodes", eager)
    run = Cluster()
    one, two, three = run.brokers
    monkeypatch.setattr(NodeRegistrar, "_done", lambda *_: None)
    four = Newcomer(run, 4)
    run.until(lambda: bool(agreement(one).state.nodes.added))
    four.crash()
    run.rest(2000)
    assert (4 in voters(one)) is is_planted
    three.crash()
    run.until(lambda: not one.is_up(3))
    answers = agree(two, user("u"))
    assert isinstance(answers[0], NoAgreement) is is_planted


@pytest.mark.parametrize("is_planted", [False, True], ids=["", "planted: counts"])
def test_what_a_removed_node_has_proposed_does_not_count(
    is_planted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was cut off with a proposal that the leader had, and is removed before that is decided."""
    if is_planted:
        monkeypatch.setattr(JoinedNodes, "is_gone", lambda *_: False)
    run = Cluster()
    one, two, three = run.brokers
    life = three.node.life
    assert life is not None
    run.until(lambda: all(agreement(each).is_idle for each in run.brokers))
    run.until(all_apply(*run.brokers))
    number = agreement(one).state.proposed[3] + 1
    late = encode_proposal(Proposal(life, number, user("of three")))
    three.crash()
    run.until(lambda: not one.is_up(3))
    assert forget(two, 3) == [None]
    leader = next(each for each in (one, two) if member(each).leader_node == each.number)
    agreement(leader)._gather(late)
    assert agree(one, user("after")) == [None]
    run.until(all_apply(one, two))
    assert ("of three" in agreement(one).state.users) is is_planted
