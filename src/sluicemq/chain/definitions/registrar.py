"""Answers to nodes that want to join the cluster, or ask whether they still belong to it. All nodes
agree on a node that joins, as on every definition; one at a time is proposed here.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sluicemq.cluster.inquiry import (
    LATER,
    REFUSED,
    REMOVED,
    TO_JOIN,
    WELCOME,
    NodeAnswer,
    NodeDesk,
)
from sluicemq.cluster.node_file import MetMember
from sluicemq.cluster_config import NODES_MAX, listed_node
from sluicemq.errors import Refused
from sluicemq.kernel.actor import Actor
from sluicemq.metadata.agreement import Agreed, NoAgreement
from sluicemq.metadata.changes import AddNode
from sluicemq.metadata.joined_nodes import was_removed

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.chain.definitions.cluster_agreement import ClusterAgreement
    from sluicemq.cluster.inquiry import NodeQuestion
    from sluicemq.cluster.introduction import NodeCard
    from sluicemq.cluster.membership import ClusterMembership

TWO_NODES = (
    "the cluster has two nodes now, and neither may fail: when one is down nothing can be declared,"
    " and quorum queues with members on both stand still; a third node mends that"
)


class NodeRegistrar(Actor, NodeDesk):
    """The desk of this node, which is a member as `membership` says."""

    def __init__(self, agreement: ClusterAgreement, membership: ClusterMembership) -> None:
        super().__init__(agreement.scheduler)
        self.agreement = agreement
        self.membership = membership
        self.cluster = membership.cluster
        self.waiting: deque[tuple[AddNode, Callable[[NodeAnswer], None]]] = deque()
        """Those who are to join, and how they are answered; the first one is proposed. There are
        no more than interviews."""

    # -- what is asked

    def asked(
        self, card: NodeCard, question: NodeQuestion, answer: Callable[[NodeAnswer], None]
    ) -> None:
        own = self.cluster.roster.own
        nodes = self.agreement.state.nodes
        home = card.home.hex()
        if not (self.membership.is_member and self.agreement.is_ready):
            answer(NodeAnswer(LATER, "it is not ready itself"))
        elif card.cluster not in ("", own.cluster):
            text = f"it belongs to the cluster {card.cluster!r}, and this is {own.cluster!r}"
            answer(NodeAnswer(REFUSED, text))
        elif gone := [each for each in nodes.removed.values() if each.home == home]:
            answer(NodeAnswer(REMOVED, was_removed(gone[0])))
        elif known := self.number_with(card.home):
            answer(self.welcome(known))
        elif question.wants != TO_JOIN or card.cluster:
            answer(NodeAnswer(LATER, f"{card} is not known here"))
        else:
            self._register(card, question.address, answer)

    def number_with(self, home: bytes) -> int:
        """Return the number of the other member whose data directory has that mark; 0: there is
        none."""
        for number, member in self.cluster.roster.members.items():
            if member.home == home:
                return number
        return 0

    def _register(self, card: NodeCard, address: str, answer: Callable[[NodeAnswer], None]) -> None:
        """Have a new node agreed on, unless that is known to be in vain."""
        try:
            change = self.change_for(card, address)
        except Refused as refused:
            answer(NodeAnswer(REFUSED, str(refused)))
            return
        self.waiting.append((change, answer))
        if len(self.waiting) == 1:
            self._propose()

    def change_for(self, card: NodeCard, address: str) -> AddNode:
        """Return the change by which that node joins. Raises Refused when it cannot."""
        own = self.cluster.roster.own
        members = [*self.cluster.roster.members.values()]
        place = listed_node(address, "what it gives as its address")
        taken = {own.name: f"node {own.node}"}
        taken.update({each.name: f"node {each.number}" for each in members})
        if card.start == own.start or place.address == self.membership.own_address:
            raise Refused("the node asks itself: cluster.join must name other nodes of the cluster")
        if card.name in taken:
            raise Refused(
                f"the name '{card.name}' is that of {taken[card.name]}, and no two nodes may have"
                " one name; one that is lost is removed by `sluicemq ctl forget_cluster_node`"
            )
        for each in members:
            if each.address == place.address:
                raise Refused(f"{each} is at {place.address}, where this one says that it is")
        if len(members) + 1 >= NODES_MAX:
            raise Refused(f"the cluster has {NODES_MAX} nodes, and may not have more")
        return AddNode(self.next_number(), card.name, place.address, card.home.hex())

    def next_number(self) -> int:
        """Return a number that no node has had."""
        nodes = self.agreement.state.nodes
        return 1 + max(len(self.membership.nodes), *nodes.added, *nodes.removed, 0)

    # -- what is agreed on

    def _propose(self) -> None:
        """Propose the first of those who wait, with the number that it gets now."""
        change, answer = self.waiting[0]
        change = AddNode(self.next_number(), change.name, change.address, change.home)
        self.waiting[0] = (change, answer)
        try:
            self.agreement.propose(change, self)
        except NoAgreement as refusal:
            self._done(NodeAnswer(LATER, str(refusal)))

    def receive(self, message: object) -> None:
        assert isinstance(message, Agreed), f"the registrar got {message!r}"
        refusal = message.refusal
        if refusal is None:
            self._done(self.welcome(self.waiting[0][0].number))
        elif isinstance(refusal, NoAgreement):
            self._done(NodeAnswer(LATER, str(refusal)))
        else:
            self._done(NodeAnswer(REFUSED, str(refusal)))

    def _done(self, answer: NodeAnswer) -> None:
        _, reply = self.waiting.popleft()
        reply(answer)
        if self.waiting:
            self._propose()

    def welcome(self, number: int) -> NodeAnswer:
        """Return what the member with that number has to know."""
        own = self.membership.book.own
        founders = len(self.membership.nodes)
        rows = (
            [own]
            if own.node <= founders
            else [
                MetMember(
                    own.node, own.name, own.home, own.incarnation, self.membership.own_address
                )
            ]
        )
        for each in self.cluster.roster.members.values():
            if each.number != number and each.home:
                address = "" if each.number <= founders else each.address
                home = each.home.hex()
                rows.append(MetMember(each.number, each.name, home, each.incarnation, address))
        return NodeAnswer(
            WELCOME,
            TWO_NODES if len(rows) == 1 else "",
            cluster=self.membership.cluster_id,
            node=number,
            nodes=self.membership.nodes,
            members=rows,
        )
