"""The composition root: one broker in one World.

The constructor of Node recovers its data directory, which blocks. From then on the World's owner
calls `accept` for each new socket and `run` whenever the scheduler wakes it. Everything else goes
through inboxes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import astuple

from sluicemq import __version__
from sluicemq.access.access import bootstrap, first_changes
from sluicemq.broker.broker import Broker
from sluicemq.broker.monitor import Monitor
from sluicemq.broker.recovery_report import RecoveryReport
from sluicemq.chain.channel.consumer_timeouts import ConsumerTimeouts
from sluicemq.chain.connection.reader import Reader
from sluicemq.chain.queue.group.member_messages import HandOver
from sluicemq.chain.services import ignore
from sluicemq.cluster.node_path import is_there
from sluicemq.errors import Refused
from sluicemq.kernel.actor import NEVER_NS, Scheduler
from sluicemq.kernel.containment import traceback_text
from sluicemq.kernel.endpoints import Peer
from sluicemq.metadata.changes import Life, RemoveNode
from sluicemq.metadata.events import NodeAdded, NodeRemoved
from sluicemq.metadata.joined_nodes import was_removed
from sluicemq.model.passwords import SALT_BYTES, hash_password
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.storage.left_over import left_over
from sluicemq.storage.manifest import PATH as MANIFEST
from sluicemq.storage.message_files import PERSISTENT, TRANSIENT, MessageFiles
from sluicemq.storage.message_index import DictIndex, MessageIndex
from sluicemq.storage.recovery import Recovery

if TYPE_CHECKING:
    from sluicemq.broker.node_notices import NodeNotices
    from sluicemq.chain.definitions.cluster_agreement import ClusterAgreement
    from sluicemq.cluster.membership import ClusterMembership
    from sluicemq.config import Config
    from sluicemq.kernel.actor import Actor
    from sluicemq.kernel.disk import Files
    from sluicemq.kernel.world import World
    from sluicemq.metadata.tables import DurableTables
    from sluicemq.replication.ask_post import AskPost
    from sluicemq.replication.raft_post import RaftPost


def ignore_text(_: str) -> None:
    """Do nothing, whatever the text says."""


def in_memory(_: str) -> MessageIndex:
    """Return an index of the message store in RAM, whatever the kind."""
    return DictIndex()


class Node:
    """One broker in one World. `make_index` makes the message store's index of each kind. With
    `accept_loss` the node starts though something is missing that must be in the data directory.
    `secret` is what the nodes of its cluster share, if it is configured to be in one.
    `classic_queue` makes the state of each classic queue: a simulation passes a class that it can
    watch."""

    def __init__(
        self,
        world: World,
        config: Config,
        make_index: Callable[[str], MessageIndex] = in_memory,
        accept_loss: bool = False,
        secret: bytes = b"",
        classic_queue: type[ClassicQueue] = ClassicQueue,
    ) -> None:
        self.world = world
        self.config = config
        self.scheduler = Scheduler()
        self.scheduler.witness = self.witness
        self.scheduler.broke = self.broke
        self.membership = self.make_membership(secret)
        """This node's part in its cluster; None: it is alone."""
        self.raft_post, self.ask_post = self.make_posts()
        """Where members of Raft groups on other nodes are reached, and who leads these groups;
        None: it is alone."""
        began_ns = world.clock.now_ns()
        storage = config.storage
        persistent, transient = (
            MessageFiles(kind, make_index(kind), storage.msg_store_file_size_limit, self.file_id)
            for kind in (PERSISTENT, TRANSIENT)
        )
        recovery = Recovery(
            world.disk.files,
            storage.queue_index_segment_entry_count,
            self.file_id,
            world.log.write,
            accept_loss,
        )
        recovery.run(persistent, transient, self.bootstrap)
        self.broker = Broker(
            world,
            config,
            self.scheduler,
            recovery,
            persistent,
            transient,
            self.life,
            self.raft_post,
            self.ask_post,
            classic_queue,
        )
        self.join_definitions(recovery.is_new)
        self.notices = self.make_notices()
        """What the nodes of the cluster let each other know; None: this one is alone."""
        self.node_post: Actor | None = None
        """Asks other nodes what people want to know of them; set by the owner of its World, None
        without any."""
        self.monitor = Monitor(self.broker, config)
        self.broker.monitor = self.monitor.look
        self.broker.disk_full = self.monitor.disk_full
        self.broker.disk_written = self.monitor.disk_written
        self.timeouts = ConsumerTimeouts(self.broker, self.broker, config.channel.consumer_timeout)
        self.started_ms = world.clock.wall_ms()
        self.urls: list[str] = []
        """The URLs at which clients reach the node; set by the owner of its World."""
        self.stop: Callable[[], None] = ignore
        """Ends the node in order; set by the owner of its World."""
        self.broken: Callable[[], None] = ignore
        """Ends the process at once, for something that all share is broken; set by the owner of its
        World."""
        self.removed: Callable[[str], None] = ignore_text
        """Ends the process at once, for this node was removed from its cluster, as the sentence
        says; set by the owner of its World."""
        if not recovery.is_new:
            RecoveryReport(self.broker, began_ns, recovery.clean)

    def make_membership(self, secret: bytes) -> ClusterMembership | None:
        """Return this node's part in the configured cluster, None without one. Raises Refused when
        the data directory does not belong to that cluster."""
        files = self.world.disk.files
        config = self.config.cluster
        if config.takes_part:
            from sluicemq.cluster.membership import (  # noqa: PLC0415 (start-up time of who is alone)
                ClusterMembership,
            )

            return ClusterMembership(self.scheduler, self.world, config, secret, is_used(files))
        if is_there(files):
            raise Refused(
                "the data directory is that of a node of a cluster, so cluster.nodes must be set,"
                " or cluster.name, cluster.port and cluster.secret_file; nothing was changed"
            )
        return None

    @property
    def life(self) -> Life | None:
        """Return the current life of this node of a cluster, None for a node alone."""
        if self.membership is None:
            return None
        card = self.membership.book.card
        return Life(card.node, card.incarnation)

    def make_posts(self) -> tuple[RaftPost | None, AskPost | None]:
        """Return the posts for messages between members of Raft groups and for requests to their
        leaders; None for a node alone."""
        if self.membership is None:
            return None, None
        from sluicemq.replication.ask_post import (  # noqa: PLC0415 (as above)
            AskPost,
        )
        from sluicemq.replication.raft_post import (  # noqa: PLC0415 (as above)
            RaftPost,
        )

        world, cluster = self.world, self.membership.cluster
        raft_post = RaftPost(self.scheduler, world.clock, world.log, cluster)
        return raft_post, AskPost(self.scheduler, world.clock, world.log, cluster)

    def join_definitions(self, is_new: bool) -> None:
        """In a cluster, agree with the others on definitions as soon as this node is a member.
        `is_new` tells that the start found no broker in the data directory. Raises Refused when a
        member has lost everything."""
        membership, agreement = self.membership, self.broker.clustered
        if membership is None or agreement is None:
            return
        book = membership.book
        if membership.is_member and is_new and not book.record.is_joining:
            raise Refused(
                "the data directory has the name of a node that is a member of a cluster, and"
                " nothing that it has stored: put its files back, or take the node out of the"
                " cluster and start it with a new data directory"
            )
        if book.record.is_joining:
            book.settle()
        self.follow_members(membership, agreement)
        from sluicemq.broker.member_repair import (  # noqa: PLC0415 (as above)
            MemberRepair,
        )

        vhosts, log = self.broker.vhosts, self.world.log
        repair = MemberRepair(agreement, vhosts, book.card.node, log)
        agreement.when_ready(repair.begin)
        if self.config.definitions.load is None:
            auth = self.config.auth
            agreement.first_changes = lambda: tuple(first_changes(auth, self.hashed))
        agreement.when_ready(lambda: self.leave_behind(membership, agreement))
        membership.when_member(lambda: agreement.begin(membership.founders))

    def leave_behind(self, membership: ClusterMembership, agreement: ClusterAgreement) -> None:
        """Remove the nodes from which the operator parted this one by force, with everything that
        was only on them."""
        for each in membership.book.record.left_behind:
            if not agreement.state.nodes.is_gone(each.node):
                agreement.propose(RemoveNode(each.node, each.name, each.home))

    def follow_members(self, membership: ClusterMembership, agreement: ClusterAgreement) -> None:
        """Link to the nodes that have joined the cluster since it was founded, and not to those
        that were removed, now and from now on. Raises Refused when this one was removed."""
        from sluicemq.chain.definitions.registrar import (  # noqa: PLC0415 (as above)
            NodeRegistrar,
        )

        def added(event: NodeAdded) -> None:
            membership.add(*astuple(event.node))

        def removed(event: NodeRemoved) -> None:
            membership.remove(event.node.number, event.node.home, was_removed(event.node))

        nodes = agreement.state.nodes
        gone = nodes.removed.get(membership.cluster.node)
        if gone is not None:
            raise Refused(was_removed(gone))
        for each in nodes.added.values():
            added(NodeAdded(each))
        for gone in nodes.removed.values():
            removed(NodeRemoved(gone))
        agreement.follow(NodeAdded, added)
        agreement.follow(NodeRemoved, removed)
        membership.cluster.desk = NodeRegistrar(agreement, membership)
        membership.cluster.is_led = lambda: agreement.is_led

        def own_end(sentence: str) -> None:
            self.removed(sentence)

        membership.on_removed = own_end

    def make_notices(self) -> NodeNotices | None:
        """Return the exchange of notices with other nodes; None without any."""
        if self.membership is None:
            return None
        from sluicemq.broker.node_notices import (  # noqa: PLC0415 (as above)
            NodeNotices,
        )

        world, alarms = self.world, self.broker.alarms
        cluster = self.membership.cluster
        notices = NodeNotices(self.scheduler, cluster, alarms, world.log, __version__)
        notices.sealed = self.sealed
        cluster.stalled_ms = self.broker.store.commits.stalled_ms
        return notices

    def sealed(self) -> None:
        """End the node, because its storage has failed and the other nodes can do without it: its
        clients go on there, and the members here find their data on disk again at the next start.
        """
        text = "a node of a cluster does not go on without its storage, exiting now"
        self.world.log.write("error", f"{text}; confirmed messages are on the disk")
        self.broken()

    def listens(self) -> None:
        """Note that clients can connect now, at the URLs that are known."""
        if self.notices is not None:
            self.notices.ready([*self.urls])

    @property
    def is_open(self) -> bool:
        """Tell whether the node serves clients: it is alone, or a member of its cluster that has
        all definitions."""
        return self.broker.clustered is None or self.broker.clustered.is_ready

    def when_open(self, function: Callable[[], None]) -> None:
        """Call the function when the node serves clients; at once if it does."""
        if self.broker.clustered is None:
            function()
        else:
            self.broker.clustered.when_ready(function)

    def witness(self, actor: Actor, error: Exception) -> None:
        """Log a fault of an actor and count it."""
        self.broker.counters.faults += 1
        title = getattr(actor, "title", "") or getattr(actor, "name", "")
        where = f"{type(actor).__name__.lower()} {title}".rstrip()
        text = f"a fault of the broker's own, contained in {where}: {traceback_text(error)}"
        self.world.log.write("error", text)

    def broke(self, actor: Actor, error: Exception) -> None:
        """End the node, because a fault cannot be contained."""
        where = type(actor).__name__.lower()
        text = f"cannot continue after a fault in {where} ({type(error).__name__}), exiting now;"
        text += " confirmed messages are on the disk"
        self.world.log.write("error", text)
        self.broken()

    def bootstrap(self, definitions: DurableTables) -> None:
        """Create the first user and virtual host of a node that is alone and has none, unless
        `definitions` contain some."""
        if self.config.definitions.load is None and self.membership is None:
            bootstrap(definitions, self.config.auth, self.hashed)

    def hashed(self, password: str) -> str:
        """Hash a password with a new salt, as it is stored for a user."""
        return hash_password(password, self.world.dice.token(SALT_BYTES))

    def file_id(self) -> bytes:
        """Return 16 random bytes that identify a file."""
        return self.world.dice.token(16)

    def admits(self, address: str) -> bool:
        """Tell whether one more client may connect from `address`. If so, `accept` or `gave_up`
        must follow."""
        admission = self.broker.admission
        net = self.world.net
        is_full = net.is_full()
        if not is_full and admission.enter(address):
            return True
        if not admission.told:
            admission.told = True
            text = "too many connections have not logged in yet"
            if is_full:
                text = f"there are {net.sockets_max} connections, and no descriptors for more"
            text = f"{text}; closing new ones, the first from {address}"
            self.world.log.write("warning", text)
        return False

    def gave_up(self, address: str) -> None:
        """Note that an admitted client left before it could be accepted."""
        self.broker.admission.leave(address)

    def reconfigure(self, config: Config) -> None:
        """Use this configuration for new connections; nothing else changes."""
        self.config = self.broker.config = config
        self.broker.admission.bound(config.net, self.world.net.sockets_max)

    def accept(self, connection: int, peer: Peer) -> Reader:
        """Make the reader of a client that has connected. Its bytes go to the reader, `Writable` to
        the reader's writer."""
        reader = Reader(self.broker, connection, peer)
        self.broker.connections[connection] = reader
        self.broker.named[reader.name] = reader
        return reader

    def run(self, turns_max: int, until_ns: int = NEVER_NS) -> bool:
        """Run actors as `Scheduler.run` does; True when work is left."""
        return self.scheduler.run(turns_max, until_ns)

    def hand_over(self) -> None:
        """Have members on other nodes lead groups in place of those on this one, which is about to
        stop, so that nobody has to notice its absence first."""
        if self.broker.clustered is None:
            return
        from sluicemq.chain.queue.mirrored.master import MasterShell  # noqa: PLC0415 (as above)
        from sluicemq.chain.queue.quorum.member_shell import MemberShell  # noqa: PLC0415

        for queue in self.broker.all_queues():
            if isinstance(queue, MemberShell):
                queue.post(HandOver())
            elif isinstance(queue, MasterShell):
                queue.member.post(HandOver())
        self.broker.clustered.hand_over()

    @property
    def has_heirs(self) -> bool:
        """Tell whether this node leads a group that another node could lead, too."""
        clustered = self.broker.clustered
        if clustered is None or clustered.has_heir:
            return clustered is not None
        from sluicemq.chain.queue.mirrored.master import MasterShell  # noqa: PLC0415 (as above)
        from sluicemq.chain.queue.quorum.member_shell import MemberShell  # noqa: PLC0415

        queues = self.broker.all_queues()
        return any(
            (isinstance(queue, MemberShell) and queue.raft.best_heir())
            or (isinstance(queue, MasterShell) and queue.member.has_heir)
            for queue in queues
        )

    def shut_down(self) -> None:
        """Tell every client that the broker shuts down (320), and hang up."""
        for reader in list(self.broker.connections.values()):
            reader.force_close("broker forced connection closure with reason 'shutdown'")
            reader.schedule()

    def close_storage(self) -> None:
        """Write what makes the next start a clean one; call it when all clients are gone. It takes
        a while; `storage_closed` tells when it is done."""
        if self.broker.clustered is not None:
            self.broker.clustered.end()
        self.broker.store.checkpoints.close()

    @property
    def is_agreed(self) -> bool:
        """Tell whether everything that follows from clients' requests is agreed on."""
        return self.broker.clustered is None or self.broker.clustered.is_idle

    @property
    def storage_closed(self) -> bool:
        return self.broker.store.checkpoints.closed


def is_used(files: Files) -> bool:
    """Tell whether a broker has stored something in the data directory."""
    return files.size(MANIFEST) >= 0 or any(left_over(files))
