"""Policies and parameters: set, clear, list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from sluicemq.errors import Refused
from sluicemq.manage.command import UNAVAILABLE, CommandRefused
from sluicemq.metadata.changes import DeleteRecord, UpsertRecord
from sluicemq.model.document_fields import json_of
from sluicemq.model.parameters import IMPORTED, GlobalParameter, Parameter
from sluicemq.model.policies import OperatorPolicy, Policy
from sluicemq.model.policy_scopes import ALL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.manage.command import Given
    from sluicemq.manage.task import Action, Task
    from sluicemq.manage.views import Row

OF_COMMANDS: Final = {
    "policy": "set_policy",
    "operator_policy": "set_operator_policy",
    "vhost-limits": "set_vhost_limits",
}
"""Components whose parameters have commands of their own."""


def setting(kind: type[Policy]) -> Action:
    """Make the action of set_policy or set_operator_policy, by the class of policy."""

    def run(task: Task, given: Given) -> None:
        vhost = task.vhost(given)
        policy = kind(
            vhost.name,
            given.name("name"),
            given.text("pattern"),
            given.text("apply_to", ALL),
            value_of(given.text("definition")),
            given.number("priority", 0),
        )
        try:
            policy.check()
        except Refused as refused:
            raise CommandRefused(f"Validation failed\n\n{refused}\n", UNAVAILABLE) from refused
        task.propose(UpsertRecord(policy), policies_in=[vhost.name])

    return run


def clearing(kind: type[Policy]) -> Action:
    """Make the action of clear_policy or clear_operator_policy, by the class of policy."""

    def run(task: Task, given: Given) -> None:
        vhost, name = task.vhost(given), given.text("name")
        if (vhost.name, name) not in task.broker.definitions.records[kind.KIND]:
            raise no_parameter()
        task.propose(DeleteRecord(kind.KIND, (vhost.name, name)), policies_in=[vhost.name])

    return run


def listing(kind: type[Policy]) -> Action:
    """Make the action of list_policies or list_operator_policies, by the class of policy."""

    def run(task: Task, given: Given) -> None:
        task.finish([*map(row_of, task.vhost(given).policies.all_of(kind.KIND))])

    return run


def row_of(policy: Policy) -> Row:
    """Return a policy under RabbitMQ's column names; its definition is JSON text."""
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": compact(policy.definition),
        "priority": policy.priority,
    }


def set_parameter(task: Task, given: Given) -> None:
    vhost, component = task.vhost(given), given.name("component")
    if component in OF_COMMANDS:
        text = f"parameters of component {component} are set by {OF_COMMANDS[component]}"
        raise CommandRefused(f"Validation failed\n\n{text}\n", UNAVAILABLE)
    value = value_of(given.text("value"))
    parameter = Parameter(vhost.name, component, given.name("name"), value)
    task.propose(UpsertRecord(parameter))


def clear_parameter(task: Task, given: Given) -> None:
    key = task.vhost(given).name, given.text("component"), given.text("name")
    if key not in task.broker.definitions.parameters:
        raise no_parameter()
    task.propose(DeleteRecord(Parameter.KIND, key))


def list_parameters(task: Task, given: Given) -> None:
    vhost = task.vhost(given)
    found: Iterable[Parameter] = task.broker.definitions.parameters.values()
    task.finish(
        [
            {"component": each.component, "name": each.name, "value": compact(each.value)}
            for each in found
            if each.vhost == vhost.name
        ]
    )


def set_global_parameter(task: Task, given: Given) -> None:
    parameter = GlobalParameter(given.name("name"), value_of(given.text("value")))
    task.propose(UpsertRecord(parameter))


def clear_global_parameter(task: Task, given: Given) -> None:
    name = given.text("name")
    if name not in task.broker.definitions.global_parameters:
        raise no_parameter()
    task.propose(DeleteRecord(GlobalParameter.KIND, name))


def list_global_parameters(task: Task, _: Given) -> None:
    found: Iterable[GlobalParameter] = task.broker.definitions.global_parameters.values()
    task.finish(
        [
            {"name": each.name, "value": compact(each.value)}
            for each in found
            if each.name != IMPORTED
        ]
    )


def no_parameter() -> CommandRefused:
    return CommandRefused("Parameter does not exist", UNAVAILABLE)


def compact(value: object) -> str:
    """Return a value as JSON without spaces."""
    return json.dumps(value, separators=(",", ":"))


def value_of(text: str) -> Any:
    """Parse JSON text. Raises CommandRefused when it is not valid."""
    try:
        return json_of(text)
    except ValueError as error:
        raise CommandRefused(f"JSON decoding error. Reason: {error}", UNAVAILABLE) from error


ACTIONS: Final[dict[str, Action]] = {
    "set_policy": setting(Policy),
    "clear_policy": clearing(Policy),
    "list_policies": listing(Policy),
    "set_operator_policy": setting(OperatorPolicy),
    "clear_operator_policy": clearing(OperatorPolicy),
    "list_operator_policies": listing(OperatorPolicy),
    "set_parameter": set_parameter,
    "clear_parameter": clear_parameter,
    "list_parameters": list_parameters,
    "set_global_parameter": set_global_parameter,
    "clear_global_parameter": clear_global_parameter,
    "list_global_parameters": list_global_parameters,
}
