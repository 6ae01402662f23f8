"""Commands for the broker as a whole: alarms, limits, options, cluster, stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sluicemq import __version__
from sluicemq.cluster.cluster_port import NodeStanding
from sluicemq.config import SECTIONS
from sluicemq.manage.command import DATA, SOFTWARE, UNAVAILABLE, CommandRefused
from sluicemq.metadata.changes import RemoveNode
from sluicemq.metadata.state import lost_with
from sluicemq.options import options_of, size_of
from sluicemq.routing.delayed import is_holding

if TYPE_CHECKING:
    from sluicemq.manage.command import Given
    from sluicemq.manage.task import Action, Task
    from sluicemq.manage.views import Row

ABSOLUTE: Final = "absolute"
RELATIVE: Final = "mem_relative"


def ping(task: Task, _: Given) -> None:
    """Answer, which shows that the broker gives turns."""
    task.finish()


def stop(task: Task, _: Given) -> None:
    """Stop the broker; the answer goes out before the socket is closed."""
    task.finish()
    task.node.stop()


def local_alarms(task: Task) -> list[Row]:
    """Return a row for each alarm that is raised on this node."""
    reasons = task.broker.alarms.reasons
    return [
        {"resource": resource, "scope": "local", "reason": reason}
        for resource, reason in reasons.items()
    ]


def alarm_rows(task: Task) -> list[Row]:
    """Return a row for each alarm that is raised on any node, those of this node first."""
    rows = local_alarms(task)
    for node, reasons in task.broker.alarms.elsewhere.items():
        scope = node_name(task, node)
        rows += ({"resource": each, "scope": scope, "reason": reasons[each]} for each in reasons)
    return rows


def node_name(task: Task, node: int) -> str:
    """Return the name of another node, to show it to people."""
    membership = task.node.membership
    name = "" if membership is None else membership.cluster.roster.members[node].name
    return name or f"node {node}"


def alarms(task: Task, _: Given) -> None:
    task.finish(alarm_rows(task))


def check_alarms(task: Task, _: Given) -> None:
    none_raised(task, alarm_rows(task))


def check_local_alarms(task: Task, _: Given) -> None:
    none_raised(task, local_alarms(task))


def none_raised(task: Task, rows: list[Row]) -> None:
    """Succeed if there are none of these alarms, else refuse."""
    raised = [
        f"{row['resource']}: {row['reason']}" + f" on {row['scope']}" * (row["scope"] != "local")
        for row in rows
    ]
    if raised:
        raise CommandRefused("\n".join(["alarms are raised:", *raised]), SOFTWARE)
    task.finish()


def set_vm_memory_high_watermark(task: Task, given: Given) -> None:
    """Set the limit of the memory alarm, as an option would; it applies at once."""
    text = given.text("fraction")
    monitor = task.node.monitor
    if text == ABSOLUTE:
        limit_bytes = size(given.text("size", ""))
    else:
        fraction = number(text)
        if not 0 <= fraction <= 1:
            raise CommandRefused("The threshold should be a fraction between 0.0 and 1.0", DATA)
        limit_bytes = int(fraction * monitor.total_bytes)
    monitor.set_limit(limit_bytes)
    task.finish()


def set_disk_free_limit(task: Task, given: Given) -> None:
    """Set the limit of the disk alarm in bytes, as a size with a unit, or as a fraction of the
    memory that the process may use."""
    text = given.text("limit")
    monitor = task.node.monitor
    if text == RELATIVE:
        fraction = number(given.text("fraction", ""))
        if fraction < 0:
            raise CommandRefused("the limit cannot be negative", DATA)
        limit_bytes = int(fraction * monitor.total_bytes)
    else:
        limit_bytes = size(text)
    monitor.set_disk_limit(limit_bytes)
    task.finish()


def number(text: str) -> float:
    """Parse a fraction; it is finite. Raises CommandRefused when it is none."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not -1.0 < value < 1e6:
        raise CommandRefused(f"Bad argument: {text or 'nothing'} is not a fraction", DATA)
    return value


def size(text: str) -> int:
    """Parse a size such as `512MiB` into bytes. Raises CommandRefused when it is none."""
    try:
        return size_of(text)
    except ValueError as error:
        raise CommandRefused(f"Bad argument: {text or 'nothing'} is not a size", DATA) from error


def environment(task: Task, _: Given) -> None:
    """Answer a row for each option with its value; the values of secret options are hidden."""
    rows: list[Row] = []
    for section, kind in SECTIONS.items():
        values = getattr(task.node.config, section)
        for each, option in options_of(kind):
            value: Any = "(hidden)" if option.secret else getattr(values, each.name)
            value = list(value) if isinstance(value, tuple) else value
            rows.append({"name": f"{section}.{each.name}", "value": value})
    task.finish(rows)


def await_startup(task: Task, _: Given) -> None:
    """Answer when the node accepts clients; in a cluster it waits for other nodes until then."""
    task.node.when_open(task.expect())


def await_online_nodes(task: Task, given: Given) -> None:
    """Answer when that many nodes of the cluster accept clients, as this one sees it."""
    text = given.text("count")
    if not text.isdecimal() or not int(text):
        raise CommandRefused(f"Bad argument: {text or 'nothing'} is not a number of nodes", DATA)
    count = int(text)
    notices = task.node.notices
    known = 1 if notices is None else len(notices.cluster.nodes)
    if count > known:
        raise CommandRefused(f"the cluster has only {known} nodes, not {count}", DATA)
    if notices is None:
        task.finish()
    else:
        notices.when_ready(count, task.expect())


def cluster_status(task: Task, _: Given) -> None:
    """Answer a row for each node, by number: this one with all that it knows of itself, the others
    as this one sees them."""
    membership = task.node.membership
    own: Row = {
        "node": task.node.urls[0] if task.node.urls else "sluicemq",
        "running": True,
        "version": __version__,
        "listeners": [*task.node.urls],
        "alarms": [*task.broker.alarms.reasons],
        "partitions": [],
        "state": "up",
        "voter": True,
        "address": None,
        "cluster": None,
    }
    if membership is None:
        task.finish([own])
        return
    cluster, notices = membership.cluster, task.node.notices
    agreement = task.broker.clustered
    member = None if agreement is None else agreement.member
    voters = () if member is None else member.raft.configuration.voters
    rows: list[Row] = []
    for number, address in membership.addresses.items():
        if number == cluster.node:
            shown = {**own, "node": membership.book.card.name}
        else:
            state = cluster.standing(number).value
            notice = None if notices is None else notices.others.get(number)
            shown = {
                **dict.fromkeys(own),
                "node": node_name(task, number),
                "running": state != "down",
                "state": state,
            }
            if notice is not None:
                shown |= {
                    "version": notice.version,
                    "listeners": notice.listeners,
                    "alarms": [*notice.alarms],
                }
        shown["voter"] = number in voters
        rows.append({**shown, "address": address, "cluster": membership.cluster_id or None})
    task.finish(rows)


def join_cluster(task: Task, _: Given) -> None:
    """Refuse: this node is a member already, or has run alone and would lose its data."""
    text = "this node is a member of a cluster already"
    if task.node.membership is None:
        text = (
            "this broker has run alone: only a new node can join, started with cluster.name,"
            " cluster.port and cluster.secret_file, and a new data directory"
        )
    raise CommandRefused(text, UNAVAILABLE)


def forget_cluster_node(task: Task, given: Given) -> None:
    """Have a node that is down removed, and answer with the queues that are lost with it."""
    name = given.text("node")
    membership = task.node.membership
    if membership is None:
        raise CommandRefused("this node is not in a cluster", UNAVAILABLE)
    cluster = membership.cluster
    card = membership.book.card
    if name == card.name:
        raise CommandRefused(f"{name} is this node: ask another one to remove it", UNAVAILABLE)
    found = [each for each in cluster.roster.members.values() if each.name == name]
    if not found:
        raise CommandRefused(f"the cluster has no node {name}", DATA)
    (member,) = found
    if cluster.standing(member.number) is not NodeStanding.DOWN:
        raise CommandRefused(f"node {name} is running: stop it first", UNAVAILABLE)
    definitions = task.broker.definitions
    lost = [
        {"name": each.definition.name, "vhost": vhost, "type": each.definition.type}
        for vhost, host in definitions.hosts.items()
        for each in lost_with(host, member.number, definitions.nodes)
        if not is_holding(each.definition.name)
    ]
    task.propose(RemoveNode(member.number, name, member.home.hex()), lost)


def no_tracing(_: Task, __: Given) -> None:
    raise CommandRefused(
        "there is no firehose tracer here; list_channels, list_consumers and `sluicemq ctl chain`"
        " show what moves and what is held up",
        UNAVAILABLE,
    )


ACTIONS: Final[dict[str, Action]] = {
    "ping": ping,
    "await_startup": await_startup,
    "await_online_nodes": await_online_nodes,
    "stop": stop,
    "alarms": alarms,
    "check_alarms": check_alarms,
    "check_local_alarms": check_local_alarms,
    "set_vm_memory_high_watermark": set_vm_memory_high_watermark,
    "set_disk_free_limit": set_disk_free_limit,
    "environment": environment,
    "join_cluster": join_cluster,
    "forget_cluster_node": forget_cluster_node,
    "cluster_status": cluster_status,
    "trace_on": no_tracing,
    "trace_off": no_tracing,
}
