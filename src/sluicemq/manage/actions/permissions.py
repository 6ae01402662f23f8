"""Commands for the permissions of users: set, clear, list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.errors import Refused
from sluicemq.manage.actions.users import user_of
from sluicemq.manage.command import UNAVAILABLE, CommandRefused
from sluicemq.metadata.changes import DeleteRecord, UpsertRecord
from sluicemq.model.permissions import Permission, TopicPermission

if TYPE_CHECKING:
    from sluicemq.manage.command import Given
    from sluicemq.manage.task import Action, Task


def grant(task: Task, permission: Permission | TopicPermission) -> None:
    """Set a permission, after checking its patterns."""
    try:
        permission.check()
    except Refused as refused:
        raise CommandRefused(str(refused), UNAVAILABLE) from refused
    task.propose(UpsertRecord(permission))


def set_permissions(task: Task, given: Given) -> None:
    user, vhost = user_of(task, given).name, task.vhost(given).name
    patterns = (given.text(each) for each in ("configure", "write", "read"))
    grant(task, Permission(user, vhost, *patterns))


def clear_permissions(task: Task, given: Given) -> None:
    """Remove a user's permissions in a virtual host; it is no error if there are none."""
    key = user_of(task, given).name, task.vhost(given).name
    if key not in task.broker.definitions.permissions:
        task.finish()
    else:
        task.propose(DeleteRecord(Permission.KIND, key))


def set_topic_permissions(task: Task, given: Given) -> None:
    """Set a user's permissions for topics of one exchange, which need not exist."""
    user, vhost = user_of(task, given).name, task.vhost(given).name
    exchange, write, read = given.name("exchange"), given.text("write"), given.text("read")
    grant(task, TopicPermission(user, vhost, exchange, write, read))


def clear_topic_permissions(task: Task, given: Given) -> None:
    """Remove a user's topic permissions for one exchange, or for all exchanges when none is
    named."""
    broker = task.broker
    user, vhost = user_of(task, given).name, task.vhost(given).name
    exchange = given.values.get("exchange")
    keys = [
        key
        for key in broker.definitions.topic_permissions
        if key[:2] == (user, vhost) and exchange in (None, key[2])
    ]
    for key in keys:
        task.propose(DeleteRecord(TopicPermission.KIND, key))
    if not keys:
        task.finish()


def listing(table: str, of_user: bool) -> Action:
    """Make the action that lists the permissions of one user, or those in one virtual host."""

    def run(task: Task, given: Given) -> None:
        field = "user" if of_user else "vhost"
        wanted = user_of(task, given).name if of_user else task.vhost(given).name
        records = getattr(task.broker.definitions, table).values()
        chosen = [record for record in records if getattr(record, field) == wanted]
        task.finish([record.as_json() for record in chosen])

    return run


ACTIONS: Final[dict[str, Action]] = {
    "set_permissions": set_permissions,
    "clear_permissions": clear_permissions,
    "list_permissions": listing("permissions", of_user=False),
    "list_user_permissions": listing("permissions", of_user=True),
    "set_topic_permissions": set_topic_permissions,
    "clear_topic_permissions": clear_topic_permissions,
    "list_topic_permissions": listing("topic_permissions", of_user=False),
    "list_user_topic_permissions": listing("topic_permissions", of_user=True),
}
