"""A new node on its way into a cluster that is there: it asks the nodes at some addresses, one
after the other, until one says that it is a member and who the others are. It is no broker
meanwhile.

What is answered is durable before the node is one: its file then says which cluster it belongs to,
and that nothing that it has stored counts yet (node_file.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from sluicemq.cluster.bounds import LinkBounds
from sluicemq.cluster.connection_port import ConnectionWorld
from sluicemq.cluster.inquiry import (
    LATER,
    TO_JOIN,
    WELCOME,
    Inquiry,
    NodeAnswer,
    NodeQuestion,
)
from sluicemq.cluster.node_file import WriteNodeFile, begin_life
from sluicemq.cluster.node_path import is_there
from sluicemq.errors import Refused
from sluicemq.kernel.actor import Actor
from sluicemq.limits import JOIN_AGAIN_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluicemq.cluster_config import ClusterConfig, ListedNode
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.world import World


class AskNext:
    """A timer's message to who wants to join: ask at the next address."""

    __slots__ = ()


class ClusterJoining(Actor, ConnectionWorld):
    """The node that is configured so, which shares the secret with those at the addresses. `joined`
    is called when it is a member, durably; `refused` with a sentence when it cannot be one, and,
    unless it `waits`, also when nobody can say so now. Raises Refused when its data directory is
    not new; Corrupt; DiskFailed."""

    def __init__(
        self,
        scheduler: Scheduler,
        world: World,
        config: ClusterConfig,
        secret: bytes,
        addresses: Sequence[ListedNode],
        joined: Callable[[str], None],
        refused: Callable[[str], None],
        *,
        waits: bool = True,
    ) -> None:
        super().__init__(scheduler)
        self.world = world
        self.bounds = LinkBounds()
        self.secret = secret
        self.addresses = addresses
        self.joined = joined
        self.refused = refused
        self.waits = waits
        self.address = config.own.address
        self.book = begin_life(world, "", config.own_name, 0)
        self.sentence = ""
        """What the people of this node should know once it is a member."""
        self.asked = 0
        self.inquiry: Inquiry | None = None
        self.is_over = False
        self._complaints: set[str] = set()

    def start(self) -> None:
        """Ask one node after the other from now on."""
        shown = ", ".join(each.address for each in self.addresses)
        text = f"this node, {self.book.card.name} at {self.address}, asks {shown} to join"
        self.world.log.write("info", text)
        self._ask()

    def _ask(self) -> None:
        place = self.addresses[self.asked % len(self.addresses)]
        self.asked += 1
        question = NodeQuestion(TO_JOIN, self.address)
        self.inquiry = Inquiry(self, self.secret, self.book.card, question, self._answered)
        self.inquiry.begin(place.host, place.port)
        self.world.clock.call_after(JOIN_AGAIN_MS, self, AskNext())

    def receive(self, message: object) -> None:
        if isinstance(message, AskNext):
            self._look()
        else:
            assert isinstance(message, WriteNodeFile), f"who joins got {message!r}"
            if message.failure is not None:
                raise message.failure
            self.is_over = True
            self.joined(self.sentence)

    def _look(self) -> None:
        """Ask again, unless an answer is awaited still."""
        if self.is_over or self.inquiry is None:
            return
        self.inquiry.look(self.world.clock.now_ns())
        if self.inquiry.is_over:
            self._ask()
        else:
            self.world.clock.call_after(JOIN_AGAIN_MS, self, AskNext())

    def _answered(self, answer: NodeAnswer | None, reason: str) -> None:
        place = self.addresses[(self.asked - 1) % len(self.addresses)].address
        if answer is None:
            self._complain(f"the node at {place} cannot be asked: {reason}")
        elif answer.verdict == WELCOME:
            self._welcomed(answer)
        elif answer.verdict == LATER:
            self._complain(f"the node at {place} says: {answer.sentence}")
        else:
            self._refuse(answer.sentence)

    def _complain(self, sentence: str) -> None:
        if not self.waits:
            self._refuse(sentence)
        elif sentence not in self._complaints:
            self._complaints.add(sentence)
            self.world.log.write("warning", sentence)

    def _refuse(self, sentence: str) -> None:
        self.is_over = True
        self.inquiry = None
        self.refused(sentence)

    def _welcomed(self, answer: NodeAnswer) -> None:
        """Become what the answer says; nothing is asked any more."""
        self.inquiry = None
        self.sentence = answer.sentence
        joined = replace(
            self.book.record,
            cluster=answer.cluster,
            node=answer.node,
            nodes=answer.nodes,
            members=answer.members,
            address=self.address,
            is_joining=True,
        )
        self.book.welcome(joined, self)


def demand_new(world: World, is_used: bool) -> None:
    """Raise Refused unless the data directory is that of a node that can join. `is_used` says that
    a broker has stored something there."""
    if is_used and not is_there(world.disk.files):
        raise Refused(
            "cluster.join is set, and the broker of this data directory has run alone: only a node"
            " with a new data directory can become part of a cluster; nothing was changed"
        )
