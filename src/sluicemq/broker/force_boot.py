"""Forced boot: a node goes on without the others, of which a majority is lost for good, as a
cluster of its own.

The new cluster has a new id, which keeps the two apart: a node that comes back belongs to the old
one, and each refuses the other (decision 0028). The node is not running meanwhile. First its node
file is given the new id, then a checkpoint removes the others from its groups; if interrupted in
between, it is repeated. The node removes the others from the definitions when it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from sluicemq.cluster.introduction import TOKEN_BYTES
from sluicemq.cluster.node_file import MetMember, kept_record, replace_node_file
from sluicemq.errors import Refused
from sluicemq.kernel.address import node_of
from sluicemq.metadata.proposals import DEFINITIONS_GROUP
from sluicemq.storage.message_files import PERSISTENT, TRANSIENT, MessageFiles
from sluicemq.storage.message_index import DictIndex
from sluicemq.storage.raft.sole_survivor import go_on_alone
from sluicemq.storage.recovery import Recovery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluicemq.cluster.node_file import NodeRecord
    from sluicemq.kernel.disk import Files
    from sluicemq.metadata.events import DeclaredQueue

ENTRY_COUNT: Final = 16384
"""Of the segments of queues that are made; a directory that has some says itself."""
FILE_BYTES: Final = 16 << 20
"""After so many bytes another file of the message store is begun."""


class QueueAtRisk(NamedTuple):
    """A queue that is lost or may have lost something. `is_lost`: nothing of it is on this node."""

    vhost: str
    name: str
    type: str
    is_lost: bool


class ForceBoot:
    """Makes the node of one data directory a cluster of its own. `token(n)` returns n random bytes;
    `say` takes a line, as (level, text).

    The constructor examines the directory, and changes nothing. It raises Refused when the
    directory's node is not in a cluster with others, or when its definitions are damaged,
    LossRefused when a start would be refused, Corrupt, and DiskFailed.
    """

    def __init__(
        self, files: Files, token: Callable[[int], bytes], say: Callable[[str, str], None]
    ) -> None:
        self.files = files
        self.token = token
        record = kept_record(files)
        if record is None:
            raise Refused("the data directory does not belong to a node of a cluster")
        self.record: NodeRecord = record
        self.persistent, self.transient = (
            MessageFiles(kind, DictIndex(), FILE_BYTES, self._file_id)
            for kind in (PERSISTENT, TRANSIENT)
        )
        self.recovery = Recovery(files, ENTRY_COUNT, self._file_id, say)
        self.recovery.look(self.persistent)
        self.recovery.decide()
        definitions = self.recovery.groups.groups.get(DEFINITIONS_GROUP)
        if definitions is None or definitions.is_amnesiac:
            raise Refused(
                "this node has no definitions, or damaged ones: go on with another node that is"
                " left"
            )
        self.others = [*self._others()]
        """The nodes that are left behind."""
        if not self.others:
            raise Refused(f"{record.name} is the only node of its cluster")

    def _file_id(self) -> bytes:
        return self.token(16)

    def _others(self) -> Iterator[MetMember]:
        """Yield the founders and the nodes that joined, except this node and those that were
        removed."""
        state, record = self.recovery.declared, self.record
        assert state is not None, "a member has definitions"
        met = {each.node: each for each in record.members}
        for number in range(1, len(record.nodes) + 1):
            if number not in met:
                met[number] = MetMember(number, f"node {number}", "", 0)
        for each in state.nodes.added.values():
            met[each.number] = MetMember(each.number, each.name, each.home, 0, each.address)
        for number, member in sorted(met.items()):
            if number != record.node and not state.nodes.is_gone(number):
                yield member

    def at_risk(self) -> Iterator[QueueAtRisk]:
        """Yield the queues that are lost, and the quorum queues with a member here: these may lose
        what this node had not received yet."""
        state = self.recovery.declared
        assert state is not None, "a member has definitions"
        for vhost, host in state.hosts.items():
            for queue in (*host.queues.values(), *host.holding.values()):
                is_lost = not self._is_here(queue)
                if is_lost or queue.members:
                    definition = queue.definition
                    yield QueueAtRisk(vhost, definition.name, definition.type, is_lost)

    def _is_here(self, queue: DeclaredQueue) -> bool:
        """Tell whether this node has the contents of a queue."""
        own = self.record.node
        if not queue.members:
            return queue.home == own
        group = self.recovery.groups.groups.get(queue.id)
        return any(node_of(each) == own for each in queue.members) and not (
            group is None or group.is_amnesiac
        )

    def run(self) -> str:
        """Make the node a cluster of its own, durably, and return the new cluster's id. Raises
        DiskFailed."""
        cluster = self.token(TOKEN_BYTES).hex()
        behind = {each.node: each for each in (*self.record.left_behind, *self.others)}
        record = replace(self.record, cluster=cluster, left_behind=[*behind.values()])
        replace_node_file(self.files, record)
        go_on_alone(self.recovery.groups, self.record.node)
        self.recovery.settle(self.persistent, self.transient)
        return cluster
