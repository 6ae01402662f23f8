"""The commands that only the management process uses: log-ins, tables of definitions, records page
by page (`records.py`), and the figures of the node.

Each is a function as in `actions/`. The command line does not have them, so they have no entry in
`commands/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from sluicemq import __version__
from sluicemq.cluster.cluster_port import NodeStanding
from sluicemq.limits import RECORDS_A_PAGE
from sluicemq.manage import exporting, storage_view, views
from sluicemq.manage.actions.users import user_named
from sluicemq.manage.actions.vhosts import definition_of
from sluicemq.manage.command import DATA, NO_USER, UNAVAILABLE, USAGE, CommandRefused
from sluicemq.manage.node_post import AskNode, NodePage
from sluicemq.manage.records import record_pieces
from sluicemq.manage.task import GoOn
from sluicemq.metadata.changes import UpsertRecord
from sluicemq.model.passwords import DEFAULT_ALGORITHM, SALT_BYTES, check_hash, hash_password
from sluicemq.model.queue_types import TYPES_HERE
from sluicemq.model.users import User

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluicemq.broker.broker import Broker
    from sluicemq.broker.vhost import VirtualHost
    from sluicemq.manage.command import Given
    from sluicemq.manage.task import Action, Task
    from sluicemq.manage.views import Row
    from sluicemq.node import Node

COUNTERS: Final = (
    *views.TOTALS,
    "connections_closed",
    "channels_closed",
    "queues_declared",
    "queues_created",
    "queues_deleted",
)
"""Counters of the broker that are in the figures of the node."""

DECLARED_WORK: Final = 3
"""Units of work that it costs to show a record of a definition."""

NODE_WORK: Final = 150


def records(task: Task, given: Given) -> None:
    """Answer records of one kind, page by page; `page` is the number of records in one."""
    found: list[Any] = []
    page = min(max(1, given.number("page", RECORDS_A_PAGE)), RECORDS_A_PAGE)
    task.look_at_pages(record_pieces(task.broker, given, found), found, page)


def log_in(task: Task, given: Given) -> None:
    """Check a password and answer the user's name, tags, and the virtual hosts that it may enter.
    The log says why a user may not log in; the answer does not."""
    name = given.text("username")
    password = None if given.flag("vouched") else given.text("password")
    access = task.broker.access
    refusal = access.refusal(name, password, given.flag("from_loopback"))
    if refusal:
        raise CommandRefused(refusal, DATA)
    user = user_named(task.broker, name)
    vhosts = [vhost for vhost in task.broker.vhosts if access.may_enter(name, vhost)]
    task.finish([{"name": name, "tags": [*user.tags], "vhosts": vhosts}])


def set_user(task: Task, given: Given) -> None:
    """Make a user, or replace the password (given as text or as its hash) and the tags of one.
    Without a password the user keeps the present one."""
    name = given.name("username")
    if not name:
        raise CommandRefused("a user must have a name", DATA)
    there = task.broker.definitions.users.get(name)
    algorithm = given.text("hashing_algorithm", DEFAULT_ALGORITHM)
    if given.values.get("password") is not None:
        password = given.text("password")
        salt = task.broker.world.dice.token(SALT_BYTES)
        algorithm = DEFAULT_ALGORITHM
        password_hash = hash_password(password, salt) if password else ""
    elif given.values.get("password_hash") is not None:
        password_hash = given.text("password_hash")
        check_hash(password_hash, algorithm)
    elif there is None:
        raise CommandRefused("a new user must have a password or a password_hash", NO_USER)
    else:
        password_hash, algorithm = there.password_hash, there.hashing_algorithm
    limits = {} if there is None else there.limits
    tags = tuple(dict.fromkeys(given.texts("tags")))
    task.propose(UpsertRecord(User(name, password_hash, algorithm, tags, limits)))


def describe_vhost(task: Task, given: Given) -> None:
    """Replace the description, tags and default queue type of a virtual host that exists."""
    definition = definition_of(task, given)
    kind = given.text("default_queue_type", "") or None
    if kind is not None and kind not in TYPES_HERE:
        raise CommandRefused(f"there is no queue type {kind}: {', '.join(TYPES_HERE)}", DATA)
    changed = replace(
        definition,
        description=given.text("description", ""),
        tags=tuple(given.texts("tags")),
        default_queue_type=kind,
    )
    task.propose(UpsertRecord(changed))


def users(broker: Broker) -> list[Row]:
    """Return all users, with the hashes of their passwords."""
    found = broker.definitions.users.values()
    return [{**user.as_json(), "tags": [*user.tags]} for user in found]


def policies(table: str) -> Callable[[Broker], list[Row]]:
    """Return a function for the policies, or the operator policies."""

    def rows(broker: Broker) -> list[Row]:
        found = getattr(broker.definitions, table).values()
        return [exporting.policy_object(each) for each in found]

    return rows


def declared_rows(table: str) -> Callable[[Broker], list[Row]]:
    """Return a function for a table whose records have the form of RabbitMQ's definitions."""

    def rows(broker: Broker) -> list[Row]:
        return [each.as_json() for each in getattr(broker.definitions, table).values()]

    return rows


TABLES: Final[dict[str, Callable[[Broker], list[Row]]]] = {
    "users": users,
    "permissions": declared_rows("permissions"),
    "topic_permissions": declared_rows("topic_permissions"),
    "policies": policies("policies"),
    "operator_policies": policies("operator_policies"),
    "parameters": declared_rows("parameters"),
    "global_parameters": declared_rows("global_parameters"),
}
"""The definitions of which there are few, in the form of RabbitMQ's documents."""


def declared(task: Task, given: Given) -> None:
    """Answer all records in one table of definitions."""
    table = given.text("table")
    if table not in TABLES:
        raise CommandRefused(f"there is no table {table}; there are: {' '.join(TABLES)}", USAGE)
    rows = TABLES[table](task.broker)
    task.spend(DECLARED_WORK * len(rows))
    task.finish(rows)


def exchange_count(vhost: VirtualHost) -> int:
    """Return the number of exchanges in a virtual host, including the default exchange."""
    return len(vhost.topology.exchanges) + 1


def others_up(node: Node) -> dict[str, bool]:
    """Return whether each other node of the cluster is up, by name."""
    if node.membership is None:
        return {}
    cluster = node.membership.cluster
    return {
        cluster.name_of(number): cluster.standing(number) is not NodeStanding.DOWN
        for number in cluster.nodes
        if number != cluster.node
    }


def log_file(node: Node) -> str | None:
    """Return the path of the node's log; None for standard error."""
    log = node.config.log
    if log.file is None or log.dir is None or log.file.startswith("/"):
        return log.file
    return f"{log.dir}/{log.file}"


def node_figures(task: Task, _: Given) -> None:
    """Answer one row with the figures of the node."""
    found: list[Row] = []
    task.look(figures(task, found), found)


def figures(task: Task, found: list[Row]) -> Iterator[int]:
    """Put the facts and counters of the node into `found`."""
    node, broker = task.node, task.broker
    totals = views.BrokerTotals()
    yield from totals.count(broker)
    counters = broker.counters
    counted = broker.world.disk.counters()
    store = broker.store
    membership = node.membership
    found.append(
        {
            "version": __version__,
            "name": None if membership is None else membership.book.card.name,
            "cluster_id": None if membership is None else membership.cluster_id or None,
            "others": others_up(node),
            "uptime_ms": broker.world.clock.wall_ms() - node.started_ms,
            "listeners": [*node.urls],
            "memory": views.memory(node),
            "memory_total": node.monitor.total_bytes,
            "disk": storage_view.disk(node.monitor, node.config.storage.data_dir),
            "log_file": log_file(node),
            "alarms": dict(broker.alarms.reasons),
            "flow": views.flow(node),
            "counters": {name: getattr(counters, name) for name in COUNTERS},
            "io": {**counted},
            "sockets_max": broker.world.net.sockets_max,
            "totals": {
                "connections": len(broker.connections),
                "channels": totals.channels,
                "consumers": totals.consumers,
                "queues": broker.queue_count,
                "exchanges": sum(map(exchange_count, broker.vhosts.values())),
                "messages_ready": totals.ready,
                "messages_unacknowledged": totals.unacked,
            },
            "store": {
                "reads": store.persistent.reads + store.transient.reads,
                "writes": store.persistent.writes + store.transient.writes,
                "groups": store.commits.groups,
                "failed": store.storage_failed,
                "blocked_ms": store.keeper.blocked_ns(broker.world.clock.now_ns()) // 1_000_000,
            },
            "histograms": {
                "group_size": store.commits.group_sizes.as_json(),
                "group_latency": store.commits.group_latency.as_json(),
                "confirm_latency": broker.confirm_latency.as_json(),
            },
        }
    )
    yield NODE_WORK


def of_node(task: Task, given: Given) -> None:
    """Answer with another node's answer to a command, page by page."""
    post = task.node.node_post
    if post is None:
        raise CommandRefused("this node is not in a cluster", UNAVAILABLE)
    arguments = given.values.get("arguments")
    first = AskNode(
        task,
        given.text("node"),
        given.text("command"),
        arguments if isinstance(arguments, dict) else {},
    )
    last_number = 0

    def on_message(message: object) -> None:
        nonlocal last_number
        if isinstance(message, NodePage):
            last_number = message.number
            task.answer(message.answer)
        elif isinstance(message, GoOn):
            task.reply = message.reply
            post.post(first._replace(after=last_number))

    task.on_message(on_message)
    post.post(first)


GATEWAY: Final[dict[str, Action]] = {
    "records": records,
    "log_in": log_in,
    "set_user": set_user,
    "describe_vhost": describe_vhost,
    "declared": declared,
    "node_figures": node_figures,
    "of_node": of_node,
}
