"""Commands for the members of quorum queues: their nodes, leaders and logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.broker.member_plans import grow_plan, quorum_queues, rebalance_plan, shrink_plan
from sluicemq.chain.queue.quorum.shell import QuorumShell
from sluicemq.chain.queue.quorum.status_post import status_of
from sluicemq.cluster.cluster_port import NodeStanding
from sluicemq.manage.actions.operations import queue_of
from sluicemq.manage.command import DATA, UNAVAILABLE, CommandRefused
from sluicemq.manage.quorum_view import declared_of, member_nodes, status_row
from sluicemq.metadata.changes import AddMember, RemoveMember
from sluicemq.model.patterns import Pattern
from sluicemq.model.queue_types import QUORUM

if TYPE_CHECKING:
    from sluicemq.broker.member_plans import MemberPlan
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.cluster.cluster_port import ClusterPort
    from sluicemq.manage.command import Given
    from sluicemq.manage.task import Action, Task
    from sluicemq.metadata.events import DeclaredQueue
    from sluicemq.replication.member_status import MemberStatus


STRATEGIES: Final = ("all", "even")
REBALANCED: Final = ("all", QUORUM)


def cluster_of(task: Task) -> ClusterPort:
    """Return the cluster. Raises CommandRefused on a node that is alone."""
    membership = task.node.membership
    if membership is None:
        text = "only queues of a cluster have members on several nodes, and this node is in none"
        raise CommandRefused(text, UNAVAILABLE)
    return membership.cluster


def node_of_name(task: Task, given: Given, *, is_up: bool) -> int:
    """Return the number of the node that the command names. Raises CommandRefused when there is
    none, or with `is_up` when it is down."""
    cluster, name = cluster_of(task), given.text("node")
    for node in cluster.nodes:
        if cluster.name_of(node) == name:
            if is_up and node != cluster.node and cluster.standing(node) is NodeStanding.DOWN:
                raise CommandRefused(f"Node '{name}' is not running", UNAVAILABLE)
            return node
    raise CommandRefused(f"Node '{name}' is not a member of the cluster", DATA)


def quorum_queue_of(task: Task, given: Given, what: str) -> Queue:
    """Return the quorum queue that the command names. Raises CommandRefused when there is none, or
    the queue is of another type; `what` is the action that its text names."""
    queue = queue_of(task, given)
    if queue.definition.type != QUORUM:
        raise CommandRefused(f"Cannot {what} a {queue.definition.type} queue", UNAVAILABLE)
    return queue


def declared_with_leader(task: Task, given: Given, what: str) -> DeclaredQueue:
    """Return the quorum queue that the command names, as it is declared. Raises CommandRefused when
    it has no leader, so that its members cannot be changed."""
    cluster_of(task)
    queue = quorum_queue_of(task, given, what)
    declared = declared_of(queue)
    ask_post = task.broker.ask_post
    if declared is None or ask_post is None or not ask_post.leader_of(queue.id):
        text = f"{queue.title} has no leader: a majority of its members would have to be up"
        raise CommandRefused(text, UNAVAILABLE)
    return declared


def add_member(task: Task, given: Given) -> None:
    node = node_of_name(task, given, is_up=True)
    declared = declared_with_leader(task, given, "add members to")
    definition = declared.definition
    task.propose(AddMember(definition.vhost, definition.name, declared.id, node))


def delete_member(task: Task, given: Given) -> None:
    node = node_of_name(task, given, is_up=False)
    declared = declared_with_leader(task, given, "delete members of")
    definition = declared.definition
    task.propose(RemoveMember(definition.vhost, definition.name, declared.id, node))


def chosen(task: Task, given: Given) -> list[DeclaredQueue]:
    """Return the quorum queues whose names and virtual hosts match the given patterns."""
    vhosts, names = (Pattern(given.text(f"{of}_pattern", ".*")) for of in ("vhost", "queue"))
    return [
        queue
        for queue in quorum_queues(task.broker.definitions)
        if vhosts.matches(queue.definition.vhost) and names.matches(queue.definition.name)
    ]


def grow(task: Task, given: Given) -> None:
    strategy = given.text("strategy")
    if strategy not in STRATEGIES:
        raise CommandRefused(f"Bad argument: {strategy} is neither all nor even", DATA)
    node = node_of_name(task, given, is_up=True)
    carry_out(task, given, grow_plan(chosen(task, given), node, only_even=strategy == "even"))


def shrink(task: Task, given: Given) -> None:
    node = node_of_name(task, given, is_up=False)
    carry_out(task, given, shrink_plan(quorum_queues(task.broker.definitions), node))


def carry_out(task: Task, given: Given, plans: list[MemberPlan]) -> None:
    """Propose the changes of these plans, and answer a row for each queue."""
    rows = [
        {
            "vhost": plan.queue.definition.vhost,
            "name": plan.queue.definition.name,
            "size": plan.size,
            "result": f"error: {plan.problem}" if plan.problem else "ok",
        }
        for plan in plans
        if plan.problem or not given.flag("errors_only")
    ]
    changes = [plan.change for plan in plans if plan.change is not None]
    for change in changes:
        task.propose(change, rows)
    if not changes:
        task.finish(rows)


def rebalance(task: Task, given: Given) -> None:
    cluster, kind = cluster_of(task), given.text("type")
    if kind not in REBALANCED:
        raise CommandRefused(f"Bad argument: {kind} is neither all nor quorum", DATA)
    ask_post = task.broker.ask_post
    assert ask_post is not None, "a node of a cluster without its posts"

    def is_up(node: int) -> bool:
        return node == cluster.node or cluster.standing(node) is NodeStanding.UP

    moves, counts = rebalance_plan(chosen(task, given), ask_post.leader_of, is_up)
    rows = [
        {"node": cluster.name_of(node), "quorum_queues": counts[node]} for node in cluster.nodes
    ]
    for move in moves:
        task.propose(move, rows)
    if not moves:
        task.finish(rows)


def quorum_status(task: Task, given: Given) -> None:
    """Answer a row for each member, the leader first, then in the order of nodes."""
    queue = quorum_queue_of(task, given, "get quorum status of")
    post = task.broker.status_post
    if post is None:
        assert isinstance(queue, QuorumShell), "who is alone has all queues"
        task.finish(
            [status_row(queue.services, queue.replicator.raft.member.name, status_of(queue))]
        )
        return

    def on_answers(found: dict[int, MemberStatus], _: object) -> None:
        rows = [status_row(queue.services, node, each) for node, each in sorted(found.items())]
        task.finish(sorted(rows, key=lambda row: row["raft_state"] != "leader"))

    post.ask(queue.id, member_nodes(queue), on_answers)


ACTIONS: Final[dict[str, Action]] = {
    "add_member": add_member,
    "delete_member": delete_member,
    "grow": grow,
    "shrink": shrink,
    "rebalance": rebalance,
    "quorum_status": quorum_status,
}
