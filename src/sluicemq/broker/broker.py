"""What exists on one node: virtual hosts, users, connections, the message store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluicemq.access.access import Access
from sluicemq.broker.followers import Followers
from sluicemq.broker.policy_rounds import PolicyRounds
from sluicemq.broker.vhost import VirtualHost
from sluicemq.chain.connection.admission import Admission
from sluicemq.chain.connection.broker_port import BrokerPort
from sluicemq.chain.connection.deadlines import Deadlines
from sluicemq.chain.services import ignore
from sluicemq.chain.store.local_agreement import LocalAgreement
from sluicemq.chain.store.message_store import MessageStore
from sluicemq.queues.classic.machine import ClassicQueue
from sluicemq.storage.journal import Journal
from sluicemq.storage.stream_recovery import forget_streams

if TYPE_CHECKING:
    from sluicemq.chain.channel.channel import Channel
    from sluicemq.chain.channel.reply_post import ReplyPost
    from sluicemq.chain.connection.reader import Reader
    from sluicemq.chain.definitions.cluster_agreement import ClusterAgreement
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.chain.queue.quorum.status_post import StatusPost
    from sluicemq.chain.remote.queue_post import QueuePost
    from sluicemq.config import Config
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.kernel.world import World
    from sluicemq.metadata.changes import Life
    from sluicemq.model.traits import MessageTraits
    from sluicemq.replication.ask_post import AskPost
    from sluicemq.replication.raft_post import RaftPost
    from sluicemq.storage.message_files import MessageFiles
    from sluicemq.storage.recovery import Recovery


class Broker(BrokerPort):
    """The whole of one node: it makes the virtual hosts, the message store and their shared tables
    from what a start has recovered. A node of a cluster has a `life`, a post by which it agrees
    with the others, and one by which it asks leaders; a node alone has None for each.
    `classic_queue` makes the state of each classic queue."""

    def __init__(
        self,
        world: World,
        config: Config,
        scheduler: Scheduler,
        recovery: Recovery,
        persistent: MessageFiles,
        transient: MessageFiles,
        life: Life | None = None,
        raft_post: RaftPost | None = None,
        ask_post: AskPost | None = None,
        classic_queue: type[ClassicQueue] = ClassicQueue,
    ) -> None:
        super().__init__(
            world, config, scheduler, recovery, life, raft_post, ask_post, classic_queue
        )
        self.admission = Admission(0, 0)
        self.admission.bound(config.net, world.net.sockets_max)
        self.deadlines = Deadlines(scheduler, world.clock)
        limit = config.storage.journal_file_size_limit
        journal = Journal(recovery.journal_number, limit, self.file_id, recovery.manifest)
        self.store = MessageStore(self, journal, persistent, transient, recovery.groups)
        self.vhosts: dict[str, VirtualHost] = {}
        self.policy_rounds = PolicyRounds(self, self.vhosts)
        self.access = Access(self.definitions, self.vhosts, config.auth, world.log)
        self.connections: dict[int, Reader] = {}
        self.named: dict[str, Reader] = {}
        """The same by their names."""
        self.clustered: ClusterAgreement | None = None
        """The agreement of a node in a cluster; None: the node is alone, as for what follows."""
        self.queue_post: QueuePost | None = None
        """Leads to the queues of other nodes."""
        self.status_post: StatusPost | None = None
        """Asks other nodes what members of quorum queues know."""
        self.reply_post: ReplyPost | None = None
        """Leads to the channels of other nodes that hear replies."""
        if raft_post is None or ask_post is None:
            self.agreement = LocalAgreement(self.definitions, self.store)
        else:
            self.reach_others(raft_post, ask_post, recovery)
        followers = Followers(
            self,
            self.store,
            self.vhosts,
            self.connections,
            self.named,
            self.agreement,
            self.queue_post,
        )
        followers.follow(self.policy_rounds)
        followers.say_problems()
        self.recover(recovery)

    def reach_others(self, raft_post: RaftPost, ask_post: AskPost, recovery: Recovery) -> None:
        """Agree with the other nodes of the cluster on definitions, and make the posts to their
        queues and channels."""
        from sluicemq.chain.channel.reply_post import (  # noqa: PLC0415 (start-up time of who is alone)
            ReplyPost,
        )
        from sluicemq.chain.definitions.cluster_agreement import (  # noqa: PLC0415
            ClusterAgreement,
        )
        from sluicemq.chain.definitions.member import found_member  # noqa: PLC0415
        from sluicemq.chain.queue.quorum.status_post import StatusPost  # noqa: PLC0415
        from sluicemq.chain.remote.queue_post import QueuePost  # noqa: PLC0415

        cluster, world = raft_post.cluster, self.world
        found = found_member(recovery.groups, has_forgotten=recovery.may_have_forgotten)
        self.agreement = self.clustered = ClusterAgreement(self.store, raft_post, found)
        self.queue_post = QueuePost(self, cluster, self.vhosts)
        self.status_post = StatusPost(self.scheduler, world.clock, world.log, cluster, ask_post)
        self.reply_post = ReplyPost(self, cluster, self)

    def find_channel(self, connection: int, number: int) -> Channel | None:
        reader = self.connections.get(connection)
        return None if reader is None else reader.channels.get(number)

    def reply_elsewhere(self, address: str, contents: list[bytes], traits: MessageTraits) -> bool:
        post = self.reply_post
        return post is not None and post.send(address, contents, traits)

    def is_reply_node_up(self, address: str) -> bool:
        return self.reply_post is not None and self.reply_post.is_node_up(address)

    def all_channels(self) -> Iterator[Channel]:
        for reader in self.connections.values():
            yield from reader.channels.values()

    def forget_connection(self, connection: int) -> None:
        reader = self.connections.pop(connection, None)
        if reader is None:
            return
        self.counters.connections_closed += 1
        if self.named.get(reader.name) is reader:
            del self.named[reader.name]

    def all_queues(self) -> Iterator[Queue]:
        """Yield the queues of all virtual hosts, except those that hold delayed messages."""
        for vhost in self.vhosts.values():
            yield from vhost.queues.values()

    def all_with_messages(self) -> list[Queue]:
        """Return the queues of all virtual hosts, including those that hold delayed messages, which
        no client sees."""
        found: list[Queue] = []
        for vhost in self.vhosts.values():
            found += vhost.queues.values()
            found += vhost.queues.holding.values()
        return found

    @property
    def queue_count(self) -> int:
        """Return the number of queues in all virtual hosts, except those that hold delayed
        messages."""
        return sum(len(vhost.queues) for vhost in self.vhosts.values())

    def recover(self, recovery: Recovery) -> None:
        """Make the recovered virtual hosts and queues, and continue the recovered checkpoints. The
        directories of streams that are not defined any more are deleted; after a loss their files
        are put aside."""
        for name in self.definitions.hosts:
            self.vhosts[name] = VirtualHost(self, self.store, name, self.queue_post)
        streams = {*recovery.definitions.in_stream_files()}
        forget_streams(self.world.disk.files, streams, keep=bool(recovery.losses))
        tables = recovery.definitions
        for queue_id, definition in tables.queues.items():
            names = (*tables.members.get(queue_id, ()), *tables.leaving.get(queue_id, ()))
            if self.has_part(tables.homes.get(queue_id, 0), names):
                self.vhosts[definition.vhost].recover_queue(queue_id, definition, recovery)
        if self.clustered is not None and not recovery.may_have_forgotten:
            from sluicemq.chain.queue.group.member_log import (  # noqa: PLC0415 (as above)
                LogForgetter,
            )

            for group in recovery.groups.found:
                LogForgetter(self.store, group, ignore)  # of a deleted member or queue
        for name, host in self.definitions.hosts.items():
            for declared in host.queues.values():
                self.vhosts[name].add_remote(declared)
        if self.is_alone:
            for vhost in self.vhosts.values():
                vhost.ensure_delay_queues()
        checkpoints = self.store.checkpoints
        checkpoints.number = recovery.checkpoint_number
        checkpoints.node_id = recovery.node_id
        checkpoints.saved_cut = recovery.journal_number
