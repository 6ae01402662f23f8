"""A node's way into its cluster: from its configuration and data directory to its links, and to
membership. It carries out the effects of the machine in founding.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicemq.cluster.cluster import NodeCluster
from sluicemq.cluster.cluster_port import FOUNDING, NodeDown, NodeUp, PeerMessage
from sluicemq.cluster.founding import (
    BrokenFounding,
    ClusterFounding,
    ClusterKept,
    FoundedCluster,
    FoundingCommand,
    FoundingEffect,
    FoundingProblem,
    FoundingSaid,
    JoinCluster,
    KeepCluster,
    MemberHeard,
    MemberLost,
    SayFounding,
    decode_founding,
    encode_founding,
)
from sluicemq.cluster.inquiry import (
    REFUSED,
    REMOVED,
    TO_STAY,
    WELCOME,
    Inquiry,
    NodeQuestion,
)
from sluicemq.cluster.introduction import TOKEN_BYTES
from sluicemq.cluster.members import Member
from sluicemq.cluster.node_file import (
    NodeFile,
    NodeRecord,
    WriteNodeFile,
    begin_life,
)
from sluicemq.cluster.node_path import is_there
from sluicemq.cluster_config import ListedNode, listed_node
from sluicemq.errors import Refused
from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sluicemq.cluster.bounds import LinkBounds
    from sluicemq.cluster.inquiry import NodeAnswer
    from sluicemq.cluster_config import ClusterConfig
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.world import World


class ClusterMembership(Actor):
    """This node in its cluster, which has the configured nodes, or those in its file; they share
    the secret. `is_used` says that a broker has stored something in the data directory. Raises
    Refused when that broker was alone, or another node; Corrupt; DiskFailed."""

    def __init__(
        self,
        scheduler: Scheduler,
        world: World,
        config: ClusterConfig,
        secret: bytes,
        is_used: bool,
        bounds: LinkBounds | None = None,
    ) -> None:
        super().__init__(scheduler)
        if is_used and not is_there(world.disk.files):
            raise Refused(
                "cluster.nodes is set, and the broker of this data directory has run alone: only a"
                " node with a new data directory can become part of a cluster; nothing was changed"
            )
        self.world = world
        listed = config.addresses if config.nodes else None
        number = config.own_number if config.nodes else 0
        self.book = begin_life(world, "", config.own_name, number, listed)
        record = self.book.record
        self.nodes = [*record.nodes] if record.cluster else config.addresses
        """The addresses of the founders, whether the cluster is founded yet or not."""
        self.own_address = config.own.address
        founders = listed_members(self.nodes if record.cluster else config.nodes, record.node)
        members = [*founders, *joined_members(record, len(self.nodes))]
        self.book.recall(members)
        self.cluster = NodeCluster(
            scheduler, world, self.book.card, secret, members, self.book, bounds
        )
        self.secret = secret
        new_id = world.dice.token(TOKEN_BYTES).hex()
        founded = founded_as_kept(self.book)
        self.founding = ClusterFounding(self.book.own, self.nodes, new_id, founded)
        self._waiting: list[Callable[[], None]] = []
        """Functions that wait for this node to be a member."""
        self.inquiry: Inquiry | None = None
        """The question under way whether this node is still a member."""
        self.asked = 0
        """The number of such questions so far."""
        self._refusal = ""
        """The logged refusal of another cluster, which is not repeated."""
        self.to_ask = [listed_node(each) for each in config.nodes]
        """Nodes to be asked, beside the known members."""
        self.on_removed: Callable[[str], None] = lambda _: None
        """Called with a sentence when this node was removed from the cluster."""
        self.cluster.on_lonely = self._ask_to_stay
        self.cluster.handle(FOUNDING, self)
        self.cluster.follow(self)

    @property
    def is_member(self) -> bool:
        """Tell whether the node belongs to its cluster, durably."""
        return self.founding.is_member

    @property
    def cluster_id(self) -> str:
        """Return the id of the cluster that this node is a member of; "" if it is none yet."""
        founded = self.founding.founded
        return founded.cluster if founded is not None and self.is_member else ""

    @property
    def founders(self) -> list[int]:
        """Return the numbers of the nodes that founded this node's cluster, if it is one of them;
        none if it joined later."""
        count = len(self.nodes)
        return [*range(1, count + 1)] if self.book.card.node <= count else []

    @property
    def addresses(self) -> dict[int, str]:
        """Return the addresses of all nodes, by their numbers."""
        found = {number: each.address for number, each in self.cluster.roster.members.items()}
        found[self.cluster.node] = self.own_address
        return dict(sorted(found.items()))

    def when_member(self, function: Callable[[], None]) -> None:
        """Call the function once this node is a member; at once if it is."""
        if self.is_member:
            function()
        else:
            self._waiting.append(function)

    def start(self) -> None:
        """Begin to connect to the others, and to accept their connections."""
        card = self.book.card
        state = f"member of the cluster {self.cluster_id}"
        if not self.is_member:
            state = "of no cluster yet"
            if waits_for := self.founding.waits_for:
                named = [f"node {each} at {self.nodes[each - 1]}" for each in waits_for]
                state = f"{state}; it waits for {', '.join(named)}"
        self.world.log.write("info", f"this is {card}, {state}")
        self.cluster.start_links()
        self._do(self.founding.begin())

    def receive(self, message: object) -> None:
        if isinstance(message, PeerMessage):
            self._said(message)
        elif isinstance(message, NodeUp):
            self._take(MemberHeard(message.node))
        elif isinstance(message, NodeDown):
            self._take(MemberLost(message.node))
        elif isinstance(message, WriteNodeFile):
            self._written(message)

    def _said(self, message: PeerMessage) -> None:
        node = message.source.node
        try:
            said = decode_founding(message.payload)
        except BrokenFounding as error:
            link = self.cluster.peers[node].up
            if link is not None:
                link.broken(str(error))
            return
        self._take(FoundingSaid(node, said))

    def _written(self, job: WriteNodeFile) -> None:
        if job.failure is not None:
            raise job.failure  # the durable state is unknown now; the next start reads it
        self._take(ClusterKept())

    def _take(self, command: FoundingCommand) -> None:
        self._do(self.founding.apply(command))

    def _do(self, effects: Iterable[FoundingEffect]) -> None:
        for effect in effects:
            if isinstance(effect, SayFounding):
                self.cluster.send(effect.node, FOUNDING, encode_founding(effect.message))
            elif isinstance(effect, KeepCluster):
                founded = effect.founded
                self.book.join(founded.cluster, founded.nodes, founded.members, self)
            elif isinstance(effect, JoinCluster):
                self._join(effect.founded)
            else:
                assert isinstance(effect, FoundingProblem)
                self.world.log.write("error", effect.sentence)

    def _join(self, founded: FoundedCluster) -> None:
        self.cluster.join(founded.cluster)
        names = ", ".join(each.name for each in founded.members)
        text = f"this node is a member of the cluster {founded.cluster} of {names}"
        self.world.log.write("info", text)
        waiting, self._waiting = self._waiting, []
        for function in waiting:
            function()

    # -- members that join and leave

    def add(self, number: int, name: str, address: str, home: str) -> None:
        """Add a member that has joined the cluster."""
        place = listed_node(address)
        member = Member(number, place.host, place.port, name, bytes.fromhex(home))
        self.cluster.add_member(member)

    def remove(self, number: int, home: str, sentence: str) -> None:
        """Remove a member that does not belong to the cluster any more."""
        if number == self.book.card.node:
            self.on_removed(sentence)
        else:
            self.cluster.remove_member(number, bytes.fromhex(home), sentence)

    def _ask_to_stay(self) -> None:
        """Ask one node after another whether this one has been removed, and which nodes have
        joined, because it has no links to a majority, or knows no leader: nobody connects to a
        removed node any more. It may have been removed before it heard that it is a member."""
        if self.inquiry is not None and not self.inquiry.is_over:
            self.inquiry.look(self.world.clock.now_ns())
            return
        known = {(each.host, each.port) for each in self.cluster.roster.members.values()}
        places = sorted(known | {(each.host, each.port) for each in self.to_ask})
        others = [each for each in places if listed(*each).address != self.own_address]
        if not others:
            return
        question = NodeQuestion(TO_STAY, self.own_address)
        card = self.cluster.roster.own
        self.inquiry = Inquiry(self.cluster, self.secret, card, question, self._answered)
        self.asked += 1
        self.inquiry.begin(*others[self.asked % len(others)])

    def _answered(self, answer: NodeAnswer | None, reason: str) -> None:
        """Stop if this node was removed; otherwise add members that have joined meanwhile. Say that
        the other node is of another cluster: nobody else does when it has the lower number, because
        it does not connect to this one."""
        if answer is None or answer.cluster not in ("", self.cluster_id):
            return
        if answer.verdict == REMOVED:
            self.on_removed(answer.sentence)
        elif answer.verdict == REFUSED and answer.sentence != self._refusal:
            self._refusal = answer.sentence
            assert self.inquiry is not None
            text = f"node {self.inquiry.other.node} does not know this node: {answer.sentence};"
            text = f"{text} if force-boot has made that cluster, this node was left behind, and"
            self.world.log.write("warning", f"{text} can join it with a new data directory")
        elif answer.verdict == WELCOME:
            for each in answer.members:
                if each.address:
                    self.add(each.node, each.name, each.address, each.home)


def listed(host: str, port: int) -> ListedNode:
    """Return a node of a list with that address and no name."""
    return ListedNode(host, port, "")


def listed_members(nodes: Iterable[str], own: int) -> list[Member]:
    """Return the members in a list of nodes, except for the one with the number `own`."""
    return [
        Member(number, each.host, each.port, each.name)
        for number, each in enumerate(sorted(map(listed_node, nodes)), start=1)
        if number != own
    ]


def joined_members(record: NodeRecord, founders: int) -> list[Member]:
    """Return the members in a node's file that have joined a cluster of so many founders."""
    found: list[Member] = []
    for each in record.members:
        if each.node > founders:
            place = listed_node(each.address)
            found.append(Member(each.node, place.host, place.port, each.name))
    return found


def founded_as_kept(book: NodeFile) -> FoundedCluster | None:
    """Return the cluster in this node's file; None if it belongs to none."""
    record = book.record
    if not record.cluster:
        return None
    members = [each for each in (book.own, *record.members) if each.node <= len(record.nodes)]
    members.sort(key=lambda each: each.node)
    return FoundedCluster(record.cluster, record.nodes, members)
