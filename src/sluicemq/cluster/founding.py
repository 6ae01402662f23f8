"""How the nodes of a list become one cluster, and never two: a machine of one node, commands in,
effects out; no clock, no dice, no I/O.

    waiting   no cluster yet: the node says so to every node that it hears
    keeping   it knows its cluster, and that is being made durable
    member    it is durable

Node 1 of the list founds the cluster when it hears all others at the same time, each with the same
list and without a cluster. It makes the cluster's id durable before it tells the others. These
accept an id only from node 1, over a link to the life of it that has founded. So what a node has
said over a present link stays true: only the node that it told can change it. Ids go from the node
that made them durable to the nodes that were heard when they were made: a data directory made since
is not in that list, and joins nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode, encode
from msgspec.structs import replace

from sluicemq.cluster.node_file import MetMember
from sluicemq.errors import SluiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

FOUNDER: Final = 1
"""The node that founds."""


class FoundingGreeting(Struct, frozen=True, tag="greeting"):
    """The first message of each node over a link: who it is, its list of nodes, and the id of its
    cluster, "" without one. An id counts as soon as it is being made durable."""

    member: MetMember
    nodes: list[str]
    cluster: str


class FoundedCluster(Struct, frozen=True, tag="founded"):
    """The founder's message: the id of the cluster, its list of nodes, and who they are."""

    cluster: str
    nodes: list[str]
    members: list[MetMember]


FoundingMessage = FoundingGreeting | FoundedCluster


class BrokenFounding(SluiceError):
    """The bytes that came are not a message of the founding."""


def encode_founding(message: FoundingMessage) -> bytes:
    """Return a message as the payload of a frame."""
    return encode(message)


def decode_founding(payload: bytes) -> FoundingMessage:
    """Return the message of a payload. Raises BrokenFounding."""
    try:
        message: FoundingMessage = decode(payload, type=FoundingMessage)
    except (DecodeError, ValidationError, RecursionError) as error:
        raise BrokenFounding(f"a message of the founding that cannot be read: {error}") from error
    return message


class MemberHeard(NamedTuple):
    """Command: there is a link to that node."""

    node: int


class MemberLost(NamedTuple):
    """Command: the link to that node is over."""

    node: int


class FoundingSaid(NamedTuple):
    """Command: a node whose link is up has sent that message."""

    node: int
    message: FoundingMessage


class ClusterKept(NamedTuple):
    """Command: the cluster is durable in the node's file."""


FoundingCommand = MemberHeard | MemberLost | FoundingSaid | ClusterKept


class SayFounding(NamedTuple):
    """Effect: send that message to a node."""

    node: int
    message: FoundingMessage


class KeepCluster(NamedTuple):
    """Effect: make durable that this node belongs to that cluster; then ClusterKept follows."""

    founded: FoundedCluster


class JoinCluster(NamedTuple):
    """Effect: this node is a member of that cluster from now on."""

    founded: FoundedCluster


class FoundingProblem(NamedTuple):
    """Effect: log this sentence, which was not logged before."""

    sentence: str


FoundingEffect = SayFounding | KeepCluster | JoinCluster | FoundingProblem


class ClusterFounding:
    """What the node `own`, with the list `nodes`, knows of its cluster. `founded` is the durable
    part, None when there is none; `new_id` is a unique id for the cluster that this node may found.
    """

    def __init__(
        self,
        own: MetMember,
        nodes: Sequence[str],
        new_id: str,
        founded: FoundedCluster | None = None,
    ) -> None:
        assert own.node >= 1
        assert own.node <= len(nodes) or founded is not None, "who was not there has joined"
        assert new_id
        self.own = own
        self.nodes = list(nodes)
        self.new_id = new_id
        self.founded = founded
        """The cluster; None: none yet."""
        self.is_member = founded is not None
        """True when that is durable."""
        self.heard: set[int] = set()
        """The nodes whose links are there."""
        self.greetings: dict[int, FoundingGreeting] = {}
        """What these have said."""
        self._sentences: set[str] = set()

    @property
    def waits_for(self) -> list[int]:
        """Return the numbers of the nodes that must be heard before there can be a cluster."""
        if self.founded is not None:
            return []
        needed = range(1, len(self.nodes) + 1) if self.own.node == FOUNDER else (FOUNDER,)
        return [each for each in needed if each != self.own.node and each not in self.greetings]

    def begin(self) -> list[FoundingEffect]:
        """Return the effects before the first command: a list of one node has been heard
        completely."""
        return self._look()

    def apply(self, command: FoundingCommand) -> list[FoundingEffect]:
        """Apply a command, and return the effects, in order."""
        if isinstance(command, MemberHeard):
            return self._member_heard(command.node)
        if isinstance(command, MemberLost):
            self.heard.discard(command.node)
            self.greetings.pop(command.node, None)
            return []
        if isinstance(command, ClusterKept):
            return self._kept()
        if command.node not in self.heard:
            return []
        if isinstance(command.message, FoundingGreeting):
            if command.message.member.node != command.node:
                return self._problem(f"node {command.node} takes itself for another one")
            self.greetings[command.node] = command.message
            return self._look()
        return self._told(command.node, command.message)

    def _member_heard(self, node: int) -> list[FoundingEffect]:
        assert node != self.own.node
        self.heard.add(node)
        self.greetings.pop(node, None)
        cluster = "" if self.founded is None else self.founded.cluster
        return [SayFounding(node, FoundingGreeting(self.own, self.nodes, cluster))]

    def _look(self) -> list[FoundingEffect]:
        """Return the effects of what was said: problems, a cluster, or nodes to be told of it."""
        effects: list[FoundingEffect] = [*self._problems()]
        if self.own.node != FOUNDER:
            return effects
        if self.founded is None and not self.waits_for and self._agree():
            others = [self.greetings[each].member for each in sorted(self.greetings)]
            self.founded = FoundedCluster(self.new_id, self.nodes, [self.own, *others])
            effects.append(KeepCluster(self.founded))
        elif self.is_member and self.founded is not None:
            effects += self._tell(self.founded)
        return effects

    def _agree(self) -> bool:
        """Tell whether all nodes have the same list, none a cluster, and each a name of its own."""
        names = {self.own.name, *(each.member.name for each in self.greetings.values())}
        return len(names) == len(self.nodes) and all(
            each.nodes == self.nodes and not each.cluster for each in self.greetings.values()
        )

    def _tell(self, founded: FoundedCluster) -> list[FoundingEffect]:
        """Return the messages to nodes that were heard when the cluster was founded and do not know
        it yet."""
        effects: list[FoundingEffect] = []
        homes = {each.node: each.home for each in founded.members}
        for node, greeting in self.greetings.items():
            is_same = greeting.member.home == homes.get(node)
            if not greeting.cluster and greeting.nodes == self.nodes and is_same:
                effects.append(SayFounding(node, founded))
                knows = replace(greeting, cluster=founded.cluster)
                self.greetings[node] = knows  # each link is told once
        return effects

    def _told(self, node: int, founded: FoundedCluster) -> list[FoundingEffect]:
        if self.founded is not None and self.founded.cluster == founded.cluster:
            return []
        problem = self._why_not(node, founded)
        if problem:
            return self._problem(problem)
        self.founded = founded
        return [KeepCluster(founded)]

    def _why_not(self, node: int, founded: FoundedCluster) -> str:
        """Return why this node does not join that cluster; "" when it does."""
        what = f"node {node} says that it has founded the cluster {founded.cluster!r}, "
        if self.founded is not None:
            return f"{what}and this node belongs to {self.founded.cluster!r}"
        if node != FOUNDER or not founded.cluster:
            return f"{what}which only node {FOUNDER} can"
        if founded.nodes != self.nodes:
            return what + self._lists(founded.nodes)
        numbers = [each.node for each in founded.members]
        own = self.own
        if numbers != [*range(1, len(self.nodes) + 1)]:
            return f"{what}with the nodes {numbers}"
        if (founded.members[own.node - 1].name, founded.members[own.node - 1].home) != (
            own.name,
            own.home,
        ):
            return f"{what}when this node had another data directory, or name"
        return ""

    def _kept(self) -> list[FoundingEffect]:
        assert self.founded is not None, "kept what nobody wanted to keep"
        assert not self.is_member, "kept twice"
        self.is_member = True
        return [JoinCluster(self.founded), *self._look()]

    def _problems(self) -> list[FoundingEffect]:
        effects: list[FoundingEffect] = []
        for node, greeting in sorted(self.greetings.items()):
            if self.founded is not None and greeting.cluster == self.founded.cluster:
                continue
            if greeting.nodes != self.nodes:
                effects += self._problem(
                    f"node {node} has another list: {self._lists(greeting.nodes)}"
                )
            elif greeting.cluster and self.founded is None and self.own.node == FOUNDER:
                effects += self._problem(
                    f"node {node} belongs to the cluster {greeting.cluster!r}, and this node, "
                    "which would have founded it, to none: if it has lost its data directory, put "
                    "that back; no cluster is founded"
                )
        return effects

    def _lists(self, other: Sequence[str]) -> str:
        return (
            f"cluster.nodes has {', '.join(other)} there and {', '.join(self.nodes)} here; it must "
            "be the same at all nodes"
        )

    def _problem(self, sentence: str) -> list[FoundingEffect]:
        """Return a sentence for the log, unless it was logged before."""
        if sentence in self._sentences:
            return []
        self._sentences.add(sentence)
        return [FoundingProblem(sentence)]
