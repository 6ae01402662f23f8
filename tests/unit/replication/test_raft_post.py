"""Goal: members of Raft groups on different nodes agree, over links that end and come again; what
comes from where it should not is nobody's, and a node that reads slowly costs a bounded amount.

Method: whole posts over linked nodes of the simulation. The members keep their logs in memory.
"""

from __future__ import annotations

import json
from typing import Any

from sluicemq.cluster import cluster_port as c
from sluicemq.kernel.actor import Actor
from sluicemq.limits import RAFT_POST_BYTES
from sluicemq.raft.configuration import Configuration
from sluicemq.raft.durable import Durable
from sluicemq.raft.entry import DATA, LogEntry
from sluicemq.raft.entry_data import EntryData
from sluicemq.raft.messages import AppendEntries, LeaderBeat, RaftMessage
from sluicemq.raft.raft import Raft
from sluicemq.raft.ready import RaftReady
from sluicemq.raft.settings import RaftSettings
from sluicemq.raft.snapshot import LogSnapshot
from sluicemq.replication.majority import Majority
from sluicemq.replication.member_log import MemberLog
from sluicemq.replication.raft_post import MemberReach, RaftPost
from sluicemq.replication.raft_wire import encode_raft_messages
from sluicemq.replication.state_owner import StateOwner
from support.echo import Echo, EchoCommand, Say
from support.linked import Inbox, Machine, Run

MEMBERS = {11: 1, 12: 2, 13: 3}
"""Of each group: the node of each member."""
TICK_MS = 100


class Tick:
    """A timer's message."""


class Written:
    """To a speaker: what it has written as append `number` is durable."""

    def __init__(self, number: int) -> None:
        self.number = number


class SayCodec:
    def encode(self, commands: list[EchoCommand], stamp_ms: int) -> EntryData:
        texts = [each.text for each in commands if isinstance(each, Say)]
        return json.dumps([stamp_ms, texts]).encode()

    def decode(self, data: EntryData) -> tuple[int, list[EchoCommand]]:
        stamp_ms, texts = json.loads(bytes(data))
        return stamp_ms, [Say(text) for text in texts]

    def weigh(self, command: EchoCommand) -> int:
        assert isinstance(command, Say)
        return len(command.text)


class Speaker(Actor, StateOwner[EchoCommand], MemberLog):
    """The owner of a member of a group, which says what all say, in the same order."""

    def __init__(self, machine: Machine, post: RaftPost, group: int, name: int) -> None:
        Actor.__init__(self, machine.scheduler)
        self.clock = machine.world.clock
        self.raft_post = post
        self.group = group
        self.machine = Echo()
        durable = Durable(0, 0, LogSnapshot(0, 0, Configuration((*MEMBERS,))))
        dice = machine.world.dice
        self.raft = Raft(name, durable, RaftSettings(), 1, dice.below)
        self.replicator: Majority[EchoCommand, str] = Majority(
            self.machine, [], self, self.raft, self, SayCodec(), self.clock
        )
        post.open(group, name, self, MEMBERS)
        self.clock.call_after(TICK_MS, self, Tick())

    def receive(self, message: object) -> None:
        if isinstance(message, Tick):
            self.raft.tick()
            self.clock.call_after(TICK_MS, self, Tick())
        elif isinstance(message, Written):
            self.replicator.synced(message.number)
        elif isinstance(message, MemberReach):
            (self.raft.link_back if message.is_reached else self.raft.link_lost)(message.name)
        else:
            assert self.replicator.receive(message)

    def turn_ended(self) -> None:
        self.replicator.turn_ended()
        self.replicator.pump()

    def say(self, text: str) -> None:
        self.replicator.submit(Say(text))
        self.schedule()

    def applied(self, command: EchoCommand) -> None:
        pass

    def write(self, ready: RaftReady) -> None:
        self.post(Written(ready.number))

    def send(self, messages: list[RaftMessage]) -> None:
        self.raft_post.send(self.group, messages)

    def committed(self, index: int) -> None:
        pass


class PostedNode:
    def __init__(self, run: Run, number: int, groups: int) -> None:
        self.machine = run.machine(number)
        world = self.machine.world
        cluster = self.machine.cluster
        self.raft_post = RaftPost(self.machine.scheduler, world.clock, world.log, cluster)
        name = next(name for name, node in MEMBERS.items() if node == number)
        self.speakers = [
            Speaker(self.machine, self.raft_post, group, name) for group in range(1, groups + 1)
        ]


def three(run: Run, groups: int = 1) -> list[PostedNode]:
    return [PostedNode(run, number, groups) for number in (1, 2, 3)]


def leader_of(nodes: list[PostedNode], group: int) -> Speaker | None:
    """Return the leader of the highest term, if it can have something agreed on."""
    leaders = [node.speakers[group - 1] for node in nodes]
    leaders = [each for each in leaders if each.raft.takes_proposals]
    return max(leaders, key=lambda each: each.raft.member.term, default=None)


def leader(run: Run, nodes: list[PostedNode], group: int = 1) -> Speaker:
    run.until(lambda: leader_of(nodes, group) is not None)
    found = leader_of(nodes, group)
    assert found is not None
    return found


def all_said(nodes: list[PostedNode], wanted: list[str], group: int = 1) -> bool:
    return all(node.speakers[group - 1].machine.said == wanted for node in nodes)


def no_faults(nodes: list[PostedNode]) -> None:
    assert not [fault for node in nodes for fault in node.machine.faults]


def test_members_on_three_nodes_agree() -> None:
    run = Run()
    nodes = three(run)
    first = leader(run, nodes)
    texts = [f"{n}" for n in range(100)]
    for text in texts:
        first.say(text)
        run.rest(3)
    run.until(lambda: all_said(nodes, texts))
    no_faults(nodes)
    assert not sum(node.raft_post.strays for node in nodes)


def test_a_group_goes_on_without_the_node_of_its_leader() -> None:
    run = Run()
    nodes = three(run)
    first = leader(run, nodes)
    first.say("before")
    run.until(lambda: all_said(nodes, ["before"]))
    gone = next(node for node in nodes if first in node.speakers)
    gone.machine.is_frozen = True
    others = [node for node in nodes if node is not gone]
    second = leader(run, others)
    second.say("after")
    run.until(lambda: all_said(others, ["before", "after"]))
    gone.machine.is_frozen = False
    gone.machine.wake()
    run.until(lambda: all_said(nodes, ["before", "after"]))
    no_faults(nodes)


def test_a_link_that_is_torn_loses_nothing_that_was_agreed() -> None:
    run = Run()
    nodes = three(run)
    first = leader(run, nodes)
    texts = [f"{n}" for n in range(60)]
    for n, text in enumerate(texts):
        if n % 10 == 5:
            run.network.tear(next(iter(nodes[n // 10 % 3].machine.net.ends.values())))
        run.until(lambda: leader_of(nodes, 1) is not None)
        leader(run, nodes).say(text)
        run.rest(5)
    run.until(lambda: first.machine.said == texts)
    run.until(lambda: all_said(nodes, texts))
    no_faults(nodes)


def test_beats_of_all_groups_to_a_node_are_one_section() -> None:
    """A frame with the beats of forty groups has one head, and a row for each."""
    run = Run()
    nodes = three(run, groups=40)
    sent: list[bytes] = []
    run.until(lambda: all(leader_of(nodes, group) for group in range(1, 41)))
    cluster = nodes[0].machine.cluster
    send = cluster.send

    def watched(node: int, frame_type: c.FrameType, payload: bytes, *more: Any) -> bool:
        if frame_type is c.RAFT_CONTROL and node == 2:
            sent.append(payload)
        return send(node, frame_type, payload, *more)

    cluster.send = watched  # type: ignore[method-assign]
    messages: list[tuple[int, RaftMessage]] = [
        (group, LeaderBeat(11, 12, 99, 0, 1)) for group in range(1, 41)
    ]
    for group, message in messages:
        nodes[0].raft_post.send(group, [message])
    run.until(lambda: encode_raft_messages(messages) in sent)
    run.until(lambda: all(leader_of(nodes, group) for group in range(1, 41)))
    no_faults(nodes)


def test_what_is_for_nobody_or_from_elsewhere_is_nobodys() -> None:
    run = Run()
    nodes = three(run)
    leader(run, nodes)
    run.rest(500)
    terms = [node.speakers[0].raft.member.term for node in nodes]
    strangers: list[tuple[int, RaftMessage]] = [
        (2, LeaderBeat(12, 11, 99, 0, 1)),  # of no group here
        (1, LeaderBeat(13, 11, 99, 0, 1)),  # the sender is on another node
        (1, LeaderBeat(14, 11, 99, 0, 1)),  # there is no such member
        (1, LeaderBeat(12, 14, 99, 0, 1)),  # nor this one here
    ]
    nodes[1].machine.cluster.send(1, c.RAFT_CONTROL, encode_raft_messages(strangers))
    run.until(lambda: nodes[0].raft_post.strays == len(strangers))
    assert [node.speakers[0].raft.member.term for node in nodes] == terms
    no_faults(nodes)


def test_a_frame_that_cannot_be_read_ends_the_link_with_a_sentence() -> None:
    run = Run()
    nodes = three(run)
    first = leader(run, nodes)
    nodes[1].machine.cluster.send(1, c.RAFT_DATA, b"\x63\0\0\0\0\0\0\0")
    words = "messages of Raft groups that cannot be read"
    run.until(lambda: nodes[0].machine.said("which is not known"))
    assert not nodes[0].machine.said(words)
    run.until(lambda: nodes[1].machine.said("which is not known"))
    run.until(lambda: all(node.machine.up(other) for node, other in ((nodes[0], 2), (nodes[1], 1))))
    first.say("still")
    run.until(lambda: all_said(nodes, ["still"]))
    no_faults(nodes)


def test_what_waits_for_a_node_that_reads_nothing_is_bounded() -> None:
    run = Run()
    one, two, three_ = (run.machine(number) for number in (1, 2, 3))
    posts = [
        RaftPost(each.scheduler, each.world.clock, each.world.log, each.cluster)
        for each in (one, two, three_)
    ]
    owner = Inbox(one.scheduler)
    posts[0].open(1, 11, owner, MEMBERS)
    run.until(lambda: posts[0].mail[2].is_up and posts[0].mail[3].is_up)
    two.is_frozen = True
    entry = LogEntry(1, 1, DATA, bytes(1 << 20))
    for _ in range(40):
        posts[0].send(1, [AppendEntries(11, 12, 1, 0, 0, [entry], 0)])
        run.rest(1)
    mail = posts[0].mail[2]
    assert posts[0].dropped > 20
    assert mail.data_bytes <= RAFT_POST_BYTES + entry.size_bytes
    run.until(lambda: not mail.is_up)
    assert not mail.data and not mail.data_bytes
    assert MemberReach(1, 12, is_reached=False) in owner.kept
    assert not one.faults


class Fleeting:
    """Data of an entry that its owner may let go at any time, as a quorum queue does."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __bytes__(self) -> bytes:
        assert self.data, "it was let go"
        return self.data


def test_an_entry_may_be_let_go_while_it_waits_to_be_sent() -> None:
    run = Run()
    one, two, _ = (run.machine(number) for number in (1, 2, 3))
    posts = [
        RaftPost(each.scheduler, each.world.clock, each.world.log, each.cluster)
        for each in (one, two)
    ]
    other = Inbox(two.scheduler)
    posts[0].open(1, 11, Inbox(one.scheduler), MEMBERS)
    posts[1].open(1, 12, other, MEMBERS)
    run.until(lambda: posts[0].mail[2].is_up and posts[1].mail[1].is_up)
    data = Fleeting(b"whole")
    posts[0].send(1, [AppendEntries(11, 12, 1, 0, 0, [LogEntry(1, 1, DATA, data)], 0)])
    data.data = b""
    run.until(lambda: any(isinstance(each, AppendEntries) for each in other.kept))
    [came] = [each for each in other.kept if isinstance(each, AppendEntries)]
    assert [bytes(entry.data) for entry in came.entries] == [b"whole"]
    assert not posts[0].mail[2].data_bytes
    assert not (one.faults or two.faults)
