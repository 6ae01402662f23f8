"""Virtual hosts: add, list, limit, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from sluicemq.broker.vhost import VhostEmpty
from sluicemq.manage.actions.users import json_object
from sluicemq.manage.command import DATA, LATER, SOFTWARE, UNAVAILABLE, CommandRefused
from sluicemq.metadata.agreement import NoAgreement
from sluicemq.metadata.changes import CloseVhost, DeleteRecord, UpsertRecord
from sluicemq.model.document_fields import is_name
from sluicemq.model.queue_types import TYPES_HERE
from sluicemq.model.vhosts import (
    NAME_BYTES_MAX,
    VHOST_LIMITS,
    VhostDefinition,
    check_limits,
)

if TYPE_CHECKING:
    from sluicemq.manage.command import Given
    from sluicemq.manage.task import Action, Task


def definition_of(task: Task, given: Given) -> VhostDefinition:
    """Return the definition of the virtual host that the command names. Raises CommandRefused when
    there is none."""
    return task.broker.definitions.vhosts[task.vhost(given).name]


def add_vhost(task: Task, given: Given) -> None:
    """Add a virtual host; one that already exists stays as it is."""
    name = given.text("vhost")
    kind = given.text("default_queue_type", "") or None
    if kind is not None and kind not in TYPES_HERE:
        raise CommandRefused(f"there is no queue type {kind}: {', '.join(TYPES_HERE)}", UNAVAILABLE)
    if not name or not is_name(name):
        raise CommandRefused(f"a virtual host's name must have 1 to {NAME_BYTES_MAX} bytes", DATA)
    there = task.broker.vhosts.get(name)
    if there is not None and not there.is_open:
        raise CommandRefused(f"Virtual host '{name}' is being deleted", LATER)
    if there is not None:
        task.finish()
        return
    tags = tuple(tag for tag in given.text("tags", "").split(",") if tag)
    definition = VhostDefinition(name, given.text("description", ""), tags, kind)
    task.propose(UpsertRecord(definition))


def delete_vhost(task: Task, given: Given) -> None:
    """Delete a virtual host; the answer comes when that is durable."""
    vhost = task.vhost(given)
    if not vhost.is_open:
        raise CommandRefused(f"Virtual host '{vhost.name}' is being deleted", LATER)

    def on_answer(message: object) -> None:
        if isinstance(message, VhostEmpty):
            task.propose(DeleteRecord(VhostDefinition.KIND, vhost.name))

    change = CloseVhost(vhost.name)
    try:
        task.broker.agreement.check_ready(change)
    except NoAgreement as error:
        raise CommandRefused(str(error), SOFTWARE) from error
    task.on_message(on_answer)
    task.broker.agreement.propose(change)
    vhost.wait_until_empty(task)


def list_vhosts(task: Task, _: Given) -> None:
    task.finish(
        [
            {
                "name": each.name,
                "description": each.description,
                "tags": list(each.tags),
                "tracing": False,
                "default_queue_type": each.default_queue_type,
            }
            for each in task.broker.definitions.vhosts.values()
        ]
    )


def set_vhost_limits(task: Task, given: Given) -> None:
    """Replace a virtual host's limits; those that the command does not name are removed."""
    definition = definition_of(task, given)
    limits = check_limits(json_object(given.text("definition")), VHOST_LIMITS)
    task.propose(UpsertRecord(replace(definition, limits=limits)))


def clear_vhost_limits(task: Task, given: Given) -> None:
    definition = definition_of(task, given)
    if not definition.limits:
        raise CommandRefused("Parameter does not exist", UNAVAILABLE)
    task.propose(UpsertRecord(replace(definition, limits={})))


def list_vhost_limits(task: Task, given: Given) -> None:
    """List the limits of one virtual host, even without any, or of all that have some."""
    if given.flag("global_"):
        every = task.broker.definitions.vhosts.values()
        some = [definition for definition in every if definition.limits]
    else:
        some = [definition_of(task, given)]
    task.finish([{"vhost": each.name, "limits": dict(each.limits)} for each in some])


ACTIONS: Final[dict[str, Action]] = {
    "add_vhost": add_vhost,
    "delete_vhost": delete_vhost,
    "list_vhosts": list_vhosts,
    "set_vhost_limits": set_vhost_limits,
    "clear_vhost_limits": clear_vhost_limits,
    "list_vhost_limits": list_vhost_limits,
}
