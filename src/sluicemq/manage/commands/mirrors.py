"""Commands for the mirrors of classic queues."""

from __future__ import annotations

from typing import Final

from sluicemq.manage.command import Command, CommandArgument

QUEUE: Final = CommandArgument("queue")

COMMANDS: Final = (
    Command(
        "sync_queue",
        "Have the new mirrors of a queue sent what is in it, if a policy with ha-sync-mode manual"
        " holds them back. The queue works meanwhile, and the command does not wait.",
        (QUEUE,),
        announces="Synchronising queue '{queue}' in vhost '{vhost}' ...",
        per_vhost=True,
    ),
    Command(
        "cancel_sync_queue",
        "Stop sending new mirrors what is in a queue. They begin anew when sync_queue is given,"
        " with another policy or another master.",
        (QUEUE,),
        announces="Stopping synchronising queue '{queue}' in vhost '{vhost}' ...",
        per_vhost=True,
    ),
)
