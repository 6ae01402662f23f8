"""Commands for queues and connections, and for the broker as a whole."""

from __future__ import annotations

from typing import Final

from sluicemq.manage.command import Command, CommandArgument, CommandOption

REASON: Final = CommandArgument("explanation", many=True)
QUEUE_COMMANDS: Final = (
    Command(
        "purge_queue",
        "Drop the messages of a queue that wait for delivery.",
        (CommandArgument("queue"),),
        announces='Purging queue "{queue}" in vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "delete_queue",
        "Delete a queue with its messages.",
        (CommandArgument("queue"),),
        (
            CommandOption("if_empty", "Only if it has no messages.", False, ("-e", "--if-empty")),
            CommandOption(
                "if_unused", "Only if it has no consumers.", False, ("-u", "--if-unused")
            ),
        ),
        announces='Deleting queue "{queue}" on vhost "{vhost}" ...',
        per_vhost=True,
    ),
)

LIVENESS: Final = Command(
    "list_unresponsive_queues",
    "List queues that have had a fault and are down. All others share one event loop with this"
    " command: when it answers, they do.",
    columns={"name": "the queue's name"},
    per_vhost=True,
)

CONNECTION_COMMANDS: Final = (
    Command(
        "close_connection",
        "Close a connection, named as list_connections names it; its client hears EXPLANATION.",
        (CommandArgument("connection"), REASON),
        announces="Closing connection {connection} ...",
    ),
    Command(
        "close_all_connections",
        "Close the connections of a virtual host, or all.",
        (REASON,),
        (
            CommandOption("global", "Those of all virtual hosts.", False),
            CommandOption("limit", "At most so many; 0: all.", 0),
        ),
        announces='Closing all connections in vhost "{vhost}" ...',
        columns={"closed": "how many connections are being closed"},
        per_vhost=True,
    ),
    Command(
        "close_all_user_connections",
        "Close the connections of a user.",
        (CommandArgument("username"), REASON),
        announces='Closing connections of user "{username}" ...',
        columns={"closed": "how many connections are being closed"},
    ),
)

BROKER_COMMANDS: Final = (
    Command(
        "ping",
        "Say whether the broker answers.",
        announces="Will ping the broker. This only checks if it runs and answers ...",
        of_health=True,
    ),
    Command(
        "await_startup",
        "Wait until the broker answers, which it does when it is ready.",
        of_health=True,
    ),
    Command("stop", "Stop the broker in order.", announces="Stopping and halting the broker ..."),
    Command(
        "alarms",
        "List the alarms that are raised.",
        columns={
            "resource": "memory, disk or storage_failed",
            "scope": "local: of this node",
            "reason": "the figures, or what has failed",
        },
        of_health=True,
    ),
    Command(
        "check_alarms",
        "Exit with 70 when an alarm is raised.",
        announces="Asking the broker to report any resource alarms ...",
        of_health=True,
    ),
    Command(
        "check_local_alarms",
        "The same: there is one node.",
        announces="Asking the broker to report any local resource alarms ...",
        of_health=True,
    ),
    Command(
        "set_vm_memory_high_watermark",
        "Set the memory limit: FRACTION of the system's, or absolute SIZE (100MB). Until the"
        " broker stops.",
        (CommandArgument("fraction"), CommandArgument("size", optional=True)),
        announces="Setting the memory limit to {fraction} {size} ...",
    ),
    Command(
        "set_disk_free_limit",
        "Set the limit of free disk space: SIZE (1GB), or mem_relative FRACTION of the memory."
        " Until the broker stops.",
        (CommandArgument("limit"), CommandArgument("fraction", optional=True)),
        announces="Setting the limit of free disk space to {limit} {fraction} ...",
    ),
    Command(
        "environment",
        "List the options in force.",
        columns={"name": "its section and name", "value": "its value"},
    ),
    Command(
        "cluster_status",
        "List the nodes: there is one.",
        columns={
            "node": "its name",
            "running": "whether it runs",
            "version": "of SluiceMQ",
            "listeners": "where it listens",
            "alarms": "those that are raised",
            "partitions": "none",
        },
        of_health=True,
    ),
    Command("trace_on", "Not there: it tells where to look instead."),
    Command("trace_off", "Not there either."),
)

COMMANDS: Final = (*QUEUE_COMMANDS, LIVENESS, *CONNECTION_COMMANDS, *BROKER_COMMANDS)
