"""The file with a node's identity: its name, its number of starts, and the members that it has met.

One line of JSON and, on a second line, its crc32c in hexadecimal (docs/cluster-wire.md). It is
replaced as a whole: the new file is synced under another name and renamed, and the directory
synced. Without a readable file the node does not start: with another file it would be another node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google_crc32c import value
from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode, encode
from msgspec.structs import replace

from sluicemq.cluster.introduction import TOKEN_BYTES, NodeCard
from sluicemq.cluster.members import MemberBook
from sluicemq.cluster.node_path import DIRECTORY, PATH, UNFINISHED, is_there
from sluicemq.errors import Corrupt, Refused
from sluicemq.kernel.address import INCARNATION_MAX
from sluicemq.kernel.disk import Disk, DiskJob

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.cluster.members import Member
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.disk import Files
    from sluicemq.kernel.world import World

FORMAT: Final = 1
STRAND: Final = 1
"""The disk's strand, shared with the message store: only starts of other nodes make it busy."""
FILE_BYTES_MAX: Final = 1 << 20


class MetMember(Struct, frozen=True, omit_defaults=True):
    """A member as it was last met. `address` is where it is reached; "": as in the list
    of nodes.
    """

    node: int
    name: str
    home: str
    incarnation: int
    address: str = ""


class NodeRecord(Struct, frozen=True, omit_defaults=True):
    """The content of the file. `cluster` is "" before there is one; `nodes` are the addresses of
    all its nodes when it was founded. `home` is the mark of this data directory, in hexadecimal.
    `address` is where the others reach a node that joined later; while it `is_joining` nothing that
    it has stored counts. `left_behind` are the nodes that were lost when this one was made a
    cluster of its own by force."""

    format: int
    cluster: str
    name: str
    node: int
    home: str
    incarnation: int
    members: list[MetMember]
    nodes: list[str] = []
    address: str = ""
    is_joining: bool = False
    left_behind: list[MetMember] = []


def encode_node_file(record: NodeRecord) -> bytes:
    """Return a record as the file's bytes."""
    line = encode(record)
    return line + b"\n%08x\n" % value(line)


def decode_node_file(raw: bytes) -> NodeRecord:
    """Return the record in the file's bytes. Raises Corrupt."""
    line, _, checksum = raw.partition(b"\n")
    if checksum != b"%08x\n" % value(line):
        raise Corrupt(f"{PATH} is damaged: its checksum is wrong")
    try:
        record = decode(line, type=NodeRecord)
        homes = [record.home, *(each.home for each in record.members)]
        are_homes = all(len(bytes.fromhex(home)) == TOKEN_BYTES for home in homes)
    except (DecodeError, ValidationError, ValueError) as error:
        raise Corrupt(f"{PATH} cannot be read: {error}") from error
    if record.format != FORMAT or not are_homes:
        raise Corrupt(f"{PATH} is of format {record.format}, and only {FORMAT} is known")
    return record


def replace_node_file(files: Files, record: NodeRecord) -> None:
    """Replace the file, durably. Raises DiskFailed; then the file is as before."""
    files.delete(UNFINISHED)
    files.write(UNFINISHED, 0, encode_node_file(record))
    files.sync(UNFINISHED)
    files.rename(UNFINISHED, PATH)
    files.sync_directory(DIRECTORY)


class WriteNodeFile(DiskJob):
    """Replaces the file by one with this record."""

    def __init__(self, record: NodeRecord) -> None:
        self.record = record

    def run(self, files: Files) -> None:
        replace_node_file(files, self.record)


class NodeFile(MemberBook):
    """The file of a node in its present life; this object is its only writer."""

    def __init__(self, disk: Disk, record: NodeRecord, start: bytes) -> None:
        self.disk = disk
        self.record = record
        self.card = NodeCard(
            record.cluster,
            record.name,
            record.node,
            record.incarnation,
            bytes.fromhex(record.home),
            start,
        )

    @property
    def own(self) -> MetMember:
        """Return this node in the form in which others keep it."""
        record = self.record
        return MetMember(record.node, record.name, record.home, record.incarnation)

    def recall(self, members: Iterable[Member]) -> None:
        met = {each.node: each for each in self.record.members}
        for member in members:
            known = met.get(member.number)
            if known is not None:
                member.recall(known.name, bytes.fromhex(known.home), known.incarnation)

    def write(self, members: Iterable[Member], actor: Actor) -> bool:
        if not self.record.cluster:
            return False  # before there is a cluster another node may come in a member's place
        founders = len(self.record.nodes)
        known = {each.node: each for each in self.record.members}
        rows: list[MetMember] = []
        for each in members:
            if each.home:
                row = (each.number, each.name, each.home.hex(), each.incarnation)
                rows.append(MetMember(*row, "" if each.number <= founders else each.address))
            elif each.number in known:  # lost while this node's cluster was being made durable
                rows.append(known[each.number])
        self.record = replace(self.record, members=rows)
        self.disk.submit(WriteNodeFile(self.record), actor, STRAND)
        return True

    def join(
        self, cluster: str, nodes: list[str], members: Iterable[MetMember], actor: Actor
    ) -> None:
        """Make this node's cluster and its other members durable. A WriteNodeFile is posted to
        `actor` when that is done, or has failed."""
        assert not self.record.cluster, "a node belongs to one cluster"
        others = [each for each in members if each.node != self.record.node]
        self.record = replace(self.record, cluster=cluster, nodes=nodes, members=others)
        self.disk.submit(WriteNodeFile(self.record), actor, STRAND)

    def welcome(self, joined: NodeRecord, actor: Actor) -> None:
        """Make durable that this node has joined a cluster that exists already, with the record
        `joined`. A WriteNodeFile is posted to `actor` as by `join`."""
        assert not self.record.cluster, "a node belongs to one cluster"
        self.record = joined
        self.disk.submit(WriteNodeFile(self.record), actor, STRAND)

    def settle(self) -> None:
        """Make durable, before this returns, that what this node stores counts from now on. Raises
        DiskFailed."""
        self.record = replace(self.record, is_joining=False)
        replace_node_file(self.disk.files, self.record)


def kept_record(files: Files) -> NodeRecord | None:
    """Return the record in a node's file; None if there is none, or the node belongs to no cluster.
    Raises Corrupt."""
    if not is_there(files):
        return None
    record = decode_node_file(files.read(PATH, 0, FILE_BYTES_MAX))
    return record if record.cluster else None


def begin_life(
    world: World, cluster: str, name: str, node: int, nodes: list[str] | None = None
) -> NodeFile:
    """Read or make the file of the node with that name and number, and begin its next life, durably
    before this returns. With `cluster` "" the cluster and the number are those in the file, if it
    has a cluster; `nodes`, of which this is number `node`, must then be known (None: this is not
    checked). Raises Refused when the data directory is another node's, Corrupt when the file cannot
    be read, DiskFailed."""
    files = world.disk.files
    record = NodeRecord(FORMAT, cluster, name, node, world.dice.token(TOKEN_BYTES).hex(), 0, [])
    if is_there(files):
        found = decode_node_file(files.read(PATH, 0, FILE_BYTES_MAX))
        if found.cluster:
            record = replace(record, cluster=cluster or found.cluster)
            demand_same(found, record, nodes)
        record = replace(found, name=name, node=found.node if found.cluster else node)
    else:
        files.make_directory(DIRECTORY)
    assert record.incarnation < INCARNATION_MAX
    record = replace(record, incarnation=record.incarnation + 1)
    replace_node_file(files, record)
    return NodeFile(world.disk, record, world.dice.token(TOKEN_BYTES))


def demand_same(found: NodeRecord, wanted: NodeRecord, nodes: list[str] | None) -> None:
    """Raise Refused unless the node in the file is the wanted one, of a cluster with these nodes
    (None: with any)."""
    wanted_node = wanted.node
    if nodes is not None:
        demand_known(found, nodes, nodes[wanted.node - 1])
        wanted_node = found.node
    elif not wanted.node:
        wanted_node = found.node
    if (found.cluster, found.name, found.node) != (wanted.cluster, wanted.name, wanted_node):
        raise Refused(
            f"the data directory is that of node {found.node} ({found.name}) of the cluster "
            f"{found.cluster!r}, and this is to be node {wanted.node} ({wanted.name}) of "
            f"{wanted.cluster!r}"
        )


def demand_known(found: NodeRecord, nodes: list[str], own: str) -> None:
    """Raise Refused unless a list of nodes, in which `own` is this one's address, can be its
    cluster's: the one of the founding, or a newer one."""
    is_founder = found.node <= len(found.nodes)
    known_own = found.nodes[found.node - 1] if is_founder else found.address
    if own != known_own:
        raise Refused(
            f"cluster.nodes has {own} for this node, and its cluster knows it at {known_own}"
        )
    known = [*found.nodes, *(each.address for each in found.members)]
    others = [each for each in nodes if each != own]
    if others and not any(each in known for each in others):
        raise Refused(
            f"cluster.nodes has {', '.join(nodes)}, and the cluster of this data directory was "
            f"founded with {', '.join(found.nodes)}, of which it has none but this node"
        )
