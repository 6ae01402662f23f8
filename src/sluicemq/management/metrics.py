"""The metrics for Prometheus: RabbitMQ 3.10's under its names, and our own.

/metrics has sums over all objects, so that its size does not depend on how many there are;
/metrics/per-object has each object; /metrics/detailed the requested families and virtual hosts.
Counters of channels include those of closed channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sluicemq.manage.record_columns import CHANNELS, CONNECTIONS, CONSUMERS, QUEUES, VHOSTS
from sluicemq.management.cluster_inventory import node_name
from sluicemq.management.exposition import Exposition, Sample
from sluicemq.management.message_stats import DELIVERED
from sluicemq.management.metric_tables import (
    CHANNEL_METRICS,
    CONNECTION_METRICS,
    COUNTER,
    GAUGE,
    GLOBAL_BY_TYPE,
    NODE_COUNTERS,
    NODE_GAUGES,
    QUEUE_METRICS,
    QUEUE_TYPES,
    RAFT_METRICS,
    Metric,
)
from sluicemq.management.node_shape import RABBITMQ_VERSION, node_shape
from sluicemq.management.node_watch import NodeWatch
from sluicemq.model.traffic import TRAFFIC

if TYPE_CHECKING:
    from sluicemq.management.desk import Desk
    from sluicemq.management.inventory import Record

PREFIX: Final = "rabbitmq_"
DETAILED: Final = "rabbitmq_detailed_"
OURS: Final = "sluicemq_"
ALARMS: Final = {
    "file_descriptor_limit": "",
    "free_disk_space_watermark": "disk",
    "memory_used_watermark": "memory",
}
TIMES: Final = ("read", "write", "sync", "seek")

Labels = Callable[["Record"], Mapping[str, str]]


def of_queue(row: Record) -> Mapping[str, str]:
    """Return the labels of a queue."""
    return {"vhost": row["vhost"], "queue": row["name"]}


def of_connection(row: Record) -> Mapping[str, str]:
    """Return the labels of a connection."""
    return {"connection": row["name"]}


def of_channel(row: Record) -> Mapping[str, str]:
    """Return the labels of a channel."""
    return {"channel": row["name"]}


def figure_of(row: Mapping[str, Any], figure: str) -> float:
    """Return a figure of a record; a queue's capacity is computed from others."""
    if figure == "capacity":
        return 1.0 if row["consumers"] and not row["messages_ready"] else 0.0
    value = row.get(figure, 0) if figure else 0
    return value if isinstance(value, int | float) else 0


class Scrape:
    """One scrape: fetches the records once, and makes the text of them."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.out = Exposition()
        self.node: Record = {}
        self.lists: dict[str, Sequence[Record]] = {}

    async def fetch(self) -> None:
        """Ask the local node for everything that metrics are made of; long lists may be of the last
        sample."""
        inventory = self.desk.inventory
        self.node = await inventory.node()
        for kind in (QUEUES, CONNECTIONS, CHANNELS, CONSUMERS, VHOSTS):
            self.lists[kind] = await inventory.at_home(kind, self.desk.sampler.interval_s)

    async def aggregated(self) -> str:
        """Return the node's figures, and sums over all objects."""
        await self.fetch()
        await self.of_node("aggregated")
        traffic = self.desk.sampler.through_own.traffic(self.lists[VHOSTS])
        self.sums("queue_", QUEUE_METRICS, QUEUES, {"publish": traffic["publish"]})
        self.sums("raft_", RAFT_METRICS, QUEUES, {})
        self.sums("channel_", CHANNEL_METRICS, CHANNELS, traffic)
        self.prefetch(False)
        self.sums("connection_", CONNECTION_METRICS, CONNECTIONS, {})
        self.of_everything(traffic)
        self.ours()
        return self.out.text()

    async def per_object(self) -> str:
        """Return the node's figures, and those of each object."""
        await self.fetch()
        await self.of_node("per-object")
        self.each(PREFIX + "queue_", QUEUE_METRICS, self.lists[QUEUES], of_queue)
        groups = [row for row in self.lists[QUEUES] if row["type"] == "quorum"]
        self.each(PREFIX + "raft_", RAFT_METRICS, groups, of_queue)
        self.each(PREFIX + "channel_", CHANNEL_METRICS, self.lists[CHANNELS], of_channel)
        self.prefetch(True)
        connections = self.lists[CONNECTIONS]
        self.each(PREFIX + "connection_", CONNECTION_METRICS, connections, of_connection)
        self.of_everything(self.desk.sampler.through_own.traffic(self.lists[VHOSTS]))
        self.ours()
        return self.out.text()

    async def detailed(self, families: Sequence[str], vhosts: Sequence[str]) -> str:
        """Return each object's figures of these families, in these virtual hosts or in all."""
        await self.fetch()
        kinds: tuple[tuple[str, Iterable[Metric], str, Labels], ...] = (
            ("queue_", QUEUE_METRICS, QUEUES, of_queue),
            ("raft_", RAFT_METRICS, QUEUES, of_queue),
            ("channel_", CHANNEL_METRICS, CHANNELS, of_channel),
            ("connection_", CONNECTION_METRICS, CONNECTIONS, of_connection),
        )
        for beginning, metrics, kind, labels in kinds:
            wanted = [metric for metric in metrics if metric.family in families]
            rows = [row for row in self.lists[kind] if not vhosts or row["vhost"] in vhosts]
            self.each(DETAILED + beginning, wanted, rows, labels)
        await self.identity("detailed")
        return self.out.text()

    def each(
        self, beginning: str, metrics: Iterable[Metric], rows: Sequence[Record], labels: Labels
    ) -> None:
        """Add metrics with a sample for each object."""
        named = [(labels(row), row) for row in rows]
        for metric in metrics:
            samples: list[Sample] = [(label, figure_of(row, metric.figure)) for label, row in named]
            self.out.family(beginning + metric.name, metric.kind, metric.help, samples)

    def sums(
        self, beginning: str, metrics: Iterable[Metric], kind: str, known: Mapping[str, int]
    ) -> None:
        """Add metrics with the sum over all objects, or with the `known` sums that include closed
        ones."""
        rows = self.lists[kind]
        for metric in metrics:
            value: float
            if metric.figure in known:
                value = known[metric.figure]
            else:
                value = sum(figure_of(row, metric.figure) for row in rows)
            self.out.one(PREFIX + beginning + metric.name, metric.kind, metric.help, value)

    def prefetch(self, each: bool) -> None:
        """Add the prefetch limits of consumers: one for each, or their sum."""
        rows = self.lists[CONSUMERS]
        name, text = PREFIX + "consumer_prefetch", "Limit of a consumer's unacked messages"
        if each:
            labels = [{"channel": row["channel_name"], "queue": row["queue_name"]} for row in rows]
            limits = [row["prefetch_count"] for row in rows]
            self.out.family(name, GAUGE, text, zip(labels, limits, strict=True))
        else:
            self.out.one(name, GAUGE, text, sum(row["prefetch_count"] for row in rows))

    async def identity(self, endpoint: str) -> None:
        """Add the samples that identify the broker and the endpoint: dashboards select those of one
        endpoint, so that nothing counts twice."""
        build = {
            "rabbitmq_version": RABBITMQ_VERSION,
            "prometheus_plugin_version": self.node["version"],
            "prometheus_client_version": self.node["version"],
            "erlang_version": "25.2.3",
            "sluicemq_version": self.node["version"],
        }
        name = node_name(self.node)
        who = {
            "rabbitmq_node": name,
            "rabbitmq_cluster": await self.desk.cluster_name(),
            "rabbitmq_endpoint": endpoint,
            "rabbitmq_cluster_permanent_id": self.node["cluster_id"] or name,
        }
        self.out.family(PREFIX + "build_info", "untyped", "Versions", [(build, 1)])
        self.out.family(PREFIX + "identity_info", "untyped", "Node and cluster", [(who, 1)])

    async def of_node(self, endpoint: str) -> None:
        """Add the node's own figures and alarms."""
        out, desk = self.out, self.desk
        watch = desk.sampler.nodes.get(node_name(self.node)) or NodeWatch(desk.link.pid)
        shape = node_shape(self.node, watch, desk.listeners)
        await self.identity(endpoint)
        for name, alarm in ALARMS.items():
            value = int(alarm in self.node["alarms"])
            out.one(f"{PREFIX}alarms_{name}", "untyped", "is 1 while the alarm is raised", value)
        for name, figure, text in NODE_COUNTERS:
            out.one(PREFIX + name, COUNTER, text, shape[figure])
        for name, figure, text in NODE_GAUGES:
            out.one(PREFIX + name, GAUGE, text, shape[figure])
        for kind in TIMES:
            seconds = self.node["io"].get(f"io_{kind}_time", 0) / 1e6
            out.one(f"{PREFIX}io_{kind}_time_seconds_total", COUNTER, f"Time of {kind}s", seconds)
        for name in ("schema_db_ram_tx_total", "schema_db_disk_tx_total"):
            out.one(PREFIX + name, COUNTER, "Always 0: no Mnesia", 0)
        for name in ("queue_index_read_ops_total", "queue_index_write_ops_total"):
            out.one(PREFIX + name, COUNTER, "Always 0: counted as I/O", 0)
        out.one(PREFIX + "erlang_uptime_seconds", GAUGE, "Uptime", self.node["uptime_ms"] / 1000)
        attempts = desk.sign_in.attempts
        for name, count in (
            ("attempts_total", attempts.succeeded + attempts.failed),
            ("attempts_succeeded_total", attempts.succeeded),
            ("attempts_failed_total", attempts.failed),
        ):
            out.family(PREFIX + "auth_" + name, COUNTER, "Log-ins", [({"protocol": "http"}, count)])

    def of_everything(self, traffic: Mapping[str, int]) -> None:
        """Add the numbers of objects, and the counters of the whole broker."""
        out, totals = self.out, self.node["totals"]
        counts = totals | {"queues": len(self.lists[QUEUES])}
        for name in ("connections", "channels", "consumers", "queues"):
            out.one(PREFIX + name, GAUGE, f"The number of {name}", counts[name])
        amqp = {"protocol": "amqp091"}
        beginning = PREFIX + "global_messages_"
        unconfirmed = sum(row["messages_unconfirmed"] for row in self.lists[CHANNELS])
        unroutable = traffic["drop_unroutable"] + traffic["return_unroutable"]
        for name, value in (
            ("received_total", traffic["publish"]),
            ("received_confirm_total", traffic["confirm"] + unconfirmed),
            ("routed_total", traffic["publish"] - unroutable),
            ("confirmed_total", traffic["confirm"]),
            ("unroutable_dropped_total", traffic["drop_unroutable"]),
            ("unroutable_returned_total", traffic["return_unroutable"]),
        ):
            out.family(beginning + name, COUNTER, "Messages of all clients", [(amqp, value)])
        by_type = self.desk.sampler.by_type
        types = {each: {**amqp, "queue_type": f"rabbit_{each}_queue"} for each in QUEUE_TYPES}
        for name, counter in GLOBAL_BY_TYPE:
            at = TRAFFIC.index(counter)
            samples: list[Sample] = [
                (label, by_type[each].sums[at]) for each, label in types.items()
            ]
            out.family(beginning + name, COUNTER, "Messages by type of queue", samples)
        delivered: list[Sample] = [
            (label, sum(by_type[each].sums[TRAFFIC.index(name)] for name in DELIVERED))
            for each, label in types.items()
        ]
        out.family(beginning + "delivered_total", COUNTER, "Delivered or got", delivered)
        publishing = sum(row["publish"] > 0 for row in self.lists[CHANNELS])
        out.family(
            PREFIX + "global_publishers", GAUGE, "Channels that publish", [(amqp, publishing)]
        )
        consumers = dict.fromkeys(QUEUE_TYPES, 0)
        for row in self.lists[QUEUES]:
            consumers[row["type"]] += row["consumers"]
        counted: list[Sample] = [(label, consumers[each]) for each, label in types.items()]
        out.family(PREFIX + "global_consumers", GAUGE, "Consumers", counted)

    def ours(self) -> None:
        """Add the metrics that RabbitMQ does not have: flow control, group commit, latencies."""
        out, node = self.out, self.node
        store, flow = node["store"], node["flow"]
        blocked = self.desk.sampler.blocked
        seconds: list[Sample] = [
            ({"stage": stage}, each.total_ms / 1000) for stage, each in blocked.items()
        ]
        seconds.append(({"stage": "message_store"}, store["blocked_ms"] / 1000))
        text = "How long actors of a stage were held up, summed up"
        out.family(OURS + "blocked_seconds_total", COUNTER, text, seconds)
        stages = {"reader": CONNECTIONS, "channel": CHANNELS, "queue": QUEUES}
        gates: list[Sample] = [
            ({"stage": stage}, sum(row["gates_shut"] for row in self.lists[kind]))
            for stage, kind in stages.items()
        ]
        out.family(OURS + "gates_shut", GAUGE, "Gates that are shut now", gates)
        for name in ("budget_messages", "budget_bytes", "links", "active_links"):
            if name in flow:
                out.one(f"{OURS}credit_{name}", GAUGE, "The budget of credit", flow[name])
        if "publishers_held_count" in flow:
            held, held_ms = flow["publishers_held_count"], flow["publishers_held_ms"]
            out.one(OURS + "publishers_held_total", COUNTER, "Times publishers were held", held)
            text = "How long publishers were held"
            out.one(OURS + "publishers_held_seconds_total", COUNTER, text, held_ms / 1000)
        histograms = node["histograms"]
        out.histogram(
            OURS + "group_commit_appends",
            "Appends that share one sync of the journal",
            histograms["group_size"],
        )
        out.histogram(
            OURS + "group_commit_seconds",
            "Time to write and sync one group of the journal",
            histograms["group_latency"],
        )
        out.histogram(
            OURS + "confirm_latency_seconds",
            "Time from a publish to its confirm, of messages that are watched",
            histograms["confirm_latency"],
        )
        faults = node["counters"]["faults"]
        out.one(OURS + "faults_total", COUNTER, "Unexpected errors that were contained", faults)
