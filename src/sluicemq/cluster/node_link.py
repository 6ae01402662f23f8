"""A link between two nodes that are up. It begins with its control connection, is up when each side
has opened both connections, and is over as soon as one of them is; nothing that comes later is
handed to anybody.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from sluicemq.cluster.cluster_port import (
    CONTROL,
    GOODBYE,
    GRANTS,
    HEARTBEAT,
    OPEN,
    PeerGrant,
    PeerMessage,
)
from sluicemq.cluster.connection import LinkPort
from sluicemq.cluster.detector import FailureDetector
from sluicemq.cluster.frame import BrokenFrame
from sluicemq.compiling import mypyc_attr
from sluicemq.kernel.address import NOBODY, ActorAddress
from sluicemq.limits import LINK_PIECE_BYTES, LINK_SETUP_NS
from sluicemq.text import printable

if TYPE_CHECKING:
    from sluicemq.cluster.cluster_port import FrameType, PeerConnection
    from sluicemq.cluster.connection import LinkConnection
    from sluicemq.cluster.introduction import NodeCard
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.world import Clock

BEAT: Final = Struct("<QQQI")
STALLED_MS_MAX: Final = (1 << 32) - 1
GRANT: Final = Struct("<QQ")
GRANTS_A_FRAME: Final = LINK_PIECE_BYTES // GRANT.size


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkKeeper:
    """The owner of a link, as the link sees it."""

    def link_up(self, link: NodeLink) -> None:
        """Note that the link is up: messages follow."""
        raise NotImplementedError

    def link_over(self, link: NodeLink, reason: str) -> None:
        """Note that the link has ended, for that reason; nothing follows."""
        raise NotImplementedError

    def link_heard(self, link: NodeLink) -> None:
        """Note that something has come over a link that is up."""
        raise NotImplementedError

    def link_drained(self, link: NodeLink) -> None:
        """Note that waiting bytes were written."""
        raise NotImplementedError


class NodeLink(LinkPort):
    """The link numbered `number` by the connecting side, in its present life."""

    def __init__(
        self,
        keeper: LinkKeeper,
        clock: Clock,
        handlers: dict[FrameType, Actor],
        own: NodeCard,
        number: int,
    ) -> None:
        self.keeper = keeper
        self.clock = clock
        self.handlers = handlers
        self.own = ActorAddress(own.node, own.incarnation, 0)
        self.other = NOBODY
        """The other node in its life; NOBODY: it was not met yet."""
        self.card: NodeCard | None = None
        """The other node's proven identity; None: it was not met yet."""
        self.number = number
        self.begun_ns = clock.now_ns()
        self.until_ns = self.begun_ns + LINK_SETUP_NS
        """When it has to be up at the latest."""
        self.connections: dict[PeerConnection, LinkConnection] = {}
        self.is_up = False
        self.is_over = False
        self.up_ns = 0
        """When it came up; 0: it has not."""
        self.is_suspected = False
        self.detector = FailureDetector(self.begun_ns)
        self.contact_ns: int | None = None
        """When the last answered heartbeat was sent; None: none was answered."""
        self.stalled_ms = 0
        """By its heartbeat, for how long the other side's disk has had work and finished none."""
        self.clock_ahead_ms = 0
        """How far its time of day is ahead of this node's, less the transmission time."""
        self.dropped = 0
        """Messages for or from another life of the node."""
        self._opens: set[PeerConnection] = set()
        """The connections that the other side has opened."""
        self._has_opened = False
        self._goodbyes: set[PeerConnection] = set()
        """The connections on which the other side has said goodbye."""
        self._goodbye = ""
        """The other side's goodbye."""
        self._beat_ns = 0
        """The time in the last heartbeat sent; 0: none was."""
        self._answer_ns = 0
        """The other side's time in its last heartbeat; 0: none came."""
        self._grants: dict[int, int] = {}
        """Amounts to be granted with the next write, by the serials of their receivers."""

    @property
    def ends(self) -> tuple[ActorAddress, ActorAddress]:
        return self.own, self.other

    @property
    def takes(self) -> bool:
        """Tell whether messages may be sent: it is up, and the other side has not said goodbye."""
        return self.is_up and not self._goodbyes

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes that wait to be written to both connections."""
        waiting = 0
        for each in self.connections.values():
            waiting += each.outbox.waiting_bytes
        return waiting

    @property
    def behind_first_bytes(self) -> int:
        """Return the bytes that wait behind the first message of each connection."""
        return sum(each.outbox.behind_first_bytes for each in self.connections.values())

    # -- its beginning

    def meet(self, card: NodeCard) -> None:
        """Set the other side's identity, which its card has proven."""
        assert self.other == NOBODY, "a link has one other side"
        self.other = ActorAddress(card.node, card.incarnation, 0)
        self.card = card

    def attach(self, connection: LinkConnection, kind: PeerConnection) -> None:
        """Make a connection a part of the link."""
        assert kind not in self.connections, f"two connections for {kind}"
        self.connections[kind] = connection
        connection.link = self

    @property
    def is_complete(self) -> bool:
        """Tell whether both handshakes are over."""
        has_frames = [each.has_frames for each in self.connections.values()]
        return len(has_frames) == 2 and all(has_frames)

    def open(self) -> None:
        """Tell the other side on both connections that this side is ready."""
        if self._has_opened or self.is_over:
            return
        self._has_opened = True
        for connection in self.connections.values():
            connection.send(PeerMessage(OPEN, *self.ends, b""))
        self._look_whether_up()

    def _look_whether_up(self) -> None:
        if self._has_opened and len(self._opens) == 2:
            self.is_up = True
            self.up_ns = self.clock.now_ns()
            self.detector = FailureDetector(self.up_ns)
            self.keeper.link_up(self)
            for connection in self.connections.values():
                connection.schedule()

    # -- incoming

    def wants(self, connection: LinkConnection) -> bool:
        if connection.kind in self._goodbyes:
            return False
        return self.is_up or connection.kind not in self._opens

    def heard(self) -> None:
        self.detector.heard(self.clock.now_ns())
        if self.is_up:
            self.keeper.link_heard(self)

    def took(self, connection: LinkConnection, message: PeerMessage) -> None:
        frame_type = message.frame_type
        if message.source[:2] != self.other[:2] or message.target[:2] != self.own[:2]:
            self.dropped += 1
        elif frame_type is OPEN:
            self._opened(connection)
        elif frame_type is GOODBYE:
            self._took_goodbye(connection, message.payload)
        elif not self.is_up:
            raise BrokenFrame(f"a frame {frame_type.name!r} before it was open")
        elif frame_type is HEARTBEAT:
            self._took_heartbeat(message.payload)
        else:
            handler = self.handlers.get(frame_type)
            if handler is None:
                raise BrokenFrame(f"a frame {frame_type.name!r}, which nobody here handles")
            if frame_type is GRANTS:
                self._took_grants(handler, message.payload)
            else:
                handler.post(message)

    def _opened(self, connection: LinkConnection) -> None:
        assert connection.kind is not None
        if connection.kind in self._opens:
            raise BrokenFrame("a frame 'open' on a connection that is open")
        self._opens.add(connection.kind)
        self._look_whether_up()

    def _took_goodbye(self, connection: LinkConnection, payload: bytes) -> None:
        """End a connection; end the link once all earlier messages of both have come."""
        assert connection.kind is not None
        self._goodbyes.add(connection.kind)
        self._goodbye = f'it said goodbye: "{printable(payload.decode(errors="replace"))}"'
        if len(self._goodbyes) == 2 or not self.is_up:
            self.end(self._goodbye)

    def _took_heartbeat(self, payload: bytes) -> None:
        if len(payload) != BEAT.size:
            raise BrokenFrame(f"a heartbeat of {len(payload)} bytes")
        self._answer_ns, answered_ns, wall_ms, self.stalled_ms = BEAT.unpack(payload)
        self.clock_ahead_ms = wall_ms - self.clock.wall_ms()
        if answered_ns > self._beat_ns:
            raise BrokenFrame("an answer to a heartbeat that was never sent")
        now_ns = self.clock.now_ns()
        if answered_ns:
            self.contact_ns = max(answered_ns, self.contact_ns or 0)
            self.detector.answered(answered_ns, now_ns)
        self.detector.beat(now_ns)

    def _took_grants(self, handler: Actor, payload: bytes) -> None:
        if len(payload) % GRANT.size:
            raise BrokenFrame(f"grants of {len(payload)} bytes")
        for serial, amount in GRANT.iter_unpack(payload):
            handler.post(PeerGrant(self.other.node, self.own._replace(serial=serial), amount))

    # -- outgoing

    def send(
        self, frame_type: FrameType, payload: bytes, serial: int, target: ActorAddress, flags: int
    ) -> None:
        """Queue a message for its connection. The link must be up."""
        assert self.takes and not self.is_over
        assert frame_type.connection is not None, "a message of the link's own"
        source = ActorAddress(self.own.node, self.own.incarnation, serial)
        message = PeerMessage(frame_type, source, target, payload, flags)
        self.connections[frame_type.connection].send(message)

    def grant(self, serial: int, amount: int) -> None:
        """Grant an amount to an actor of the other node, with the next write."""
        self._grants[serial] = self._grants.get(serial, 0) + amount
        self.connections[CONTROL].schedule()

    def beat(self, stalled_ms: int) -> None:
        """Send a heartbeat, which replaces one that still waits. This node's disk has had work for
        `stalled_ms` and finished none."""
        self._beat_ns = self.clock.now_ns()
        stalled_ms = min(stalled_ms, STALLED_MS_MAX)
        payload = BEAT.pack(self._beat_ns, self._answer_ns, self.clock.wall_ms(), stalled_ms)
        control = self.connections[CONTROL]
        control.outbox.put_first(PeerMessage(HEARTBEAT, *self.ends, payload))
        control.schedule()

    def fill(self, connection: LinkConnection) -> None:
        if connection.kind is CONTROL and self._grants and not connection.outbox.has_first(GRANTS):
            rows = [*self._grants.items()][:GRANTS_A_FRAME]
            for serial, _ in rows:
                del self._grants[serial]
            payload = b"".join(GRANT.pack(*row) for row in rows)
            connection.outbox.put_first(PeerMessage(GRANTS, *self.ends, payload))
            if self._grants:
                connection.schedule()

    def drained(self) -> None:
        self.keeper.link_drained(self)

    # -- its end

    def lost(self, connection: LinkConnection, reason: str) -> None:
        is_in_order = connection.kind in self._goodbyes and self.is_up
        if not is_in_order or all(each.is_closed for each in self.connections.values()):
            self.end(self._goodbye or reason)

    def broken(self, sentence: str) -> None:
        self.end(f"it sent {sentence}", sentence)

    def end(self, reason: str, sentence: str = "") -> None:
        """End the link; only the first call counts. The other side gets the sentence if it can be
        sent at once."""
        if self.is_over:
            return
        self._finish(reason)
        for connection in self.connections.values():
            connection.end(sentence)

    def leave(self, sentence: str) -> None:
        """End the link in order: waiting messages are written, and then the sentence."""
        if self.is_over:
            return
        if not self.is_up:
            self.end(sentence, sentence)
            return
        self._finish(sentence)
        for connection in self.connections.values():
            connection.leave(sentence)

    def _finish(self, reason: str) -> None:
        self.is_over = True
        self._grants.clear()
        self.keeper.link_over(self, reason)
