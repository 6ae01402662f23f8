"""Commands for policies and parameters."""

from __future__ import annotations

from typing import Final

from sluicemq.manage.command import Command, CommandArgument, CommandOption
from sluicemq.model.policy_scopes import ALL, APPLY_TO

COLUMNS: Final = {
    "vhost": "the virtual host it is for",
    "name": "its name",
    "pattern": "a regular expression for names of queues and exchanges",
    "apply-to": f"what it is for: {', '.join(APPLY_TO)}",
    "definition": "what it says, as JSON",
    "priority": "of several that match, the one with the highest number holds",
}
OPTIONS: Final = (
    CommandOption("priority", COLUMNS["priority"].capitalize() + ".", 0),
    CommandOption("apply_to", "What it is for.", ALL, choices=APPLY_TO),
)
SET: Final = (CommandArgument("name"), CommandArgument("pattern"), CommandArgument("definition"))
SETTING: Final = (
    ' "{name}" for pattern "{pattern}" to "{definition}" with priority "{priority}" for vhost'
    ' "{vhost}" ...'
)

POLICY_COMMANDS: Final = (
    Command(
        "set_policy",
        "Set or replace a policy; DEFINITION is a JSON object.",
        SET,
        OPTIONS,
        announces="Setting policy" + SETTING,
        per_vhost=True,
    ),
    Command(
        "clear_policy",
        "Take a policy away.",
        (CommandArgument("name"),),
        announces='Clearing policy "{name}" on vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command("list_policies", "List the policies.", columns=COLUMNS, per_vhost=True),
    Command(
        "set_operator_policy",
        "Set or replace an operator policy: limits that neither clients nor policies can exceed.",
        SET,
        OPTIONS,
        announces="Setting operator policy override" + SETTING,
        per_vhost=True,
    ),
    Command(
        "clear_operator_policy",
        "Take an operator policy away.",
        (CommandArgument("name"),),
        announces='Clearing operator policy "{name}" on vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "list_operator_policies", "List the operator policies.", columns=COLUMNS, per_vhost=True
    ),
)

PARAMETER_COMMANDS: Final = (
    Command(
        "set_parameter",
        "Set or replace a parameter of a component; VALUE is JSON. It is kept and exported; nothing"
        " here looks at it.",
        (CommandArgument("component"), CommandArgument("name"), CommandArgument("value")),
        announces='Setting runtime parameter "{name}" for component "{component}" to "{value}" in'
        ' vhost "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "clear_parameter",
        "Take a parameter away.",
        (CommandArgument("component"), CommandArgument("name")),
        announces='Clearing runtime parameter "{name}" for component "{component}" on vhost'
        ' "{vhost}" ...',
        per_vhost=True,
    ),
    Command(
        "list_parameters",
        "List the parameters of components.",
        columns={"component": "whose it is", "name": "its name", "value": "its value, as JSON"},
        per_vhost=True,
    ),
    Command(
        "set_global_parameter",
        "Set or replace a parameter of the whole node; VALUE is JSON.",
        (CommandArgument("name"), CommandArgument("value")),
        announces='Setting global runtime parameter "{name}" to "{value}" ...',
    ),
    Command(
        "clear_global_parameter",
        "Take a parameter of the whole node away.",
        (CommandArgument("name"),),
        announces='Clearing global runtime parameter "{name}" ...',
    ),
    Command(
        "list_global_parameters",
        "List the parameters of the whole node.",
        columns={"name": "its name", "value": "its value, as JSON"},
    ),
)

COMMANDS: Final = (*POLICY_COMMANDS, *PARAMETER_COMMANDS)
