"""quorum queues without the lead ---rows of commands---> ASK POST ---frames---> the leader

Each node of a cluster has one. It knows which node leads each group: a new leader tells all nodes,
and later each node that comes up. And it carries requests of this node's channels to the leader:
the rows of one turn to a node, of whatever groups, go in few frames.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.cluster.cluster_port import (
    QUORUM_ASK,
    QUORUM_LEADERS,
    STOPS,
    NodeDown,
    NodeSuspected,
    NodeTrusted,
    NodeUp,
    PeerMessage,
)
from sluicemq.compiling import mypyc_attr
from sluicemq.flow.gate import GateKeeper
from sluicemq.kernel.actor import Actor
from sluicemq.limits import QUEUE_FRAME_BYTES, QUORUM_LEADERS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.cluster.cluster_port import ClusterPort
    from sluicemq.flow.gate import Gate
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.world import Clock, Log

ROW_HEAD: Final = Struct("<QQQB3xI")
"""Group, the leader's term, the row's number, whether it is the first row sent to this leader, and
how many bytes of commands follow."""
LEADER: Final = Struct("<QQ")
"""Group, term."""


class LeaderKnown(NamedTuple):
    """Posted to a queue: this node has announced that it leads the group in that term; 0: the
    leader cannot be reached."""

    term: int
    node: int


class AskAgain(NamedTuple):
    """Posted to a queue that had no room to send a row to a node: now there is room."""


@mypyc_attr(acyclic=True)
class RowCame:
    """Posted to the queue whose member has announced that it leads in `term`: row `number` of that
    node, with encoded commands. `is_first`: those before it are known to be applied."""

    __slots__ = ("data", "is_first", "node", "number", "term")

    def __init__(self, node: int, term: int, number: int, is_first: bool, data: bytes) -> None:
        self.node = node
        self.term = term
        self.number = number
        self.is_first = is_first
        self.data = data


class NodeAsked(GateKeeper):
    """The traffic from this node's queues to another node: its gate tells when there is
    room again.
    """

    __slots__ = ("gate", "is_up", "post", "rows", "waiting")

    def __init__(self, clock: Clock, post: AskPost, node: int) -> None:
        super().__init__(clock)
        self.post = post
        self.is_up = False
        self.rows: list[bytes] = []
        """The heads and commands of the rows that go at the end of the turn."""
        self.waiting: dict[int, None] = {}
        """Groups that have a row to send there when there is room."""
        self.gate: Gate = post.cluster.feed(node, self)

    def flow_resumed(self) -> None:
        self.post.schedule()


class AskPost(Actor):
    """The post of this node, which `cluster` links to the others."""

    def __init__(self, scheduler: Scheduler, clock: Clock, log: Log, cluster: ClusterPort) -> None:
        super().__init__(scheduler)
        self.log = log
        self.cluster = cluster
        self.queues: dict[int, Actor] = {}
        """This node's queues with members on several nodes, by group."""
        self.followers: dict[int, Actor] = {}
        """Other actors that follow the leader, by group."""
        self.stopped: dict[int, None] = {}
        """Nodes that were stopped in order and are not up again."""
        self.leaders: dict[int, LeaderKnown] = {}
        """The last announcement for each group."""
        self.led: dict[int, int] = {}
        """The groups that this node leads, each with its term."""
        self.news: dict[int, int] = {}
        """Those of them that the other nodes do not know of yet."""
        self.greeted: dict[int, None] = {}
        """Nodes that have come up, and are to be told of all."""
        self.clock = clock
        self.asked: dict[int, NodeAsked] = {}
        cluster.each_node(self._know)
        cluster.handle(QUORUM_ASK, self)
        cluster.handle(QUORUM_LEADERS, self)
        cluster.follow(self)

    def _know(self, node: int) -> None:
        self.asked[node] = NodeAsked(self.clock, self, node)

    # -- the queues

    def open(self, group: int, queue: Actor) -> None:
        """Post to `queue` from now on its group's leader, at once if it is known, and requests of
        other nodes; it replaces the queue that was open before, if any."""
        self.queues[group] = queue
        known = self.leaders.get(group)
        if known is not None:
            queue.post(known)

    def follow(self, group: int, follower: Actor) -> None:
        """Post to `follower` from now on the group's leader, at once if it is known."""
        self.followers[group] = follower
        known = self.leaders.get(group)
        if known is not None:
            follower.post(known)

    def close(self, group: int, *, is_deleted: bool) -> None:
        """Forget the member of a group, and the group if it is deleted. Otherwise the leader stays
        known: it is announced only once, and the next member here needs it."""
        self.queues.pop(group, None)
        term = self.led.pop(group, 0)
        if is_deleted:
            self.leaders.pop(group, None)
        elif term:
            self.ceased(group, term)

    def forget(self, group: int) -> None:
        """Forget the leader of a group whose queue is not declared any more."""
        self.leaders.pop(group, None)
        self.followers.pop(group, None)

    def leads(self, group: int, term: int) -> None:
        """Announce that this node leads a group from now on."""
        self.led[group] = self.news[group] = term
        self._note(group, LeaderKnown(term, self.cluster.node))
        self.schedule()

    def ceased(self, group: int, term: int) -> None:
        """Note that this node does not lead a group any more."""
        if self.led.get(group) == term:
            del self.led[group]
        if self.leaders.get(group) == LeaderKnown(term, self.cluster.node):
            self.leaders[group] = LeaderKnown(term, 0)

    def leader_of(self, group: int) -> int:
        """Return the node that leads the group as far as this node knows; 0: it does not know."""
        known = self.leaders.get(group)
        return 0 if known is None else known.node

    def has_room(self, node: int, group: int) -> bool:
        """Tell whether a row may be sent to that node now. If not, the queue gets AskAgain when it
        may, or LeaderKnown when the leader changes."""
        asked = self.asked.get(node)
        if asked is None or not asked.is_up:
            return False
        if asked.gates_shut:
            asked.waiting[group] = None
            return False
        return True

    def ask(
        self, node: int, group: int, term: int, number: int, data: bytes, *, is_first: bool
    ) -> None:
        """Send a row of commands, at the end of the turn, to the node that leads the group in that
        term. It may get lost with the link."""
        rows = self.asked[node].rows
        rows += [ROW_HEAD.pack(group, term, number, is_first, len(data)), data]
        self.schedule()

    # -- the other nodes

    def receive(self, message: object) -> None:
        if isinstance(message, PeerMessage):
            if message.frame_type is QUORUM_ASK:
                self._hand_on(message)
            else:
                self._hear(message)
        elif isinstance(message, NodeUp):
            self.asked[message.node].is_up = True
            self.stopped.pop(message.node, None)
            self.greeted[message.node] = None
        elif isinstance(message, NodeDown):
            if STOPS in message.reason:
                self.stopped[message.node] = None
            self._lose(message.node)
        else:
            assert isinstance(message, NodeSuspected | NodeTrusted), message

    def _hand_on(self, frame: PeerMessage) -> None:
        """Hand rows to their queues. A node without such a queue has announced that it leads it, so
        news of the deletion, or of the next leader, is on the way."""
        payload = frame.payload
        node = frame.source.node
        at = 0
        try:
            while at < len(payload):
                group, term, number, is_first, size = ROW_HEAD.unpack_from(payload, at)
                start = at + ROW_HEAD.size
                at = start + size
                data = payload[start:at]
                if len(data) < size:
                    raise struct.error
                queue = self.queues.get(group)
                if queue is not None:
                    queue.post(RowCame(node, term, number, bool(is_first), data))
        except struct.error:
            self._broken(frame, "a row of commands that is cut off")

    def _hear(self, frame: PeerMessage) -> None:
        if len(frame.payload) % LEADER.size:
            self._broken(frame, "a list of leaders that is cut off")
            return
        node = frame.source.node
        for group, term in LEADER.iter_unpack(frame.payload):
            self._note(group, LeaderKnown(term, node))

    def _broken(self, frame: PeerMessage, what: str) -> None:
        node = frame.source.node
        self.log.write("error", f"node {node} has sent {what}: its link is set up again")
        self.cluster.end_link(node, what)

    def _note(self, group: int, known: LeaderKnown) -> None:
        """Note a group's leader, unless a newer one is known."""
        before = self.leaders.get(group)
        if before is not None and before.term > known.term:
            return
        if before is None and len(self.leaders) >= QUORUM_LEADERS_MAX:
            return
        self.leaders[group] = known
        for table in (self.queues, self.followers):
            if group in table:
                table[group].post(known)

    def _lose(self, node: int) -> None:
        """Let queues whose leader's node is not linked any more look for another leader."""
        asked = self.asked[node]
        asked.is_up = False
        asked.rows.clear()
        asked.waiting.clear()
        self.greeted.pop(node, None)
        for group, known in self.leaders.items():
            if known.node == node:
                self._note(group, LeaderKnown(known.term, 0))

    def turn_ended(self) -> None:
        """Send rows, announce leaders, and tell queues that have waited for room that there is
        some."""
        for node, asked in self.asked.items():
            if not asked.is_up:
                continue
            if asked.rows:
                parts, asked.rows = asked.rows, []
                for payload in payloads(parts):
                    self.cluster.send(node, QUORUM_ASK, payload)
            rows = self.led if node in self.greeted else self.news
            if rows:
                payload = b"".join([LEADER.pack(*row) for row in rows.items()])
                self.cluster.send(node, QUORUM_LEADERS, payload)
            if asked.waiting and not asked.gates_shut:
                groups, asked.waiting = asked.waiting, {}
                for group in groups:
                    queue = self.queues.get(group)
                    if queue is not None:
                        queue.post(AskAgain())
        self.news = {}
        self.greeted = {}


def payloads(parts: list[bytes]) -> Iterator[bytes]:
    """Yield the payloads of frames with these rows, each of which is a head and commands. None has
    more than a frame should have, but each has at least one row."""
    start = size = 0
    for at in range(0, len(parts), 2):
        more = len(parts[at]) + len(parts[at + 1])
        if size and size + more > QUEUE_FRAME_BYTES:
            yield b"".join(parts[start:at])
            start, size = at, 0
        size += more
    yield b"".join(parts[start:])
