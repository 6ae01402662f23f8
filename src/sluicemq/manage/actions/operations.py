"""Queues and connections, and the broker as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.errors import ChannelViolation
from sluicemq.manage.command import UNAVAILABLE, CommandRefused
from sluicemq.queues.commands import Delete, Purge
from sluicemq.queues.effects import Deleted, Purged, Refuse

if TYPE_CHECKING:
    from sluicemq.chain.queue import Queue
    from sluicemq.manage.command import Given
    from sluicemq.manage.task import Action, Task


def ping(task: Task, _: Given) -> None:
    """That it answers is the answer."""
    task.finish()


def queue_of(task: Task, given: Given) -> Queue:
    """The queue that was named, in the virtual host that was."""
    vhost, name = task.vhost(given), given.text("queue")
    queue = vhost.queues.get(name)
    if queue is None:
        text = f"Queue '{name}' in vhost '{vhost.name}' does not exist"
        raise CommandRefused(text, UNAVAILABLE)
    return queue


def purge_queue(task: Task, given: Given) -> None:
    """What is delivered and not settled stays."""

    def heard(message: object) -> None:
        if isinstance(message, Purged):
            task.finish()

    task.hear(heard)
    queue_of(task, given).post(Purge(task))


def delete_queue(task: Task, given: Given) -> None:
    """Answered when it is durable that it is gone."""

    def heard(message: object) -> None:
        if isinstance(message, Refuse):
            raise ChannelViolation(message.code, message.text)
        if isinstance(message, Deleted):
            task.finish()

    task.hear(heard)
    queue_of(task, given).post(Delete(task, given.flag("if_unused"), given.flag("if_empty")))


ACTIONS: Final[dict[str, Action]] = {
    "ping": ping,
    "purge_queue": purge_queue,
    "delete_queue": delete_queue,
}
