"""Commands for queues and connections: purge, delete, close."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.broker.followers import close
from sluicemq.chain.channel.type_rules import check_has
from sluicemq.errors import ChannelViolation
from sluicemq.manage.command import UNAVAILABLE, CommandRefused
from sluicemq.queues.commands import Delete, Inspect, Purge
from sluicemq.queues.effects import Deleted, Inspected, Purged, Refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluicemq.access.session import Session
    from sluicemq.chain.queue.queue import Queue
    from sluicemq.manage.command import Given
    from sluicemq.manage.task import Action, Task


ASK_WORK: Final = 2
"""Units of work that it costs to ask a queue something."""


def queue_of(task: Task, given: Given) -> Queue:
    """Return the queue that the command names, in the virtual host it names. Raises CommandRefused
    when there is none."""
    vhost, name = task.vhost(given), given.text("queue")
    queue = vhost.queues.get(name)
    if queue is None:
        text = f"Queue '{name}' in vhost '{vhost.name}' does not exist"
        raise CommandRefused(text, UNAVAILABLE)
    return queue


def purge_queue(task: Task, given: Given) -> None:
    """Drop the ready messages of a queue; unacknowledged ones stay."""

    def on_answer(message: object) -> None:
        if isinstance(message, Refuse):  # the queue has had a fault
            raise ChannelViolation(message.code, message.text)
        if isinstance(message, Purged):
            task.finish()

    queue = queue_of(task, given)
    check_has(queue, "purge_queue")
    task.on_message(on_answer)
    queue.post(Purge(task))


def delete_queue(task: Task, given: Given) -> None:
    """Delete a queue; the answer comes when that is durable."""

    def on_answer(message: object) -> None:
        if isinstance(message, Refuse):
            raise ChannelViolation(message.code, message.text)
        if isinstance(message, Deleted):
            task.finish()

    task.on_message(on_answer)
    queue_of(task, given).post(Delete(task, given.flag("if_unused"), given.flag("if_empty")))


def list_unresponsive_queues(task: Task, given: Given) -> None:
    """List the queues that have had a fault. The command asks each queue and waits for all answers;
    a queue that has had a fault refuses."""
    asked = [*task.vhost(given).queues.values()]
    answered = 0

    def on_answer(message: object) -> None:
        nonlocal answered
        if isinstance(message, Inspected | Refuse):
            answered += 1
            if answered == len(asked):
                task.finish([{"name": queue.name} for queue in asked if queue.crash is not None])

    task.on_message(on_answer)
    if not asked:
        task.finish()
    task.begin(asking(task, asked))


def asking(task: Task, queues: list[Queue]) -> Iterator[int]:
    """Ask each queue; the answers are handled when all have been asked."""
    for queue in queues:
        queue.post(Inspect(task))
        yield ASK_WORK


def reason_of(given: Given) -> str:
    """Return the reason to give to clients in connection.close."""
    return " ".join(given.texts("explanation")) or "Closed by the operator"


def close_connection(task: Task, given: Given) -> None:
    name = given.text("connection")
    found = [each for each in task.broker.connections.values() if each.name == name]
    if not found:
        raise CommandRefused(f"there is no connection {name}", UNAVAILABLE)
    close(found, reason_of(given))
    task.finish()


def close_all_connections(task: Task, given: Given) -> None:
    """Close all connections, or those of one virtual host; a connection in the handshake belongs to
    none yet."""
    vhost = task.vhost(given)
    close_some(
        task,
        given,
        (
            reader
            for reader in task.broker.connections.values()
            if given.flag("global") or reader.vhost is vhost
        ),
    )


def close_all_user_connections(task: Task, given: Given) -> None:
    close_some(task, given, task.broker.access.sessions.get(given.text("username"), {}))


def close_some(task: Task, given: Given, sessions: Iterable[Session]) -> None:
    """Close at most as many connections as the command allows, and answer how many it closed."""
    limit = given.number("limit", 0)
    chosen = [*sessions][: limit if limit > 0 else None]
    close(chosen, reason_of(given))
    task.finish([{"closed": len(chosen)}])


ACTIONS: Final[dict[str, Action]] = {
    "purge_queue": purge_queue,
    "delete_queue": delete_queue,
    "list_unresponsive_queues": list_unresponsive_queues,
    "close_connection": close_connection,
    "close_all_connections": close_all_connections,
    "close_all_user_connections": close_all_user_connections,
}
