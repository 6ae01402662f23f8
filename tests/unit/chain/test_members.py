"""Goal: members of a quorum queue come and go as it is declared, and clients on all nodes go on:
nothing confirmed is lost, nothing is left unanswered, and a removed member leaves nothing behind.

Method: whole brokers that are linked over the pipes of the simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from sluicemq.amqp import methods as m
from sluicemq.amqp.frames import content_body
from sluicemq.amqp.types import Table
from sluicemq.broker.vhost import VirtualHost
from sluicemq.chain.definitions import member as definitions_member
from sluicemq.chain.queue.quorum.member_shell import MemberShell
from sluicemq.chain.queue.quorum.shared_replicator import SharedReplicator
from sluicemq.chain.queue.quorum.shared_shell import SharedShell
from sluicemq.chain.remote.queue_post import HomeLost, HomeReached
from sluicemq.chain.remote.remote_queue import RemoteQueue
from sluicemq.kernel.address import node_of, number_of
from sluicemq.metadata.changes import (
    AddMember,
    Change,
    DeclareExchange,
    MoveLeader,
    RemoveMember,
)
from sluicemq.metadata.events import DeclaredQueue
from sluicemq.model.definitions import ExchangeDefinition
from support.linked_brokers import Cluster, LinkedBroker


def numbered(start: int, end: int) -> list[bytes]:
    return [b"%d" % n for n in range(start, end)]


class Grouped(Cluster):
    """A cluster in which the queue `q` has so many members at first, the first on node 1."""

    def __init__(self, members: int, size: int = 3, seed: int = 7) -> None:
        super().__init__(size, seed)
        self.declare(x_quorum_initial_group_size=members)
        self.rest(50)

    def declared(self, node: int = 1) -> DeclaredQueue:
        return self.brokers[node - 1].node.broker.definitions.hosts["/"].queues["q"]

    def change(self, kind: type[AddMember | RemoveMember | MoveLeader], node: int) -> None:
        """Have the members changed by node 1."""
        self.propose(kind("/", "q", self.declared().id, node))

    def propose(self, change: Change) -> None:
        self.brokers[0].node.broker.agreement.propose(change)

    def nodes(self) -> list[int]:
        """The nodes on which channels use a member, as far as all agree that it is one."""
        found = []
        for broker in self.running:
            queue = broker.node.broker.vhosts["/"].queues["q"]
            if isinstance(queue, SharedShell):
                found.append(broker.number)
        return found

    def has_members(self, *nodes: int) -> bool:
        """Whether exactly these nodes have members, and nothing else is under way."""
        if self.nodes() != [*nodes]:
            return False
        shells = [self.brokers[node - 1].shell() for node in nodes]
        declared = self.declared(nodes[0])
        return not declared.leaving and all(
            sorted(map(node_of, shell.raft.configuration.voters)) == [*nodes]
            and not shell.raft.configuration.learners
            for shell in shells
        )

    def files_of(self, broker: LinkedBroker) -> bool:
        """Whether a node has something of the queue's log."""
        return self.declared().id in broker.node.broker.store.raft.table.groups

    def leading(self) -> list[LinkedBroker]:
        """The broker whose member leads; none if none does."""
        found = [self.brokers[node - 1] for node in self.nodes()]
        return [each for each in found if each.shell().raft.takes_proposals]


def test_a_node_without_a_member_uses_the_queue_as_if_it_had_one() -> None:
    run = Grouped(1)
    there = run.brokers[2].connect()
    assert isinstance(run.brokers[2].node.broker.vhosts["/"].queues["q"], RemoteQueue)
    there.publish(*numbered(0, 30))
    run.until(there.all_confirmed)
    assert not there.nacked
    assert there.depth() == 30
    there.send(2, m.BasicGet(queue="q"))
    run.until(lambda: there.poll() or there.got)
    assert content_body(there.got[0].content) == b"0"
    there.ack(1)
    there.consume()
    run.until(lambda: there.bodies == numbered(1, 30))
    there.ack(30, multiple=True)
    run.until(lambda: run.brokers[0].shell().fifo.messages.out == 0)
    there.publish(b"more")
    purged = there.call(1, m.QueuePurge(queue="q"), m.QueuePurgeOk)
    assert isinstance(purged, m.QueuePurgeOk)
    there.call(1, m.QueueDelete(queue="q"), m.QueueDeleteOk)
    run.until(lambda: not any(each.has("q") for each in run.brokers))
    run.no_faults()


def test_a_node_without_a_member_goes_on_by_another_one_when_one_dies() -> None:
    run = Grouped(3, size=4)
    [outside] = {1, 2, 3, 4}.difference(run.nodes())
    client = run.brokers[outside - 1].connect()
    stand_in = client.broker.node.broker.vhosts["/"].queues["q"]
    assert isinstance(stand_in, RemoteQueue)
    client.publish(*numbered(0, 10))
    run.until(client.all_confirmed)
    client.consume()
    run.until(lambda: client.bodies == numbered(0, 10))
    served_by = stand_in.home
    client.publish(*numbered(10, 20))
    run.brokers[served_by - 1].crash()
    run.until(lambda: client.poll() or len(client.confirmed | client.nacked) == 20)
    run.until(lambda: client.poll() or any(isinstance(x, m.BasicCancel) for x in client.methods))
    assert stand_in.home != served_by
    client.publish(b"more")
    run.until(lambda: client.poll() or 21 in client.confirmed)
    client.consume(tag="again")
    confirmed = {b"%d" % (tag - 1) for tag in client.confirmed if tag < 21} | {b"more"}
    run.until(lambda: confirmed <= {*client.bodies})
    seen = [body for _, body, redelivered in client.delivered if not redelivered]
    assert len(seen) == len({*seen}), "only what comes again is flagged"
    run.no_faults()


def test_who_publishes_while_a_link_is_lost_hears_of_each_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Grouped(1)
    client = run.brokers[1].connect()
    client.publish(b"0")
    run.until(client.all_confirmed)
    stand_in = run.brokers[1].node.broker.vhosts["/"].queues["q"]
    assert isinstance(stand_in, RemoteQueue)
    reach, topology = stand_in.reach, stand_in.vhost.topology  # type: ignore[attr-defined]
    monkeypatch.setattr(type(topology), "has_changed", lambda _: None)  # it was looked up since
    stand_in.post(HomeLost(1))
    stand_in.post(HomeReached(1, reach))
    client.publish(b"1")
    run.until(lambda: client.poll() or len(client.confirmed | client.nacked) == 2)
    client.publish(b"2")
    run.until(lambda: client.poll() or 3 in client.confirmed)
    run.no_faults()


def test_members_come_while_clients_go_on_in_order_and_hear_of_nothing() -> None:
    run = Grouped(1)
    publishers = [broker.connect() for broker in run.brokers]
    consumer = run.brokers[1].connect()
    consumer.consume()
    nodes = iter((2, 3))
    for n in range(0, 200, 10):
        for publisher in publishers:
            number = publisher.broker.number
            publisher.publish(*(b"%d of %d" % (k, number) for k in range(n, n + 10)))
        run.rest(20)
        if n in {40, 120}:
            run.change(AddMember, next(nodes))
    run.until(lambda: all(each.all_confirmed() for each in publishers))
    run.until(lambda: run.has_members(1, 2, 3))
    run.until(lambda: len(consumer.bodies) == 600)
    for number in (1, 2, 3):
        mine = [each for each in consumer.bodies if each.endswith(b" of %d" % number)]
        assert mine == [b"%d of %d" % (k, number) for k in range(200)]
    assert not any(each.nacked for each in publishers)
    assert not any(redelivered for _, _, redelivered in consumer.delivered)
    consumer.ack(600, multiple=True)
    run.until(lambda: consumer.depth() == 0)
    run.until(
        lambda: len({broker.shell().fifo.digest() for broker in run.brokers}) == 1,
    )
    assert [number_of(each) > 0 for each in run.declared().members] == [False, True, True]
    run.no_faults()


@pytest.mark.parametrize("node", [1, 2])
def test_a_member_goes_and_its_nodes_clients_go_on_by_another(node: int) -> None:
    a_member_goes(node)


def a_member_goes(node: int) -> None:
    run = Grouped(3)
    run.until(run.leading)
    publishers = [broker.connect() for broker in run.brokers]
    consumer = run.brokers[node - 1].connect()
    consumer.consume()
    for n in range(0, 200, 10):
        for publisher in publishers:
            number = publisher.broker.number
            publisher.publish(*(b"%d of %d" % (k, number) for k in range(n, n + 10)))
        run.rest(20)
        if n == 60:
            run.change(RemoveMember, node)
    left = [each for each in (1, 2, 3) if each != node]
    run.until(lambda: run.has_members(*left))

    def all_answered() -> bool:
        for each in publishers:
            each.poll()
        return all(len(each.confirmed | each.nacked) == each.published for each in publishers)

    run.until(all_answered)
    assert not any(each.nacked for each in publishers if each.broker.number != node)
    run.until(lambda: not run.files_of(run.brokers[node - 1]))
    run.until(
        lambda: consumer.poll() or any(isinstance(x, m.BasicCancel) for x in consumer.methods)
    )
    consumer.lose()
    other = run.brokers[node - 1].connect()
    other.consume()
    confirmed = {
        b"%d of %d" % (tag - 1, each.broker.number) for each in publishers for tag in each.confirmed
    }
    run.until(lambda: confirmed <= {*other.bodies, *consumer.bodies})
    seen = {body for _, body, _ in consumer.delivered}
    assert all(redelivered for _, body, redelivered in other.delivered if body in seen)
    run.no_faults()


def test_a_member_that_comes_after_another_one_of_its_node_knows_who_leads() -> None:
    run = Grouped(3)
    run.until(lambda: run.leading() and run.leading()[0].number == 1)
    run.brokers[2].crash()
    run.change(RemoveMember, 3)
    run.until(lambda: run.has_members(1, 2))
    run.change(AddMember, 3)
    run.rest(500)
    run.brokers[2].start()
    run.until(lambda: run.has_members(1, 2, 3) and run.brokers[2].shell().raft.member.name > 3)
    client = run.brokers[2].connect()
    client.publish(*numbered(0, 20))
    run.until(client.all_confirmed)
    assert not client.nacked
    run.no_faults()


def test_the_leader_of_two_members_goes() -> None:
    the_leader_of_two_goes()


def the_leader_of_two_goes() -> None:
    run = Grouped(2)
    run.until(run.leading)
    [other] = {*run.nodes()}.difference({run.leading()[0].number})
    client = run.brokers[2].connect()
    client.publish(*numbered(0, 20))
    run.until(client.all_confirmed)
    run.change(RemoveMember, run.leading()[0].number)
    run.until(lambda: run.has_members(other))
    run.rest(100)
    assert run.brokers[0].connect().depth() == 20
    run.no_faults()


def test_a_node_that_has_had_a_member_gets_another_one_under_another_id() -> None:
    run = Grouped(3)
    publisher = run.brokers[2].connect()
    publisher.publish(*numbered(0, 50))
    run.until(publisher.all_confirmed)
    run.change(RemoveMember, 3)
    run.until(lambda: run.has_members(1, 2))
    run.change(AddMember, 3)
    run.until(lambda: run.has_members(1, 2, 3))
    [*_, last] = run.declared().members
    assert (node_of(last), number_of(last) > 0) == (3, True)
    run.until(lambda: len({broker.shell().fifo.digest() for broker in run.brokers}) == 1)
    assert run.brokers[2].connect().depth() == 50
    run.no_faults()


def test_a_member_that_goes_before_it_came_can_never_be_added() -> None:
    run = Grouped(2)
    [added] = {1, 2, 3}.difference(run.nodes())
    run.change(AddMember, added)
    run.change(RemoveMember, added)
    run.until(lambda: run.declared().leaving)
    [name] = run.declared().leaving
    run.until(lambda: not run.declared().leaving)
    [leader] = run.leading()
    configuration = leader.shell().raft.configuration
    assert configuration.removed_max == name
    assert added not in map(node_of, configuration.members)
    run.change(AddMember, added)
    run.until(lambda: run.has_members(1, 2, 3))
    run.no_faults()


def test_a_member_that_was_added_goes_on_learning_after_a_restart() -> None:
    run = Grouped(2)
    [added] = {1, 2, 3}.difference(run.nodes())
    broker = run.brokers[added - 1]
    publisher = run.brokers[0].connect()
    publisher.publish(*numbered(0, 300))
    run.until(publisher.all_confirmed)
    run.change(AddMember, added)
    run.until(lambda: run.declared(added).members[2:])
    run.rest(30)
    broker.crash(power=True)
    run.rest(500)
    broker.start()
    run.until(lambda: broker.node.is_open)
    run.until(lambda: run.has_members(1, 2, 3))
    assert broker.connect().depth() == 300
    run.no_faults()


def test_a_node_that_was_away_begins_with_those_that_the_queue_was_declared_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not with those that are left when it comes back: the group counts a majority of the former,
    until it has agreed on others. The node gets a snapshot of the definitions, without what was
    between."""
    monkeypatch.setattr(definitions_member, "DEFINITIONS_SNAPSHOT_ENTRIES", 10)
    run = Cluster()
    run.rest(50)
    run.brokers[2].crash()
    run.declare(x_quorum_initial_group_size=3)
    client = run.brokers[0].connect()
    client.publish(*numbered(0, 20))
    run.until(client.all_confirmed)
    definitions = run.brokers[0].node.broker.definitions
    declared = definitions.hosts["/"].queues["q"]
    run.brokers[0].node.broker.agreement.propose(RemoveMember("/", "q", declared.id, 2))
    exchanges = definitions.hosts["/"].topology.exchanges
    for number in range(30):
        exchange = ExchangeDefinition(f"x{number}", "fanout", durable=True)
        run.brokers[0].node.broker.agreement.propose(DeclareExchange(exchange))
        run.until(partial(exchanges.__contains__, exchange.name))
    assert declared.leaving == (2,), "there is no majority without the node that is away"
    run.brokers[2].start()
    run.until(lambda: run.brokers[2].has("q"))
    late = run.brokers[2].shell()
    assert late.raft.member.log.snapshot.configuration.voters == (1, 2, 3)
    run.until(lambda: declared.leaving == () and late.raft.configuration.voters == (1, 3))
    assert client.depth() == 20
    run.no_faults()


def test_a_dead_node_s_member_goes_and_what_its_channels_held_comes_back() -> None:
    run = Grouped(3)
    publisher, consumer = run.brokers[0].connect(), run.brokers[2].connect()
    consumer.consume()
    publisher.publish(*numbered(0, 20))
    run.until(lambda: len(consumer.bodies) == 20)
    run.brokers[2].crash()
    run.change(RemoveMember, 3)
    run.until(lambda: run.has_members(1, 2))
    run.until(lambda: publisher.depth() == 20)
    run.brokers[2].start()
    run.until(lambda: run.brokers[2].node.is_open)
    again = run.brokers[2].connect()
    again.consume()
    run.until(lambda: again.bodies == numbered(0, 20))
    assert all(redelivered for _, _, redelivered in again.delivered)
    run.until(lambda: not run.files_of(run.brokers[2]))
    run.no_faults()


@pytest.mark.parametrize("is_in_the_log", [False, True])
def test_what_a_node_asks_as_its_member_goes_keeps_nothing_from_others(
    is_in_the_log: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Grouped(3)
    run.until(lambda: [each.number for each in run.leading()] == [1])
    publisher, leader = run.brokers[0].connect(), run.brokers[0].shell()
    publisher.publish(*numbered(0, 20))
    run.until(publisher.all_confirmed)
    held, would_wait = [True], SharedReplicator.would_wait
    monkeypatch.setattr(
        SharedReplicator, "would_wait", lambda its, size: bool(held) or would_wait(its, size)
    )
    run.brokers[2].connect().send(2, m.BasicConsume(queue="q"))
    run.rest(50)
    run.change(RemoveMember, 3)
    if is_in_the_log:
        run.until(lambda: 3 not in leader.raft.configuration.members and leader.raft.is_settled)
        run.network.cut(dict.fromkeys([("h1", "h2"), ("h2", "h1")]))
        held.clear()
        run.until(lambda: not run.declared().leaving)
        run.rest(20)
        assert leader.raft.applied < leader.raft.member.log.last_index
        run.network.cut({})
    else:
        run.until(lambda: run.has_members(1, 2))
        run.rest(50)
        held.clear()
    run.until(lambda: publisher.depth() == 20)
    run.no_faults()


def test_dead_letters_under_way_as_a_member_goes_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Grouped(3)
    run.until(lambda: [each.number for each in run.leading()] == [1])
    held, would_wait = [True], SharedReplicator.would_wait
    monkeypatch.setattr(
        SharedReplicator, "would_wait", lambda its, size: bool(held) or would_wait(its, size)
    )
    there = run.brokers[2].connect()
    dying: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    declare = m.QueueDeclare(queue="dying", durable=True, arguments={**dying, "x-message-ttl": 1})
    there.call(1, declare, m.QueueDeclareOk)
    there.publish(*numbered(0, 20), queue="dying")
    run.until(there.all_confirmed)
    run.rest(50)
    run.change(RemoveMember, 3)
    run.until(lambda: run.has_members(1, 2))
    held.clear()
    run.until(lambda: there.depth() == 20)
    assert there.depth("dying") == 0
    run.no_faults()


def test_the_leader_that_is_asked_for_leads() -> None:
    run = Grouped(3)
    publisher = run.brokers[2].connect()
    for node in (2, 3, 1):
        publisher.publish(*numbered(0, 10))
        run.change(MoveLeader, node)
        run.until(lambda node=node: [each.number for each in run.leading()] == [node])
    run.until(publisher.all_confirmed)
    assert not publisher.nacked
    run.no_faults()


def keeps_messages_of_who_has_left(patch: pytest.MonkeyPatch) -> None:
    """What channels of a node without a member have left stays with them."""
    patch.setattr(MemberShell, "look_at_changes", lambda shell: shell.changes.look())


def is_forgotten_at_once(patch: pytest.MonkeyPatch) -> None:
    """A member forgets the queue as soon as it is not wanted any more."""

    def member_of(vhost: VirtualHost, declared: DeclaredQueue) -> int:
        own = vhost.services.life.node
        return max((name for name in declared.members if node_of(name) == own), default=0)

    patch.setattr(VirtualHost, "member_of", member_of)


@pytest.mark.parametrize(
    ("plant", "scenario"),
    [
        (keeps_messages_of_who_has_left, lambda: a_member_goes(2)),
        (is_forgotten_at_once, the_leader_of_two_goes),
    ],
)
def test_planted_bugs_are_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    scenario: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        scenario()
