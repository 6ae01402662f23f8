"""Everything a user may set, declared once: the type, the default, the bounds, the words.

From these fields come the configuration file, the SLUICEMQ_* variables, `--set`, and
docs/configuration.md. Limits that nobody should set are in limits.py instead. The edge
(`cli/config_file.py`) makes a `Config`, which checks itself, and passes it down; there is no global
one.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

from sluicemq.cluster_config import ClusterConfig
from sluicemq.definitions_config import DefinitionsConfig
from sluicemq.errors import Refused
from sluicemq.log_config import LogConfig
from sluicemq.management_config import ManagementConfig, PrometheusConfig
from sluicemq.options import Frozen, Section, dataclass, declared
from sluicemq.queue_config import QueueConfig
from sluicemq.tls_config import TlsConfig
from sluicemq.watchdog_config import WatchdogConfig

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

DISK_FREE_LIMIT_BYTES: Final = 50_000_000
"""RabbitMQ's default, "50MB"."""

PROFILES: Final = ("adaptive", "rabbitmq-3.5", "rabbitmq-3.8", "rabbitmq-3.8.3", "rabbitmq-3.8.4")


@dataclass(frozen=True, kw_only=True)
class NetConfig(Section):
    """The addresses the broker listens on, and the limits it agrees on with clients."""

    host: str = declared("127.0.0.1", "text", "The address to listen on.", keys=("host",))
    port: int = declared(
        5672,
        "count",
        "The TCP port to listen on; 0 lets the system choose one. RabbitMQ's key also takes"
        " `address:port`.",
        keys=("listeners.tcp.default", "listeners.tcp.1", "port"),
        high=65535,
    )
    tcp_listener: str = declared(
        "default",
        "choice",
        "`none` turns the plain TCP listener off, so that clients have to use TLS.",
        keys=("listeners.tcp",),
        choices=("default", "none"),
    )
    heartbeat: int = declared(
        60,
        "count",
        "The heartbeat interval offered to clients; 0 turns heartbeats off. A"
        " connection is closed when the client is silent for two to three intervals.",
        unit="seconds",
        keys=("heartbeat",),
        high=65535,
    )
    frame_max: int = declared(
        131072,
        "bytes",
        "The largest frame offered to clients, header and end octet included; 0 for no limit but"
        " that of a message.",
        unit="bytes",
        keys=("frame_max",),
        low=4096,
        or_zero=True,
        high=16 * MIB,
    )
    initial_frame_max: int = declared(
        8192,
        "bytes",
        "The largest frame accepted from a client that has not logged in yet.",
        unit="bytes",
        keys=("initial_frame_max",),
        low=4096,
        high=16 * MIB,
    )
    channel_max: int = declared(
        2047,
        "count",
        "The number of channels of one connection that is offered to clients; 0 for no limit but"
        " the protocol's, 65535.",
        keys=("channel_max",),
        high=65535,
    )
    handshake_timeout_ms: int = declared(
        10_000,
        "count",
        "How long a client may take to open a connection, from TCP's connect to `connection.open`.",
        unit="milliseconds",
        keys=("handshake_timeout",),
        low=100,
        high=600_000,
    )
    connection_max: int | None = declared(
        None,
        "count",
        "The maximum number of open connections; further clients are refused after their login.",
        keys=("connection_max",),
        high=2**31,
        default_words="`infinity`",
    )
    half_open_max: int = declared(
        8192,
        "count",
        "The maximum number of connections that have not logged in yet; the broker closes further"
        " ones at once.",
        low=1,
        high=1_000_000,
    )
    half_open_per_address_max: int = declared(
        6144,
        "count",
        "The maximum number of such connections from one address, which leaves room for others.",
        low=1,
        high=1_000_000,
    )
    max_message_size: int = declared(
        128 * MIB,
        "bytes",
        "The largest message body a client may publish.",
        unit="bytes",
        keys=("max_message_size",),
        low=1,
        high=512 * MIB,
    )
    backlog: int = declared(
        128,
        "count",
        "The maximum number of connections that wait to be accepted.",
        keys=("tcp_listen_options.backlog",),
        low=1,
        high=65535,
    )
    nodelay: bool = declared(
        True,
        "switch",
        "Whether small writes are sent at once (TCP_NODELAY).",
        keys=("tcp_listen_options.nodelay",),
    )
    keepalive: bool = declared(
        False,
        "switch",
        "Whether the system probes idle connections (SO_KEEPALIVE), heartbeats or not.",
        keys=("tcp_listen_options.keepalive",),
    )
    sndbuf: int | None = declared(
        None,
        "bytes",
        "The system's send buffer of a connection.",
        unit="bytes",
        keys=("tcp_listen_options.sndbuf",),
        low=KIB,
        high=GIB,
        default_words="the system's choice",
    )
    recbuf: int | None = declared(
        None,
        "bytes",
        "The system's receive buffer of a connection.",
        unit="bytes",
        keys=("tcp_listen_options.recbuf",),
        low=KIB,
        high=GIB,
        default_words="the system's choice",
    )
    pause_max_ms: int = declared(
        5,
        "count",
        "The longest time from one look at the sockets to the next while many clients send a little"
        " each. What comes meanwhile is handled together, for less CPU time; the broker pauses only"
        " as long as no less comes in by it. Where more comes from other nodes than from clients"
        " it is three times as long, and every other look leaves clients alone. 0 never pauses, for"
        " the shortest answers.",
        unit="milliseconds",
        high=100,
    )
    product_name: str = declared(
        "SluiceMQ",
        "text",
        "The product name that the broker reports to clients. Some act on it: with `RabbitMQ`, and"
        " a version from 3.3 on, Celery limits its workers by `basic.qos` of the whole channel.",
        keys=("product.name", "product_name"),
    )
    product_version: str | None = declared(
        None,
        "text",
        "The product version that the broker reports to clients.",
        keys=("product.version", "product_version"),
        default_words="this version of SluiceMQ",
    )


@dataclass(frozen=True, kw_only=True)
class FlowConfig(Section):
    """Flow control along the chain reader, channel, queue, message store."""

    profile: str = declared(
        "adaptive",
        "choice",
        "How much credit senders get: RabbitMQ's fixed numbers of 3.5 or 3.8, or `adaptive`, which"
        " shares one budget among the active senders. `rabbitmq-3.8.3` and `rabbitmq-3.8.4` differ"
        " in what they set for quorum queues.",
        choices=PROFILES,
    )
    credit_flow_default_credit: tuple[int, int] | None = declared(
        None,
        "credit",
        "Credit on the links reader to channel and channel to queue: what a sender starts with,"
        " and how many messages the receiver handles before it grants that many more.",
        unit="messages",
        keys=("credit_flow_default_credit",),
        low=1,
        high=1_000_000,
        default_words="the profile's",
    )
    msg_store_credit_disc_bound: tuple[int, int] | None = declared(
        None,
        "credit",
        "Credit on the link queue to message store, in the same form.",
        unit="messages",
        keys=("msg_store_credit_disc_bound",),
        low=1,
        high=1_000_000,
        default_words="the profile's",
    )
    chain_budget_messages: int = declared(
        40_000,
        "count",
        "`adaptive`: messages that all senders together may have in the chain.",
        unit="messages",
        low=1,
        high=10_000_000,
    )
    chain_budget_bytes: int = declared(
        64 * MIB,
        "bytes",
        "`adaptive`: bytes that all senders together may have in the chain.",
        unit="bytes",
        low=4 * KIB,
        high=64 * GIB,
    )
    window_floor: int = declared(
        4,
        "count",
        "`adaptive`: the smallest window of a link, however many senders share the budget.",
        unit="messages",
        low=1,
        high=1_000_000,
    )
    window_ceiling: int = declared(
        200,
        "count",
        "`adaptive`: the largest window of a link, however few senders share the budget.",
        unit="messages",
        low=1,
        high=1_000_000,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window_floor > self.window_ceiling:
            raise Refused(
                f"window_floor = {self.window_floor}: must be at most window_ceiling,"
                f" which is {self.window_ceiling}"
            )


@dataclass(frozen=True, kw_only=True)
class MemoryConfig(Section):
    """The memory alarm: above the limit publishers are blocked, consumers go on."""

    vm_memory_high_watermark_relative: float = declared(
        0.4,
        "fraction",
        "The limit as a part of the memory this process may use (the machine's, or its control"
        " group's). 0 blocks publishers always.",
        keys=("vm_memory_high_watermark.relative",),
        high=1,
    )
    vm_memory_high_watermark_absolute: int | None = declared(
        None,
        "bytes",
        "The limit in bytes; it takes precedence over the relative one.",
        unit="bytes",
        keys=("vm_memory_high_watermark.absolute",),
        high=2**48,
        default_words="none",
    )
    total_memory_available_override_value: int | None = declared(
        None,
        "bytes",
        "The memory that this process may use, instead of what the system says.",
        unit="bytes",
        keys=("total_memory_available_override_value",),
        low=1,
        high=2**48,
        default_words="ask the system",
    )
    clear_ratio: float = declared(
        0.9,
        "fraction",
        "The alarm clears when memory in use has fallen to this part of the limit.",
        low=0.1,
        high=1,
    )
    check_interval_ms: int = declared(
        1000,
        "count",
        "How often the broker reads how much memory it uses.",
        unit="milliseconds",
        low=10,
        high=60_000,
    )

    vm_memory_high_watermark_paging_ratio: float = declared(
        0.5,
        "fraction",
        "Queues begin to page messages out to disk when what the broker counts as its own reaches"
        " this part of the limit.",
        keys=("vm_memory_high_watermark_paging_ratio",),
        high=1,
    )
    memory_monitor_interval: int = declared(
        2500,
        "count",
        "How often the broker tells queues how much to keep in memory. It tells them sooner when"
        " memory grows fast.",
        unit="milliseconds",
        keys=("memory_monitor_interval",),
        low=10,
        high=60_000,
    )

    def limit_bytes(self, system_total: int) -> int:
        """Return the limit in bytes, where `system_total` is how many bytes the system lets this
        process use."""
        total = self.total_memory_available_override_value or system_total
        if self.vm_memory_high_watermark_absolute is not None:
            return min(self.vm_memory_high_watermark_absolute, total)
        return int(self.vm_memory_high_watermark_relative * total)


@dataclass(frozen=True, kw_only=True)
class StorageConfig(Section):
    """What is stored on disk, in which files, and how much of the disk stays free."""

    kind: str = declared(
        "disk",
        "choice",
        "Where everything is stored: in files (`disk`), or in memory (`memory`), for tests: it is"
        " gone when the broker ends.",
        choices=("disk", "memory"),
    )
    data_dir: str | None = declared(
        None,
        "text",
        "The directory for everything this broker stores. Only one broker can use it at a time.",
        keys=("data_dir",),
        default_words="chosen by `sluicemq serve`",
    )
    queue_index_embed_msgs_below: int = declared(
        4096,
        "bytes",
        "Messages smaller than this are kept in the queue's own files; larger ones in the message"
        " store, in one copy for all queues.",
        unit="bytes",
        keys=("queue_index_embed_msgs_below",),
        high=MIB,
    )
    queue_index_segment_entry_count: int = declared(
        16384,
        "count",
        "The number of positions of a queue in one file of its index, a power of two. A data"
        " directory keeps the number it was created with.",
        unit="messages",
        keys=("queue_index_segment_entry_count",),
        low=8,
        high=65536,
    )
    journal_file_size_limit: int = declared(
        32 * MIB,
        "bytes",
        "The size at which the journal begins a new file; a checkpoint then frees old files.",
        unit="bytes",
        low=KIB,
        high=GIB,
    )
    msg_store_file_size_limit: int = declared(
        16 * MIB,
        "bytes",
        "The size at which the message store begins a new file.",
        unit="bytes",
        keys=("msg_store_file_size_limit",),
        low=KIB,
        high=GIB,
    )
    msg_store_io_batch_size: int = declared(
        4096,
        "count",
        "The minimum number of messages a queue pages out at a time, so that writes are large.",
        unit="messages",
        keys=("msg_store_io_batch_size",),
        low=1,
        high=1_000_000,
    )
    msg_store_index: str = declared(
        "dict",
        "choice",
        "Where the message store keeps its index: in memory (`dict`), or in an LMDB file, which is"
        " slower but takes no more memory for more messages.",
        keys=("message_store.index",),
        choices=("dict", "lmdb"),
    )
    journal_writer: str = declared(
        "auto",
        "choice",
        "Who writes the journal: `auto` is Linux itself, by io_uring, where that works (on x86-64,"
        " unless an administrator or a container forbids it), and otherwise a thread of the"
        " broker's; `thread` is always a thread. The log says which of the two it is.",
        choices=("auto", "thread"),
    )
    io_threads: int = declared(
        4,
        "count",
        "The number of threads that read and write files.",
        keys=("io.threads",),
        low=1,
        high=64,
    )
    file_handles_max: int = declared(
        256,
        "count",
        "The maximum number of files that are kept open.",
        low=8,
        high=1_000_000,
    )
    reserve_bytes: int = declared(
        16 * MIB,
        "bytes",
        "The size of the ballast file, which the broker deletes when the disk is full to have room"
        " for cleaning up; 0 for none.",
        unit="bytes",
        high=GIB,
    )
    disk_free_limit_absolute: int | None = declared(
        None,
        "bytes",
        "Publishers are blocked while less than this is free on the disk of the data directory."
        " It takes precedence over the relative limit. 0 turns the alarm off.",
        unit="bytes",
        keys=("disk_free_limit.absolute", "disk_free_limit"),
        high=2**62,
        default_words="50 MB, unless there is a relative limit",
    )
    disk_free_limit_relative: float | None = declared(
        None,
        "fraction",
        "That limit as a multiple of the memory this process may use.",
        keys=("disk_free_limit.relative", "disk_free_limit.mem_relative"),
        high=1000,
        default_words="none",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        count = self.queue_index_segment_entry_count
        if count & (count - 1):
            raise Refused(f"queue_index_segment_entry_count = {count}: must be a power of two")

    def disk_free_limit_bytes(self, memory_total: int) -> int:
        """Return the free bytes below which the disk alarm is raised; `memory_total` is how many
        bytes this process may use."""
        if self.disk_free_limit_absolute is not None:
            return self.disk_free_limit_absolute
        if self.disk_free_limit_relative is not None:
            return int(self.disk_free_limit_relative * memory_total)
        return DISK_FREE_LIMIT_BYTES


@dataclass(frozen=True, kw_only=True)
class RaftConfig(Section):
    """The logs of quorum queues."""

    segment_max_entries: int | None = declared(
        None,
        "count",
        "The number of entries in one file of a queue's log, of at most 64 MiB. Smaller files go"
        " sooner.",
        unit="entries",
        low=1,
        high=65536,
        default_words="the profile's",
    )
    wal_max_batch_size: int | None = declared(
        None,
        "count",
        "The maximum number of writes to the logs of queues that share one sync.",
        unit="writes",
        low=1,
        high=1_000_000,
        default_words="the profile's",
    )
    segment_writer: str | None = declared(
        None,
        "choice",
        "Whether the log files of several queues are written at the same time, or one by one.",
        keys=("segment_writer",),
        choices=("parallel", "sequential"),
        default_words="the profile's",
    )
    quorum_commands_soft_limit: int | None = declared(
        None,
        "count",
        "How many unanswered batches a channel may have at a quorum queue before its publisher has"
        " to wait.",
        unit="batches",
        keys=("quorum_commands_soft_limit",),
        low=1,
        high=1_000_000,
        default_words="the profile's",
    )


@dataclass(frozen=True, kw_only=True)
class ChannelConfig(Section):
    """What a channel may do before the broker closes it."""

    consumer_timeout: int = declared(
        1_800_000,
        "count",
        "A channel is closed when a delivery on it has not been acknowledged for this long; 0 turns"
        " that off. It is checked once a minute, or four times in a shorter timeout.",
        unit="milliseconds",
        keys=("consumer_timeout",),
        high=2**40,
    )


@dataclass(frozen=True, kw_only=True)
class AuthConfig(Section):
    """Who may connect. The user, the virtual host and the permissions named here are made when a
    broker has none yet; later `sluicemq ctl` changes them ([access-control.md](access-control.md)).
    """

    default_user: str = declared("guest", "text", "The first user's name.", keys=("default_user",))
    default_pass: str = declared(
        "guest", "text", "The first user's password.", keys=("default_pass",), secret=True
    )
    default_user_tags: tuple[str, ...] = declared(
        ("administrator",),
        "names",
        "The first user's tags. RabbitMQ's key has one of them: `default_user_tags.NAME = true`.",
        keys=("default_user_tags",),
    )
    default_vhost: str = declared("/", "text", "The first virtual host.", keys=("default_vhost",))
    default_permissions_configure: str = declared(
        ".*",
        "text",
        "The names that the first user may declare and delete there, a regular expression.",
        keys=("default_permissions.configure",),
    )
    default_permissions_write: str = declared(
        ".*",
        "text",
        "The names that the first user may publish to and bind, a regular expression.",
        keys=("default_permissions.write",),
    )
    default_permissions_read: str = declared(
        ".*",
        "text",
        "The names that the first user may consume from, a regular expression.",
        keys=("default_permissions.read",),
    )
    loopback_users: tuple[str, ...] = declared(
        ("guest",),
        "names",
        "Users who may connect from this machine only; `none` for no such users.",
        keys=("loopback_users",),
    )
    auth_mechanisms: tuple[str, ...] = declared(
        ("PLAIN", "AMQPLAIN"),
        "names",
        "The mechanisms with which clients may log in. `EXTERNAL` logs in as the user that the TLS"
        " certificate names; it is offered to clients with a verified certificate.",
        keys=("auth_mechanisms",),
        choices=("PLAIN", "AMQPLAIN", "EXTERNAL"),
    )
    ssl_cert_login_from: str = declared(
        "distinguished_name",
        "choice",
        "Which part of a certificate is the user's name.",
        keys=("ssl_cert_login_from",),
        choices=("distinguished_name", "common_name", "subject_alternative_name"),
    )
    ssl_cert_login_san_type: str = declared(
        "dns",
        "choice",
        "Which kind of subject alternative name is the user's name.",
        keys=("ssl_cert_login_san_type",),
        choices=("dns", "ip", "email", "uri"),
    )
    ssl_cert_login_san_index: int = declared(
        0,
        "count",
        "Which of the names of that kind is the user's name, counted from 0.",
        keys=("ssl_cert_login_san_index",),
        high=1000,
    )


@dataclass(frozen=True, kw_only=True)
class Config(Frozen):
    """All settings of a broker. Made once, never changed."""

    net: NetConfig = field(default_factory=NetConfig)
    tls: TlsConfig = field(default_factory=TlsConfig)
    flow: FlowConfig = field(default_factory=FlowConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    raft: RaftConfig = field(default_factory=RaftConfig)
    queue: QueueConfig = field(default_factory=QueueConfig)
    channel: ChannelConfig = field(default_factory=ChannelConfig)
    auth: AuthConfig = field(default_factory=AuthConfig)
    definitions: DefinitionsConfig = field(default_factory=DefinitionsConfig)
    log: LogConfig = field(default_factory=LogConfig)
    watchdog: WatchdogConfig = field(default_factory=WatchdogConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    management: ManagementConfig = field(default_factory=ManagementConfig)
    prometheus: PrometheusConfig = field(default_factory=PrometheusConfig)

    @classmethod
    def tiny(cls) -> Config:
        """Return a configuration for tests and simulation, in which a few messages reach every
        limit."""
        return cls(
            net=NetConfig(frame_max=4096, channel_max=7, max_message_size=64 * KIB),
            flow=FlowConfig(
                credit_flow_default_credit=(4, 2),
                msg_store_credit_disc_bound=(8, 4),
                chain_budget_messages=32,
                chain_budget_bytes=64 * KIB,
                window_floor=1,
                window_ceiling=4,
            ),
            storage=StorageConfig(
                queue_index_embed_msgs_below=200,
                queue_index_segment_entry_count=8,
                journal_file_size_limit=4 * KIB,
                msg_store_file_size_limit=2 * KIB,
                msg_store_io_batch_size=2,
                reserve_bytes=0,
            ),
        )


SECTIONS: Final[dict[str, type[Section]]] = {
    "net": NetConfig,
    "tls": TlsConfig,
    "flow": FlowConfig,
    "memory": MemoryConfig,
    "storage": StorageConfig,
    "raft": RaftConfig,
    "queue": QueueConfig,
    "channel": ChannelConfig,
    "auth": AuthConfig,
    "definitions": DefinitionsConfig,
    "log": LogConfig,
    "watchdog": WatchdogConfig,
    "cluster": ClusterConfig,
    "management": ManagementConfig,
    "prometheus": PrometheusConfig,
}
"""The sections by the name of their field in Config, in the order of the documents."""
