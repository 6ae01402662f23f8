"""The control commands besides the plain lists: names, arguments, options. Data only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.manage.commands import access, definitions, members, mirrors, operations, policies

if TYPE_CHECKING:
    from sluicemq.manage.command import Command

COMMANDS: Final[dict[str, Command]] = {
    command.name: command
    for command in (
        *access.COMMANDS,
        *definitions.COMMANDS,
        *members.COMMANDS,
        *mirrors.COMMANDS,
        *operations.COMMANDS,
        *policies.COMMANDS,
    )
}
