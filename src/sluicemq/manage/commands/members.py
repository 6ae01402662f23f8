"""Commands for the members and leaders of quorum queues."""

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
    "errors_only", "Show only the queues for which it has failed.", False, ("--errors-only",)
)
GROWN: Final = {
    "vhost": "the virtual host",
    "name": "the queue's name",
    "size": "how many members it is to have now",
    "result": "ok, or why nothing has changed",
}
LATER: Final = "The command returns when that is agreed on; it is then done in the background."

COMMANDS: Final = (
    Command(
        "quorum_status",
        "Show what the members of a quorum queue know: which of them leads, and how far each has"
        " come. Each node with a member is asked.",
        (QUEUE,),
        announces='Status of quorum queue "{queue}" ...',
        columns={
            "node": "the node with the member",
            "raft_state": "leader, follower or candidate; learner: it has not caught up yet; the"
            " state of the queue after a fault; or nodedown, noproc, timeout when the node cannot"
            " be asked, has no such member, or does not answer",
            "log_index": "the index of the last entry in its log",
            "commit_index": "the index up to which its log is agreed on",
            "snapshot_index": "the index up to which a snapshot replaces its log",
            "term": "the term of its group, which grows with each election",
            "machine_version": "the version of the rules by which it applies entries",
            "pending": "commands that are not yet agreed on and applied",
        },
        per_vhost=True,
    ),
    Command(
        "add_member",
        f"Add a member of a quorum queue on a node. {LATER}",
        (QUEUE, NODE),
        announces='Adding a member of queue "{queue}" on node {node} ...',
        per_vhost=True,
    ),
    Command(
        "delete_member",
        f"Remove a quorum queue's member from a node. {LATER}",
        (QUEUE, NODE),
        announces='Removing the member of queue "{queue}" on node {node} ...',
        per_vhost=True,
    ),
    Command(
        "grow",
        "Add members of quorum queues on a node: of all queues that have none there, or of those"
        f" with an even number of members. {LATER}",
        (NODE, CommandArgument("strategy")),
        (*PATTERNS, ERRORS_ONLY),
        announces="Growing {strategy} quorum queues on {node} ...",
        columns=GROWN,
    ),
    Command(
        "shrink",
        "Remove the members of all quorum queues from a node, except the last member of a queue."
        f" The node need not be up. {LATER}",
        (NODE,),
        (ERRORS_ONLY,),
        announces="Shrinking quorum queues on {node} ...",
        columns=GROWN,
    ),
    Command(
        "rebalance",
        "Spread the leaders of queues evenly over the nodes, as far as these have members; TYPE is"
        " quorum or all. Classic queues and streams stay where they are.",
        (CommandArgument("type"),),
        PATTERNS,
        announces="Rebalancing {type} queues ...",
        columns={
            "node": "the node",
            "quorum_queues": "how many quorum queues it is to lead",
        },
    ),
)
