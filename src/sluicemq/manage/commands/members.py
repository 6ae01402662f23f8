"""Commands for the members of quorum queues, and for who leads them."""

from __future__ import annotations

from typing import Final

from sluicemq.manage.command import Command, CommandArgument, CommandOption

QUEUE: Final = CommandArgument("queue")
NODE: Final = CommandArgument("node")
PATTERNS: Final = (
    CommandOption(
        "vhost_pattern",
        "Only queues in virtual hosts whose names match.",
        ".*",
        ("--vhost-pattern",),
    ),
    CommandOption("queue_pattern", "Only queues whose names match.", ".*", ("--queue-pattern",)),
)
ERRORS_ONLY: Final = CommandOption(
    "errors_only", "Show only those queues with which it has not worked.", False, ("--errors-only",)
)
GROWN: Final = {
    "vhost": "the virtual host",
    "name": "the queue's name",
    "size": "how many members it is to have now",
    "result": "ok, or why nothing has changed",
}
LATER: Final = "It is declared when the command answers, and done in the background."

COMMANDS: Final = (
    Command(
        "quorum_status",
        "Show what the members of a quorum queue's group know: who leads, and how far they are."
        " Each node with a member is asked.",
        (QUEUE,),
        announces='Status of quorum queue "{queue}" ...',
        columns={
            "node": "the node with the member",
            "raft_state": "leader, follower, candidate; learner: it has not caught up; what the"
            " queue is after a fault; or nodedown, noproc, timeout when the node cannot be asked,"
            " has no such member, or does not answer",
            "log_index": "the index of the last entry of its log",
            "commit_index": "the index up to which its log is agreed on",
            "snapshot_index": "the index up to which a snapshot stands in for the log",
            "term": "the term of its group, which grows with each election",
            "machine_version": "the version of the rules by which entries are applied",
            "pending": "commands that are not agreed on and applied yet",
        },
        per_vhost=True,
    ),
    Command(
        "add_member",
        f"Give a quorum queue a member on one more node. {LATER}",
        (QUEUE, NODE),
        announces='Adding a member of queue "{queue}" on node {node} ...',
        per_vhost=True,
    ),
    Command(
        "delete_member",
        f"Take the member of a quorum queue on a node away. {LATER}",
        (QUEUE, NODE),
        announces='Removing the member of queue "{queue}" on node {node} ...',
        per_vhost=True,
    ),
    Command(
        "grow",
        "Give quorum queues a member on a node: all of them that have none there, or those with an"
        f" even number of members. {LATER}",
        (NODE, CommandArgument("strategy")),
        (*PATTERNS, ERRORS_ONLY),
        announces="Growing {strategy} quorum queues on {node} ...",
        columns=GROWN,
    ),
    Command(
        "shrink",
        "Take the members of all quorum queues on a node away, but for last ones. The node need not"
        f" be up. {LATER}",
        (NODE,),
        (ERRORS_ONLY,),
        announces="Shrinking quorum queues on {node} ...",
        columns=GROWN,
    ),
    Command(
        "rebalance",
        "Have nodes lead alike many queues, as far as they have members: of the TYPE quorum, or"
        " all. Classic queues and streams stay where they are.",
        (CommandArgument("type"),),
        PATTERNS,
        announces="Rebalancing {type} queues ...",
        columns={
            "node": "the node",
            "quorum_queues": "how many quorum queues it is to lead",
        },
    ),
)
