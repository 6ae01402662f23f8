"""Commands for the mirrors of classic queues: the node of the master carries them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.chain.queue.group.member_messages import SyncMirrors
from sluicemq.manage.actions.operations import queue_of
from sluicemq.manage.command import UNAVAILABLE, CommandRefused
from sluicemq.manage.mirrors_view import member_of
from sluicemq.manage.node_post import AskNode, NodePage
from sluicemq.manage.quorum_view import declared_of

if TYPE_CHECKING:
    from sluicemq.manage.command import Given
    from sluicemq.manage.task import Action, Task


def tell_master(task: Task, given: Given, command: str) -> None:
    """Tell the master of a queue, here or on another node, to begin or stop the synchronisation of
    its mirrors. Raises CommandRefused when the queue is not mirrored, or has no master."""
    queue = queue_of(task, given)
    declared = declared_of(queue)
    ask_post, node_post = task.broker.ask_post, task.node.node_post
    if declared is None or not declared.is_mirrored or ask_post is None or node_post is None:
        raise CommandRefused(f"{queue.title} is not mirrored", UNAVAILABLE)
    node, member = ask_post.leader_of(queue.id), member_of(queue)
    if member is not None and member.served_term:
        member.post(SyncMirrors(is_cancelled=command == "cancel_sync_queue"))
        task.finish()
        return
    if not node or given.flag("at_master"):
        raise CommandRefused(f"{queue.title} has no master now", UNAVAILABLE)

    def on_answer(message: object) -> None:
        if isinstance(message, NodePage):
            task.answer(message.answer)

    task.on_message(on_answer)
    arguments = {"queue": queue.name, "vhost": queue.definition.vhost, "at_master": True}
    node_post.post(AskNode(task, ask_post.cluster.name_of(node), command, arguments))


ACTIONS: Final[dict[str, Action]] = {
    "sync_queue": lambda task, given: tell_master(task, given, "sync_queue"),
    "cancel_sync_queue": lambda task, given: tell_master(task, given, "cancel_sync_queue"),
}
