"""Commands for queues and connections, and for the broker as a whole."""

from __future__ import annotations

from typing import Final

from sluicemq.manage.command import Command, CommandArgument, CommandOption

REASON: Final = CommandArgument("explanation", many=True)
QUEUE_COMMANDS: Final = (
    Command(
        "purge_queue",
        "Delete the ready messages of a queue. Unacknowledged messages stay.",
        (CommandArgument("queue"),),
        announces='Purging queue "{queue}" in vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "delete_queue",
        "Delete a queue and its messages.",
        (CommandArgument("queue"),),
        (
            CommandOption(
                "if_empty",
                "Delete the queue only if it has no messages.",
                False,
                ("-e", "--if-empty"),
            ),
            CommandOption(
                "if_unused",
                "Delete the queue only if it has no consumers.",
                False,
                ("-u", "--if-unused"),
            ),
        ),
        announces='Deleting queue "{queue}" on vhost "{vhost}" ...',
        per_vhost=True,
    ),
)

LIVENESS: Final = Command(
    "list_unresponsive_queues",
    "List queues that are down after a fault. All others share one event loop with this command:"
    " when it answers, they do.",
    columns={"name": "the queue's name"},
    per_vhost=True,
)

CONNECTION_COMMANDS: Final = (
    Command(
        "close_connection",
        "Close the connection with this name (list_connections, column pid); the client gets"
        " EXPLANATION as the reason.",
        (CommandArgument("connection"), REASON),
        announces="Closing connection {connection} ...",
    ),
    Command(
        "close_all_connections",
        "Close all connections of a virtual host, or of the broker. The clients get EXPLANATION.",
        (REASON,),
        (
            CommandOption("global", "Close the connections of all virtual hosts.", False),
            CommandOption("limit", "Close at most this many connections; 0 means all.", 0),
        ),
        announces='Closing all connections in vhost "{vhost}" ...',
        columns={"closed": "how many connections are being closed"},
        per_vhost=True,
    ),
    Command(
        "close_all_user_connections",
        "Close all connections of a user; the clients get EXPLANATION as the reason.",
        (CommandArgument("username"), REASON),
        announces='Closing connections of user "{username}" ...',
        columns={"closed": "how many connections are being closed"},
    ),
)

BROKER_COMMANDS: Final = (
    Command(
        "ping",
        "Check that the broker answers.",
        announces="Will ping the broker. This only checks that it is running and answers ...",
        of_health=True,
    ),
    Command(
        "await_startup",
        "Wait until the broker has started and answers. A node of a cluster has then become a"
        " member and got everything that is declared there.",
        of_health=True,
    ),
    Command(
        "await_online_nodes",
        "Wait until this many nodes of the cluster are ready for clients, including this one.",
        (CommandArgument("count"),),
        announces="Will wait for at least {count} nodes to join the cluster of this node ...",
        of_health=True,
    ),
    Command(
        "stop",
        "Stop the broker: close connections, write a checkpoint, exit.",
        announces="Stopping and halting the broker ...",
    ),
    Command(
        "alarms",
        "List the alarms that are raised. A memory or disk alarm stops the publishers of all nodes"
        " of a cluster.",
        columns={
            "resource": "memory, disk or storage_failed",
            "scope": "local: the alarm is this node's; or the name of the node that has it",
            "reason": "the figures that raised it, or what has failed",
        },
        of_health=True,
    ),
    Command(
        "check_alarms",
        "Check that no alarm is raised on any node; the exit code is 70 when one is.",
        announces="Asking the broker to report any resource alarms ...",
        of_health=True,
    ),
    Command(
        "check_local_alarms",
        "Check that no alarm is raised on this node. Without a cluster this is check_alarms.",
        announces="Asking the broker to report any local resource alarms ...",
        of_health=True,
    ),
    Command(
        "set_vm_memory_high_watermark",
        "Set the limit of the memory alarm until the broker stops: a FRACTION of the available"
        " memory, or absolute SIZE (such as 100MB).",
        (CommandArgument("fraction"), CommandArgument("size", optional=True)),
        announces="Setting the memory limit to {fraction} {size} ...",
    ),
    Command(
        "set_disk_free_limit",
        "Set the limit of the disk alarm until the broker stops: free space as a SIZE (such as"
        " 1GB), or mem_relative FRACTION of the available memory.",
        (CommandArgument("limit"), CommandArgument("fraction", optional=True)),
        announces="Setting the limit of free disk space to {limit} {fraction} ...",
    ),
    Command(
        "environment",
        "List all options with the values in use.",
        columns={"name": "the option's section and name", "value": "its value"},
    ),
    Command(
        "join_cluster",
        "Let this new node join the cluster of the node at ADDRESS, that is HOST:PORT with that"
        " node's cluster.port. This node must have been started with cluster.name, cluster.port"
        " and cluster.secret_file, and without a list of nodes.",
        (CommandArgument("address"),),
        announces="Letting this node join the cluster of the node at {address} ...",
        columns={"note": "what you should know about it"},
    ),
    Command(
        "forget_cluster_node",
        "Remove a node that is down from the cluster, for good. Durable classic queues and streams"
        " that live there are deleted, and the node can join again only with a new data directory.",
        (CommandArgument("node"),),
        announces="Removing node {node} from the cluster ...",
        columns={
            "name": "the name of a queue that is deleted because it was nowhere else",
            "vhost": "its virtual host",
            "type": "its type",
        },
    ),
    Command(
        "cluster_status",
        "Show the nodes of the cluster as the node that you ask sees them. Of nodes that are down"
        " it knows the names and addresses only. Without a cluster there is one row.",
        columns={
            "node": "the node's name",
            "running": "whether it is running, as far as the node that you ask knows",
            "version": "the version of SluiceMQ",
            "listeners": "the addresses it listens on for clients",
            "alarms": "the alarms that are raised",
            "partitions": "network partitions: always none",
            "state": "up; suspected: silent for longer than usual; down: there is no link to it;"
            " joining: this node waits until it may join",
            "voter": "whether it counts for the majority that agrees on definitions; a node that"
            " has joined counts when it has got all of them",
            "address": "where the other nodes reach it",
            "cluster": "the id of the cluster; none before it is founded",
        },
        of_health=True,
    ),
    Command("trace_on", "Not supported: the command fails and says what to use instead."),
    Command("trace_off", "Not supported: the command fails and says what to use instead."),
)

COMMANDS: Final = (*QUEUE_COMMANDS, LIVENESS, *CONNECTION_COMMANDS, *BROKER_COMMANDS)
