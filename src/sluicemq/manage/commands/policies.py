"""Commands for policies and parameters."""

from __future__ import annotations

from typing import Final

from sluicemq.manage.command import Command, CommandArgument, CommandOption
from sluicemq.model.policy_scopes import ALL, APPLY_TO

COLUMNS: Final = {
    "vhost": "the virtual host it applies in",
    "name": "the policy's name",
    "pattern": "a regular expression for names of queues and exchanges it applies to",
    "apply-to": f"what it applies to: {', '.join(APPLY_TO)}",
    "definition": "the settings it makes, as a JSON object",
    "priority": "of several policies that match, the one with the highest number applies",
}
OPTIONS: Final = (
    CommandOption("priority", COLUMNS["priority"].capitalize() + ".", 0),
    CommandOption("apply_to", "What the policy applies to.", ALL, choices=APPLY_TO),
)
SET: Final = (CommandArgument("name"), CommandArgument("pattern"), CommandArgument("definition"))
SETTING: Final = (
    ' "{name}" for pattern "{pattern}" to "{definition}" with priority "{priority}" for vhost'
    ' "{vhost}" ...'
)

POLICY_COMMANDS: Final = (
    Command(
        "set_policy",
        "Create or replace a policy; DEFINITION is a JSON object.",
        SET,
        OPTIONS,
        announces="Setting policy" + SETTING,
        per_vhost=True,
    ),
    Command(
        "clear_policy",
        "Delete a policy.",
        (CommandArgument("name"),),
        announces='Clearing policy "{name}" on vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "list_policies", "List all policies of a virtual host.", columns=COLUMNS, per_vhost=True
    ),
    Command(
        "set_operator_policy",
        "Create or replace an operator policy: limits that clients and policies cannot exceed.",
        SET,
        OPTIONS,
        announces="Setting operator policy override" + SETTING,
        per_vhost=True,
    ),
    Command(
        "clear_operator_policy",
        "Delete an operator policy.",
        (CommandArgument("name"),),
        announces='Clearing operator policy "{name}" on vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "list_operator_policies",
        "List all operator policies of a virtual host.",
        columns=COLUMNS,
        per_vhost=True,
    ),
)

PARAMETER_COMMANDS: Final = (
    Command(
        "set_parameter",
        "Set a runtime parameter of a component; VALUE is JSON. The broker stores and exports it,"
        " but does not use it.",
        (CommandArgument("component"), CommandArgument("name"), CommandArgument("value")),
        announces='Setting runtime parameter "{name}" for component "{component}" to "{value}" in'
        ' vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "clear_parameter",
        "Remove a runtime parameter.",
        (CommandArgument("component"), CommandArgument("name")),
        announces='Clearing runtime parameter "{name}" for component "{component}" on vhost'
        ' "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "list_parameters",
        "List all runtime parameters of a virtual host.",
        columns={"component": "the component", "name": "its name", "value": "its value as JSON"},
        per_vhost=True,
    ),
    Command(
        "set_global_parameter",
        "Set a global runtime parameter; VALUE is JSON.",
        (CommandArgument("name"), CommandArgument("value")),
        announces='Setting global runtime parameter "{name}" to "{value}" ...',
    ),
    Command(
        "clear_global_parameter",
        "Remove a global runtime parameter.",
        (CommandArgument("name"),),
        announces='Clearing global runtime parameter "{name}" ...',
    ),
    Command(
        "list_global_parameters",
        "List all global runtime parameters.",
        columns={"name": "the parameter's name", "value": "its value as JSON"},
    ),
)

COMMANDS: Final = (*POLICY_COMMANDS, *PARAMETER_COMMANDS)
