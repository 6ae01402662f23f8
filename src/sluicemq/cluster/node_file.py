"""The file that makes a node itself: who it is, how often it has started, and whom it has met.

One line of JSON and, on a second line, its crc32c in hexadecimal (docs/cluster-wire.md). It is
replaced as a whole: what is new is synced under another name, renamed, and the directory synced.
While it cannot be read the node does not start: with another one it would be another node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google_crc32c import value
from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode, encode

from sluicemq.cluster.introduction import TOKEN_BYTES, NodeCard
from sluicemq.cluster.members import MemberBook
from sluicemq.errors import Corrupt, Refused
from sluicemq.kernel.address import INCARNATION_MAX
from sluicemq.kernel.disk import Disk, DiskJob

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.cluster.members import Member
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.disk import Files
    from sluicemq.kernel.world import World

DIRECTORY: Final = "cluster"
PATH: Final = "cluster/node"
UNFINISHED: Final = "cluster/node.tmp"
FORMAT: Final = 1
STRAND: Final = 1
"""Of the disk, with the message store's: a start of another node is all that makes it busy."""
FILE_BYTES_MAX: Final = 1 << 20


class MetMember(Struct, frozen=True):
    """A member as it was met last."""

    node: int
    name: str
    home: str
    incarnation: int


class NodeRecord(Struct, frozen=True):
    """All that the file says. `home` is the mark of this data directory, in hexadecimal."""

    format: int
    cluster: str
    name: str
    node: int
    home: str
    incarnation: int
    members: list[MetMember]


def encode_node_file(record: NodeRecord) -> bytes:
    """Return what is to be in the file."""
    line = encode(record)
    return line + b"\n%08x\n" % value(line)


def decode_node_file(raw: bytes) -> NodeRecord:
    """Return what the file says. Raises Corrupt."""
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
    """Make the file say that, durably. Raises DiskFailed; then it says what it said before."""
    files.delete(UNFINISHED)
    files.write(UNFINISHED, 0, encode_node_file(record))
    files.sync(UNFINISHED)
    files.rename(UNFINISHED, PATH)
    files.sync_directory(DIRECTORY)


class WriteNodeFile(DiskJob):
    """Replaces the file by what the record says."""

    def __init__(self, record: NodeRecord) -> None:
        self.record = record

    def run(self, files: Files) -> None:
        replace_node_file(files, self.record)


class NodeFile(MemberBook):
    """The file, once this node has begun its life; it is the only one who writes it."""

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

    def recall(self, members: Iterable[Member]) -> None:
        """Tell the members what is known of them, before any link."""
        met = {each.node: each for each in self.record.members}
        for member in members:
            known = met.get(member.number)
            if known is not None:
                member.name, member.home = known.name, bytes.fromhex(known.home)
                member.incarnation = known.incarnation

    def write(self, members: Iterable[Member], actor: Actor) -> bool:
        rows = [
            MetMember(each.number, each.name, each.home.hex(), each.incarnation)
            for each in members
            if each.home
        ]
        old = self.record
        self.record = NodeRecord(
            FORMAT, old.cluster, old.name, old.node, old.home, old.incarnation, rows
        )
        self.disk.submit(WriteNodeFile(self.record), actor, STRAND)
        return True


def begin_life(world: World, cluster: str, name: str, node: int) -> NodeFile:
    """Read or make the file of the node with that name and number, and begin its next life, durably
    before this returns. Raises Refused when the data directory is another node's, Corrupt when the
    file cannot be read, DiskFailed."""
    files = world.disk.files
    home = world.dice.token(TOKEN_BYTES).hex()
    record = NodeRecord(FORMAT, cluster, name, node, home, 0, [])
    if files.size(PATH) >= 0:
        record = decode_node_file(files.read(PATH, 0, FILE_BYTES_MAX))
        if (record.cluster, record.name, record.node) != (cluster, name, node):
            raise Refused(
                f"the data directory is that of node {record.node} ({record.name}) of the cluster "
                f"{record.cluster!r}, and this is to be node {node} ({name}) of {cluster!r}"
            )
    else:
        files.make_directory(DIRECTORY)
    assert record.incarnation < INCARNATION_MAX
    home, members = record.home, record.members
    record = NodeRecord(FORMAT, cluster, name, node, home, record.incarnation + 1, members)
    replace_node_file(files, record)
    return NodeFile(world.disk, record, world.dice.token(TOKEN_BYTES))
