"""The actions of the control commands: a function for each command that `commands/` declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sluicemq.manage.actions import (
    definitions,
    members,
    mirrors,
    node,
    operations,
    permissions,
    policies,
    users,
    vhosts,
)

if TYPE_CHECKING:
    from sluicemq.manage.task import Action

ACTIONS: Final[dict[str, Action]] = {
    **definitions.ACTIONS,
    **members.ACTIONS,
    **mirrors.ACTIONS,
    **node.ACTIONS,
    **operations.ACTIONS,
    **permissions.ACTIONS,
    **policies.ACTIONS,
    **users.ACTIONS,
    **vhosts.ACTIONS,
}
