"""Goal: two nodes that share a secret find each other, say what they send once and in order, and
part in order; everybody else is refused with a sentence and costs little.

Method: whole clusters over the pipes of the simulation, without faults but those of each test.
"""

from __future__ import annotations

import re

import pytest

from sluicemq.cluster import cluster_port as c
from sluicemq.cluster.bounds import LinkBounds
from sluicemq.cluster.node_file import MetMember, begin_life
from sluicemq.flow.gate import GateKeeper
from sluicemq.kernel.address import ActorAddress
from sluicemq.kernel.socket_messages import Closed, Connected, Received
from sluicemq.limits import LINK_HALF_OPEN_ADDRESS_MAX
from sluicemq.sim.cluster.net import PipeNet
from support.linked import PORT, Inbox, Machine, Run


def test_each_hears_of_the_other_and_what_it_says() -> None:
    run = Run()
    one, two = run.pair()
    assert one.cluster.nodes == (1, 2, 3)
    large = bytes(range(256)) * 2500
    for number in range(20):
        assert one.cluster.send(2, c.RAFT_DATA, b"%d" % number)
    assert one.cluster.send(2, c.RAFT_DATA, large, 9, ActorAddress(2, 1, 5), 3)
    assert one.cluster.grant(ActorAddress(2, 1, 4), 2)
    assert one.cluster.grant(ActorAddress(2, 1, 4), 5)
    run.until(lambda: len(two.inbox.payloads) == 21 and two.inbox.of(c.PeerGrant))
    assert two.inbox.payloads == [*(b"%d" % number for number in range(20)), large]
    (message,) = [
        each
        for each in two.inbox.kept
        if isinstance(each, c.PeerMessage) and each.payload is two.inbox.payloads[-1]
    ]
    assert (message.source, message.target, message.flags) == ((1, 1, 9), (2, 1, 5), 3)
    assert two.inbox.of(c.PeerGrant) == [c.PeerGrant(1, ActorAddress(2, 1, 4), 7)]
    assert two.inbox.kept[0] == c.NodeUp(1, 1, "n1")
    assert two.cluster.incarnation_of(1) == 1
    run.until(lambda: one.cluster.contact_ns(2) and two.cluster.contact_ns(1))


def test_nothing_is_sent_to_who_is_not_up_or_to_another_life() -> None:
    run = Run()
    one, two = run.pair()
    assert not one.cluster.send(3, c.RAFT_DATA, b"")
    assert not one.cluster.send(7, c.RAFT_DATA, b"")
    assert not one.cluster.send(2, c.RAFT_DATA, b"", 0, ActorAddress(2, 2, 1))
    assert not one.cluster.grant(ActorAddress(2, 3, 1), 1)
    run.rest(500)
    assert two.inbox.payloads == []


def test_who_follows_later_hears_who_is_up() -> None:
    run = Run()
    one, _ = run.pair()
    late = Inbox(one.scheduler)
    one.cluster.follow(late)
    run.rest(10)
    assert late.kept == [c.NodeUp(2, 1, "n2")]
    one.cluster.unfollow(late)
    one.cluster.leave("enough")
    run.rest(10)
    assert len(late.kept) == 1


@pytest.mark.parametrize("leaver", [1, 2])
def test_what_was_sent_before_a_goodbye_arrives(leaver: int) -> None:
    run = Run()
    pair = run.pair()
    leaves, stays = pair if leaver == 1 else pair[::-1]
    other = stays.cluster.node
    for number in range(300):
        leaves.cluster.send(other, c.RAFT_DATA, b"%d" % number * 100)
        leaves.cluster.send(other, c.RAFT_CONTROL, b"%d" % number)
    leaves.cluster.leave("it is late")
    assert leaves.cluster.standing(other) is c.NodeStanding.DOWN
    run.until(lambda: stays.inbox.of(c.NodeDown))
    assert len(stays.inbox.payloads) == 600
    reason = 'it said goodbye: "it is late"'
    assert stays.inbox.kept[-1] == c.NodeDown(leaver, 1, reason)
    run.until(lambda: leaves.cluster.is_left)
    run.rest(3000)
    assert not stays.cluster.connections or leaver == 2
    assert not leaves.faults and not stays.faults


def test_a_link_that_is_lost_comes_again() -> None:
    run = Run()
    one, two = run.pair()
    end = next(iter(two.net.ends.values()))
    run.network.tear(end)
    run.until(lambda: one.inbox.of(c.NodeDown) and two.inbox.of(c.NodeDown))
    run.until(lambda: len(one.inbox.of(c.NodeUp)) == len(two.inbox.of(c.NodeUp)) == 2)


def refused(run: Run, one: Machine, two: Machine, words: str) -> None:
    """Both logs say so, and none is up."""
    run.until(lambda: one.said(words) and two.said(words))
    run.rest(3000)
    assert not one.inbox.of(c.NodeUp) and not two.inbox.of(c.NodeUp)
    assert len(two.log.lines) < 20


def test_another_secret() -> None:
    run = Run()
    one, two = run.machine(1, secret=b"another secret of some length"), run.machine(2)
    refused(run, one, two, "it does not know the shared secret of this cluster")


def test_another_cluster() -> None:
    run = Run()
    one, two = run.machine(1, cluster="another"), run.machine(2)
    refused(run, one, two, "it belongs to the cluster 'another', and this is 'test'")


def test_two_nodes_of_one_name() -> None:
    run = Run()
    one, two = run.machine(1, name="n2"), run.machine(2)
    refused(run, one, two, "two nodes have one name or number")


def test_the_list_leads_to_another_node() -> None:
    run = Run()
    one, two = run.machine(1), run.machine(3, host="h2")
    words = "it looks for node 2, and this is node 3 (n3) in life 1: the lists of nodes differ"
    refused(run, one, two, words)


def test_no_member() -> None:
    run = Run()
    one, two = run.machine(1), run.machine(2)
    run.until(lambda: one.up(2))
    stranger = run.machine(3, host="h9")
    del stranger.cluster.peers[1], stranger.cluster.peers[2]
    one.cluster.roster.members.pop(3)
    run.rest(1000)
    assert not stranger.inbox.kept
    assert two.up(1)


def test_a_wiped_member_that_returns() -> None:
    run = Run()
    one, two = run.pair()
    two.net.crash()
    two.is_frozen = True
    run.until(lambda: not one.up(2))
    again = run.machine(2, home=b"new".ljust(16), start=b"again".ljust(16))
    words = "A member that has lost its data is a new node, and no two nodes may have one name"
    run.until(lambda: one.said(words) and again.said(words))
    assert not again.inbox.of(c.NodeUp)


def test_a_member_in_an_earlier_life() -> None:
    run = Run()
    one, two = run.machine(1), run.machine(2, incarnation=5)
    run.until(lambda: one.up(2))
    two.net.crash()
    two.is_frozen = True
    run.until(lambda: not one.up(2))
    again = run.machine(2, incarnation=4, start=b"again".ljust(16))
    words = "was in life 5 before: its data directory is an older copy"
    run.until(lambda: one.said(words) and again.said(words))


def test_two_processes_with_one_data_directory() -> None:
    run = Run()
    one, two = run.pair()
    two.net.crash()
    two.is_frozen = True
    run.until(lambda: not one.up(2))
    again = run.machine(2, start=b"again".ljust(16))
    words = "so was another process: two have one data directory"
    run.until(lambda: one.said(words) and again.said(words))


def test_a_newer_life_replaces_the_older_at_once() -> None:
    """A machine that has lost its power cannot close its sockets."""
    run = Run()
    one, two = run.pair()
    run.network.cut({("h1", "h2"): None})
    one.net.crash()
    one.is_frozen = True
    run.network.cut({})
    newer = run.machine(1, incarnation=2, start=b"again".ljust(16))
    run.until(lambda: newer.up(2))
    run.until(lambda: two.cluster.incarnation_of(1) == 2 and two.up(1))
    ups = [each for each in two.inbox.kept if isinstance(each, c.NodeUp | c.NodeDown)]
    assert [type(each) for each in ups] == [c.NodeUp, c.NodeDown, c.NodeUp]
    assert [each.incarnation for each in ups] == [1, 1, 2]


def test_a_newer_life_of_which_only_the_founder_has_told_is_let_in() -> None:
    """A node is cut off and starts again, and the other one joins a cluster with its next life
    while the link to the last one is still there."""
    run = Run()
    one, two = run.machine(1, cluster=""), run.machine(2, cluster="")
    run.until(lambda: one.up(2) and two.up(1))
    run.network.cut({("h1", "h2"): None, ("h2", "h1"): None})
    one.net.crash()
    one.is_frozen = True
    book = two.cluster.book = begin_life(two.world, "", "n2", 2)
    home = one.cluster.roster.own.home
    members = [MetMember(1, "n1", home.hex(), 2)]
    book.join("test", ["h1:1", "h2:2"], members, two.inbox)
    two.cluster.join("test")
    assert not two.up(1)
    run.network.cut({})
    newer = run.machine(1, cluster="test", incarnation=2, start=b"again".ljust(16))
    run.until(lambda: newer.up(2) and two.up(1), limit_ms=5000)
    newer.net.crash()
    newer.is_frozen = True
    run.until(lambda: not two.up(1))
    other = run.machine(1, cluster="test", incarnation=2, start=b"another".ljust(16))
    run.until(lambda: other.said("so was another process"))


class Stranger:
    """Somebody who connects and is his own writer."""

    def __init__(self, run: Run, host: str = "h9") -> None:
        self.net = PipeNet(run.network, host)
        self.writer = self
        self.posted: list[object] = []
        self.number = self.net.connect(self, "h2", PORT)  # type: ignore[arg-type]

    def post(self, message: object) -> None:
        self.posted.append(message)

    def has(self, kind: type) -> bool:
        return any(isinstance(each, kind) for each in self.posted)

    @property
    def data(self) -> bytes:
        return b"".join(each.data for each in self.posted if isinstance(each, Received))


def test_strangers_have_few_places_and_little_time() -> None:
    run = Run()
    two = run.machine(2)
    strangers = [Stranger(run) for _ in range(LINK_HALF_OPEN_ADDRESS_MAX + 5)]
    run.until(lambda: sum(each.has(Closed) for each in strangers) == 5)
    assert two.cluster.strangers.count == LINK_HALF_OPEN_ADDRESS_MAX
    one = run.machine(1)
    run.until(lambda: one.up(2) and two.up(1))
    run.until(lambda: all(each.has(Closed) for each in strangers), 20_000)
    run.until(lambda: two.cluster.strangers.count == 0)
    assert not two.cluster.strangers.by_address
    late = [each for each in strangers if each.has(Connected)]
    assert all(b"it has not said in time who it is" in each.data for each in late)
    assert sum("refused a connection" in line for line in two.log.lines) == 10


def test_a_client_of_amqp_is_told_so_at_once() -> None:
    run = Run()
    run.machine(2)
    stranger = Stranger(run)
    run.until(lambda: stranger.has(Connected))
    stranger.net.write(stranger.number, b"AMQP\0\0\x09\x01" + bytes(100_000))
    run.until(lambda: stranger.has(Closed))
    assert b"what it sent is not how a node of a cluster begins" in stranger.data
    assert len(stranger.data) < 200


def test_a_gate_shuts_when_too_much_waits_and_opens_again() -> None:
    bounds = LinkBounds(gate_shut_bytes=50_000, gate_open_bytes=10_000, write_bytes=5000)
    run = Run(bounds)
    one, two = run.pair()
    gate = one.cluster.feed(2, GateKeeper(one.world.clock))
    two.is_frozen = True
    sent = 0
    while not gate.is_shut:
        one.cluster.send(2, c.RAFT_DATA, bytes(5000))
        sent += 1
        assert sent < 100
    late = one.cluster.feed(2, GateKeeper(one.world.clock))
    assert late.is_shut
    run.rest(500)
    assert gate.is_shut
    two.is_frozen = False
    two.wake()
    run.until(lambda: not gate.is_shut and not late.is_shut)
    run.until(lambda: len(two.inbox.payloads) == sent)
    one.cluster.feed_no_more(2, gate)
    assert gate not in one.cluster.peers[2].gates


def test_one_large_message_is_not_too_much() -> None:
    run = Run(LinkBounds(queue_bytes=50_000))
    one, two = run.pair()
    assert one.cluster.send(2, c.RAFT_DATA, bytes(500_000))
    assert all(one.cluster.send(2, c.RAFT_DATA, bytes(1000)) for _ in range(30))
    run.until(lambda: len(two.inbox.payloads) == 31)
    assert one.cluster.send(2, c.RAFT_DATA, bytes(500_000))
    sent = [one.cluster.send(2, c.RAFT_DATA, bytes(1000)) for _ in range(100)]
    assert not sent[-1], "what is behind it is"
    assert one.inbox.of(c.NodeDown) or not one.up(2)


def test_a_gate_opens_with_the_end_of_the_link() -> None:
    run = Run(LinkBounds(gate_shut_bytes=50_000))
    one, two = run.pair()
    gate = one.cluster.feed(2, GateKeeper(one.world.clock))
    two.is_frozen = True
    one.cluster.send(2, c.RAFT_DATA, bytes(100_000))
    assert gate.is_shut
    run.until(lambda: one.inbox.of(c.NodeDown), 20_000)
    assert not gate.is_shut


def test_who_stands_still_is_suspected_then_down_and_comes_again() -> None:
    run = Run()
    one, two = run.pair()
    run.rest(3000)
    two.is_frozen = True
    run.until(lambda: one.inbox.of(c.NodeSuspected))
    assert one.cluster.standing(2) is c.NodeStanding.SUSPECTED
    two.is_frozen = False
    two.wake()
    run.until(lambda: one.inbox.of(c.NodeTrusted))
    assert one.up(2)
    assert two.inbox.of(c.NodeSuspected) == [], "its own pause was held against the other one"
    two.is_frozen = True
    run.until(lambda: one.inbox.of(c.NodeDown), 15_000)
    two.is_frozen = False
    two.wake()
    run.until(lambda: one.up(2) and two.up(1))
    kinds = [type(each).__name__ for each in one.inbox.kept]
    assert re.fullmatch(
        "NodeUp (NodeSuspected NodeTrusted )+NodeSuspected NodeDown NodeUp", " ".join(kinds)
    )


def test_a_type_that_nobody_handles_ends_the_link() -> None:
    run = Run()
    one, two = run.pair()
    one.cluster.send(2, c.DEFINITIONS, b"what is that")
    run.until(lambda: two.inbox.of(c.NodeDown))
    assert two.said("a frame 'definitions', which nobody here handles")
    run.until(lambda: one.inbox.of(c.NodeDown))
    assert one.said("which nobody here handles")


def test_a_fault_in_a_connection_ends_its_link_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run()
    one, two = run.pair()
    link = two.cluster.peers[1].up
    assert link is not None

    def took(*_: object) -> None:
        raise IndexError

    monkeypatch.setattr(link, "took", took)
    run.until(lambda: two.inbox.of(c.NodeDown) and one.inbox.of(c.NodeDown))
    assert [type(each) for each in two.faults] == [IndexError]
    run.until(lambda: one.up(2) and two.up(1))
