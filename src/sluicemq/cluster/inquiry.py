"""A question of a node that has no link, on a connection of its own: may it join the cluster, or
does it still belong to it?

    asking node                          asked node
    handshake, each proves itself   <->
    question                         ->
                                    <-   answer; then the connection is closed

The asked node need not be able to agree on anything: it may answer that it is to be asked later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode, encode

from sluicemq.cluster.cluster_port import ANSWER, ASK, GOODBYE, QUESTION, PeerMessage
from sluicemq.cluster.connection import LinkConnection, LinkPort
from sluicemq.cluster.connection_port import ConnectionKeeper
from sluicemq.cluster.frame import BrokenFrame
from sluicemq.cluster.handshake import DialerHandshake
from sluicemq.cluster.introduction import NONCE_BYTES, Introduction
from sluicemq.cluster.node_file import MetMember
from sluicemq.kernel.address import ActorAddress
from sluicemq.limits import INQUIRY_NS

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.cluster.connection_port import ConnectionWorld
    from sluicemq.cluster.introduction import NodeCard
    from sluicemq.kernel.world import Clock

TO_JOIN: Final = "join"
TO_STAY: Final = "stay"
"""What is asked: to become a member; whether this node is one still."""

WELCOME: Final = "welcome"
LATER: Final = "later"
REFUSED: Final = "refused"
REMOVED: Final = "removed"
"""What is answered: it is a member, and all else is in the answer; nobody can say so now; it cannot
be; it was one, and never will be again."""


class NodeQuestion(Struct, frozen=True):
    """A question, and the address at which other nodes would reach the asking one."""

    wants: str
    address: str


class NodeAnswer(Struct, frozen=True, omit_defaults=True):
    """The answer. `sentence` gives the reason, unless it is WELCOME; then it is a hint for the
    operators of that node, if there is one. `nodes` are the addresses of the founders, `members`
    all members except the asking node."""

    verdict: str
    sentence: str = ""
    cluster: str = ""
    node: int = 0
    nodes: list[str] = []
    members: list[MetMember] = []


class NodeDesk:
    """Answers the questions of nodes that have no link to this one."""

    def asked(
        self, card: NodeCard, question: NodeQuestion, answer: Callable[[NodeAnswer], None]
    ) -> None:
        """Give one answer, now or later, to a node that has proven that it knows the secret."""
        raise NotImplementedError


def address_of(card: NodeCard) -> ActorAddress:
    """Return the address of a node in its life, as frames have it."""
    return ActorAddress(card.node, card.incarnation, 0)


class AskLink(LinkPort):
    """The connection, as either side sees it, from `own` to the node `other`; it ends at `until_ns`
    at the latest."""

    def __init__(self, clock: Clock, own: NodeCard, other: ActorAddress) -> None:
        self.own = address_of(own)
        self.other = other
        self.is_over = False
        self.until_ns = clock.now_ns() + INQUIRY_NS
        self.connection: LinkConnection | None = None

    @property
    def ends(self) -> tuple[ActorAddress, ActorAddress]:
        return self.own, self.other

    def attach(self, connection: LinkConnection) -> None:
        """Use that connection, which is the only one."""
        self.connection = connection
        connection.link = self

    def wants(self, connection: LinkConnection) -> bool:
        return not self.is_over

    def heard(self) -> None:
        pass

    def fill(self, connection: LinkConnection) -> None:
        pass

    def drained(self) -> None:
        pass

    def broken(self, sentence: str) -> None:
        self.over(f"it sent {sentence}")

    def lost(self, connection: LinkConnection, reason: str) -> None:
        self.over(reason)

    def look(self, now_ns: int) -> None:
        """End the connection when its time is over; called every so often."""
        if self.connection is not None:
            self.connection.look(now_ns)
        if now_ns >= self.until_ns:
            self.over("it has not answered in time")

    def over(self, reason: str) -> None:
        """Ignore everything from now on, and close the connection."""
        self.is_over = True
        if self.connection is not None:
            self.connection.end()


class Interview(AskLink):
    """The asked side, for the node of that card."""

    def __init__(self, clock: Clock, own: NodeCard, card: NodeCard, desk: NodeDesk) -> None:
        super().__init__(clock, own, address_of(card))
        self.card = card
        self.desk = desk
        self.is_asked = False

    def took(self, connection: LinkConnection, message: PeerMessage) -> None:
        if message.frame_type is GOODBYE:
            return
        if message.frame_type is not QUESTION or self.is_asked:
            raise BrokenFrame(f"a frame {message.frame_type.name!r} where a question belongs")
        try:
            question = decode(message.payload, type=NodeQuestion)
        except (DecodeError, ValidationError) as error:
            raise BrokenFrame(f"a question that cannot be read: {error}") from error
        self.is_asked = True
        self.desk.asked(self.card, question, self.answer)

    def answer(self, answer: NodeAnswer) -> None:
        """Send the answer, the last message; does nothing when it comes too late."""
        if self.is_over or self.connection is None:
            return
        self.connection.send(PeerMessage(ANSWER, *self.ends, encode(answer)))
        self.is_over = True
        self.connection.leave("")


class Inquiry(AskLink, ConnectionKeeper[LinkConnection]):
    """The asking side, with the card `own`, at that host and port. `done` is called once, with the
    answer, or with None and the reason why there is none."""

    def __init__(
        self,
        outside: ConnectionWorld,
        secret: bytes,
        own: NodeCard,
        question: NodeQuestion,
        done: Callable[[NodeAnswer | None, str], None],
    ) -> None:
        super().__init__(outside.world.clock, own, ActorAddress(0, 0, 0))
        self.outside = outside
        self.secret = secret
        self.introduction = Introduction(own, ASK, 1, 0)
        self.question = question
        self.done = done

    def begin(self, host: str, port: int) -> None:
        """Connect to the node that is asked, and ask when it has proven itself."""
        world = self.outside.world
        nonce = world.dice.token(NONCE_BYTES)
        handshake = DialerHandshake(self.secret, nonce, self.introduction)
        connection = LinkConnection(self.outside, self, handshake, f"{host}:{port}")
        self.attach(connection)
        connection.number = world.net.connect(connection, host, port)

    def introduced(self, connection: LinkConnection, other: Introduction) -> None:
        if other.connection is not ASK:
            self.over("it answers for another connection than it was asked for")
            return
        self.other = address_of(other.card)
        connection.send(PeerMessage(QUESTION, *self.ends, encode(self.question)))

    def took(self, connection: LinkConnection, message: PeerMessage) -> None:
        if message.frame_type is not ANSWER:
            raise BrokenFrame(f"a frame {message.frame_type.name!r} where an answer belongs")
        try:
            answer = decode(message.payload, type=NodeAnswer)
        except (DecodeError, ValidationError) as error:
            raise BrokenFrame(f"an answer that cannot be read: {error}") from error
        self.is_over = True
        connection.end()
        self.done(answer, "")

    def over(self, reason: str) -> None:
        was_over = self.is_over
        super().over(reason)
        if not was_over:
            self.done(None, reason)

    def failed(self, connection: LinkConnection, reason: str) -> None:
        self.over(reason)

    def gone(self, connection: LinkConnection) -> None:
        self.connection = None
