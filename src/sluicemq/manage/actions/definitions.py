"""Exports and imports all definitions together, as a document."""

from __future__ import annotations

import hashlib
from itertools import islice
from json import JSONEncoder
from typing import TYPE_CHECKING, Any, Final

from sluicemq.broker.definitions_import import Planner, change_of, differences, left_out
from sluicemq.manage.command import SOFTWARE, CommandRefused
from sluicemq.manage.exporting import fill
from sluicemq.model.document import parse_definitions
from sluicemq.model.parameters import IMPORTED, GlobalParameter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluicemq.broker.broker import Broker
    from sluicemq.broker.vhost import VirtualHost
    from sluicemq.manage.command import Given
    from sluicemq.manage.task import Action, Task
    from sluicemq.manage.views import Row

TOKENS: Final = 500
TOKENS_WORK: Final = 300
"""Pieces of JSON text that are written at a time, and the units of work that they cost."""


def export_definitions(task: Task, given: Given) -> None:
    """Answer all definitions, or those of one virtual host, as an indented JSON document."""
    vhost = task.vhost(given) if given.values.get("vhost") is not None else None
    found: list[Row] = []
    task.look(exporting(task.broker, vhost, found), found)


def exporting(broker: Broker, vhost: VirtualHost | None, found: list[Row]) -> Iterator[int]:
    """Write all definitions that exist at the beginning into `found`, in pieces."""
    document: dict[str, Any] = {}
    yield from fill(document, broker, vhost)
    written = JSONEncoder(indent=2, ensure_ascii=False).iterencode(document)
    text: list[str] = []
    while part := "".join(islice(written, TOKENS)):
        # Names that are not UTF-8 stay escapes, as in any other JSON.
        text.append(part.encode(errors="backslashreplace").decode())
        yield TOKENS_WORK
    found.append({"file": "".join((*text, "\n"))})


def import_definitions(task: Task, given: Given) -> None:
    """Import a document, all of it or nothing; the answer comes when it is durable."""
    vhost = task.vhost(given).name if given.values.get("vhost") is not None else None
    broker = task.broker
    text = given.text("file")
    imported = GlobalParameter(IMPORTED, hashlib.sha256(text.encode()).hexdigest())
    unchanged = broker.definitions.global_parameters.get(IMPORTED) == imported
    if unchanged and given.flag("skip_if_unchanged"):
        task.finish()
        return
    plan = Planner(broker, parse_definitions(text, vhost)).run()
    if given.flag("dry_run"):
        task.finish([*differences(broker, plan), *left_out(plan)])
        return
    if broker.store.storage_failed:
        raise CommandRefused(broker.store.storage_failed, SOFTWARE)
    plan.parameters.append(imported)
    vhosts = dict.fromkeys(policy.vhost for policy in plan.policies)
    task.propose(change_of(plan, broker.world.dice), [*left_out(plan)], policies_in=vhosts)


ACTIONS: Final[dict[str, Action]] = {
    "export_definitions": export_definitions,
    "import_definitions": import_definitions,
}
