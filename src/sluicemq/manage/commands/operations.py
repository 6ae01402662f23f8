"""Commands for queues and connections, and for the broker as a whole."""

from __future__ import annotations

from typing import Final

from sluicemq.manage.command import Argument, Command, Option

COMMANDS: Final = (
    Command(
        "ping",
        "Say whether the broker answers.",
        says="Will ping the broker. This only checks if it runs and answers",
    ),
    Command(
        "purge_queue",
        "Drop the messages of a queue that wait for delivery.",
        (Argument("queue"),),
        says='Purging queue "{queue}" in vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "delete_queue",
        "Delete a queue with its messages.",
        (Argument("queue"),),
        (
            Option("if_empty", "Only if it has no messages.", False, ("-e", "--if-empty")),
            Option("if_unused", "Only if it has no consumers.", False, ("-u", "--if-unused")),
        ),
        says='Deleting queue "{queue}" on vhost "{vhost}" ...',
        per_vhost=True,
    ),
)
