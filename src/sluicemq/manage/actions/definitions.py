"""All definitions together: out to a document, in from one."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from sluicemq.chain.importing import Planner, carry_out, differences, left_out
from sluicemq.manage.command import SOFTWARE, CommandRefused
from sluicemq.manage.exporting import document_of
from sluicemq.model.document import parse_definitions
from sluicemq.model.parameters import IMPORTED, GlobalParameter

if TYPE_CHECKING:
    from sluicemq.manage.command import Given
    from sluicemq.manage.task import Action, Task


def export_definitions(task: Task, given: Given) -> None:
    """As text that people can read."""
    vhost = task.vhost(given) if given.values.get("vhost") is not None else None
    document = document_of(task.broker, vhost)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    # What is no UTF-8 stays an escape, as in any other JSON.
    task.finish([{"file": text.encode(errors="backslashreplace").decode()}])


def import_definitions(task: Task, given: Given) -> None:
    """All or nothing; answered when it is durable."""
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
    if broker.store.sealed:
        raise CommandRefused(broker.store.sealed, SOFTWARE)
    plan.parameters.append(imported)
    task.record([carry_out(broker, plan, task.expect)], [*left_out(plan)])


ACTIONS: Final[dict[str, Action]] = {
    "export_definitions": export_definitions,
    "import_definitions": import_definitions,
}
