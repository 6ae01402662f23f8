"""What the nodes of a cluster tell each other about themselves: their alarms, which stop the
publishers of all nodes, their version, where clients connect, whether they are ready.

A node sends its notice over each new link, and to all when something changes. The notice of a node
that is down does not count any more. Alarms stop clients' publishes only: no alarm holds up traffic
between nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode, encode

from sluicemq.cluster.cluster_port import NODE_NOTICE, NodeDown, NodeUp, PeerMessage
from sluicemq.flow.alarm import DISK, MEMORY, STORAGE, AlarmsChanged
from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicemq.cluster.cluster_port import ClusterPort
    from sluicemq.flow.alarm import AlarmBoard
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.world import Log

COMMON: Final = (MEMORY, DISK)
"""The alarms that stop the publishers of all nodes. A node whose storage has failed ends."""


class NodeNotice(Struct, frozen=True):
    """A node's notice about itself. `alarms` has the reason for each alarm that stops publishers,
    `listeners` are the URLs at which clients reach it."""

    version: str
    is_ready: bool = False
    listeners: list[str] = []
    alarms: dict[str, str] = {}


class NodeNotices(Actor):
    """The notices of all nodes, as this one knows them. `board` has this node's alarms, and gets
    those of the others."""

    def __init__(
        self, scheduler: Scheduler, cluster: ClusterPort, board: AlarmBoard, log: Log, version: str
    ) -> None:
        super().__init__(scheduler)
        self.cluster = cluster
        self.sealed: Callable[[], None] = lambda: None
        """Called when this node's storage has failed; set by the node."""
        self.board = board
        self.log = log
        self.own = NodeNotice(version)
        self.others: dict[int, NodeNotice] = {}
        """By node, of those that are up and have said something."""
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        """Who waits for so many nodes to be ready."""
        cluster.handle(NODE_NOTICE, self)
        cluster.follow(self)
        board.register(self)

    def ready(self, listeners: list[str]) -> None:
        """Announce that this node is ready, with these URLs."""
        self._say(
            NodeNotice(self.own.version, is_ready=True, listeners=listeners, alarms=self.own.alarms)
        )

    @property
    def count_ready(self) -> int:
        """Return the number of nodes that are ready, this one included."""
        return self.own.is_ready + sum(each.is_ready for each in self.others.values())

    def when_ready(self, count: int, function: Callable[[], None]) -> None:
        """Call the function when that many nodes are ready; at once if they are."""
        self._waiting.append((count, function))
        self._look()

    def _look(self) -> None:
        due = [each for each in self._waiting if each[0] <= self.count_ready]
        self._waiting = [each for each in self._waiting if each not in due]
        for _, function in due:
            function()

    def receive(self, message: object) -> None:
        if isinstance(message, PeerMessage):
            self._heard(message.source.node, message.payload)
        elif isinstance(message, NodeUp):
            self.cluster.send(message.node, NODE_NOTICE, encode(self.own))
        elif isinstance(message, NodeDown):
            self.others.pop(message.node, None)
            self.board.of_node(message.node, {})
        elif isinstance(message, AlarmsChanged):
            if STORAGE in self.board.reasons:
                self.sealed()
            alarms = {source: self.board.reasons[source] for source in self._raised()}
            if alarms != self.own.alarms:
                own = self.own
                self._say(NodeNotice(own.version, own.is_ready, own.listeners, alarms))

    def _raised(self) -> list[str]:
        return [source for source in COMMON if source in self.board.reasons]

    def _say(self, notice: NodeNotice) -> None:
        self.own = notice
        for node in self.cluster.nodes:
            if node != self.cluster.node:
                self.cluster.send(node, NODE_NOTICE, encode(notice))
        self._look()

    def _heard(self, node: int, payload: bytes) -> None:
        try:
            notice = decode(payload, type=NodeNotice)
        except (DecodeError, ValidationError) as error:
            text = f"a notice that cannot be read: {error}"
            self.log.write("error", f"node {node} has sent {text}: its link is set up again")
            self.cluster.end_link(node, text)
            return
        was = self.others.get(node)
        self.others[node] = notice
        self._log(node, notice, {} if was is None else was.alarms)
        self.board.of_node(node, notice.alarms)
        self._look()

    def _log(self, node: int, notice: NodeNotice, before: dict[str, str]) -> None:
        for source, reason in notice.alarms.items():
            if source not in before:
                text = f"{source} alarm raised on node {node}, publishers are blocked: {reason}"
                self.log.write("warning", text)
        for source in before:
            if source not in notice.alarms:
                self.log.write("info", f"{source} alarm cleared on node {node}")
