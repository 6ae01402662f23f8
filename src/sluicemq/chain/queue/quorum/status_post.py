"""users ---which queue?---> STATUS POST <---frames---> the posts of nodes that have its members

Each node of a cluster has one, so that any node can show what members know of their group.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, ValidationError, convert

from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.cluster.cluster_port import QUORUM_STATUS, NodeStanding, PeerMessage
from sluicemq.kernel.actor import Actor
from sluicemq.queues.quorum.snapshot import MACHINE_VERSION
from sluicemq.replication.member_status import MemberStatus, StatusTeller, TellsStatus

if TYPE_CHECKING:
    from sluicemq.cluster.cluster_port import ClusterPort
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.world import Clock, Log
    from sluicemq.replication.ask_post import AskPost

STATUS_WAIT_MS: Final = 1000
"""How long other nodes may take to answer."""
QUESTIONS_MAX: Final = 1000
"""The most questions that wait for answers; beyond that the oldest gets the answers there are."""


def status_of(queue: QuorumShell) -> MemberStatus:
    """Return what this node's member of a queue knows."""
    replicator = queue.replicator
    figures = replicator.figures()
    member = replicator.raft.member
    state: str = replicator.role() if queue.crash is None else queue.crash.state
    if queue.crash is None and member.name in replicator.raft.configuration.learners:
        state = "learner"
    return {
        "raft_state": state,
        "log_index": figures["last_index"],
        "commit_index": figures["commit_index"],
        "snapshot_index": figures["snapshot_index"],
        "term": figures["term"],
        "machine_version": MACHINE_VERSION,
        "pending": figures["pending"],
    }


def nothing_known(why: str) -> MemberStatus:
    """Return the status of a member that cannot be asked; `why` is RabbitMQ's word for
    the reason.
    """
    return {
        "raft_state": why,
        "log_index": "",
        "commit_index": "",
        "snapshot_index": "",
        "term": "",
        "machine_version": "",
        "pending": "",
    }


class StatusMessage(Struct):
    """The content of a frame: question `number` about a group; or, with `answer`, its answer, which
    is empty where there is no such member. `leader` is the node that leads the group, as far as the
    one that answers knows; 0: it knows none."""

    number: int
    group: int
    answer: MemberStatus | None = None
    leader: int = 0


class StatusQuestion:
    """The nodes that have not answered yet, the answers so far, and the function that
    wants them.
    """

    def __init__(self, nodes: Iterable[int], tell: StatusTeller) -> None:
        self.awaited = set(nodes)
        self.found: dict[int, MemberStatus] = {}
        self.leaders: dict[int, int] = {}
        self.teller = tell

    def tell(self) -> None:
        """Call the function with all answers."""
        self.teller(self.found, self.leaders)


class StatusTimeout:
    """A timer's message to the post: stop waiting for answers to that question."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class StatusPost(Actor):
    """The status post of a node; `cluster` links it to the others, and `ask_post` knows the members
    here."""

    is_vital = False

    def __init__(
        self, scheduler: Scheduler, clock: Clock, log: Log, cluster: ClusterPort, ask_post: AskPost
    ) -> None:
        super().__init__(scheduler)
        self.clock = clock
        self.log = log
        self.cluster = cluster
        self.ask_post = ask_post
        self.questions: dict[int, StatusQuestion] = {}
        self.last_number = 0
        cluster.handle(QUORUM_STATUS, self)

    def own_status(self, group: int) -> MemberStatus:
        """Return what this node's member of a group knows; nothing if there is none."""
        queue = self.ask_post.queues.get(group)
        if isinstance(queue, TellsStatus):
            return queue.status()
        return status_of(queue) if isinstance(queue, QuorumShell) else {}

    def ask(
        self,
        group: int,
        nodes: Iterable[int],
        tell: StatusTeller,
    ) -> None:
        """Ask these nodes about a group, and call `tell` with all answers, in a second at the
        latest."""
        self.last_number += 1
        number = self.last_number
        question = StatusQuestion(nodes, tell)
        payload = encoded(StatusMessage(number, group))
        for node in [*question.awaited]:
            if node == self.cluster.node:
                self.take(question, node, self.own_status(group), self.ask_post.leader_of(group))
            elif self.cluster.standing(node) is NodeStanding.DOWN or not self.cluster.send(
                node, QUORUM_STATUS, payload
            ):
                self.take(question, node, nothing_known("nodedown"))
        if question.awaited:
            self.questions[number] = question
            self.clock.call_after(STATUS_WAIT_MS, self, StatusTimeout(number))
            if len(self.questions) > QUESTIONS_MAX:
                self.give_up(min(self.questions))
        else:
            question.tell()

    def take(
        self, question: StatusQuestion, node: int, status: MemberStatus, leader: int | None = None
    ) -> None:
        """Note a node's answer and the leader that it names; or why there is no answer."""
        question.awaited.discard(node)
        question.found[node] = status or nothing_known("noproc")
        if leader is not None:
            question.leaders[node] = leader

    def receive(self, message: object) -> None:
        if isinstance(message, StatusTimeout):
            self.give_up(message.number)
            return
        assert isinstance(message, PeerMessage), f"the status post got {message!r}"
        node = message.source.node
        try:
            said = convert(json.loads(message.payload), StatusMessage)
        except (ValueError, RecursionError, ValidationError) as error:
            text = f"a status that does not parse ({error})"
            self.log.write("error", f"node {node} has sent {text}: its link is set up again")
            self.cluster.end_link(node, text)
            return
        if said.answer is None:
            group = said.group
            status, leader = self.own_status(group), self.ask_post.leader_of(group)
            answer = StatusMessage(said.number, group, status, leader)
            self.cluster.send(node, QUORUM_STATUS, encoded(answer))
            return
        question = self.questions.get(said.number)
        if question is not None and node in question.awaited:
            self.take(question, node, said.answer, said.leader)
            if not question.awaited:
                del self.questions[said.number]
                question.tell()

    def give_up(self, number: int) -> None:
        """Stop waiting for nodes that have not answered."""
        question = self.questions.pop(number, None)
        if question is not None:
            for node in [*question.awaited]:
                self.take(question, node, nothing_known("timeout"))
            question.tell()


def encoded(message: StatusMessage) -> bytes:
    """Return a message as the payload of a frame."""
    fields: dict[str, Any] = {"number": message.number, "group": message.group}
    if message.answer is not None:
        fields |= {"answer": message.answer, "leader": message.leader}
    return json.dumps(fields).encode()
