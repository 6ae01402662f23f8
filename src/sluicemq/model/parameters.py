"""Parameters of components and of the whole node: the broker keeps and exports them, and does not
use them.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from sluicemq.model.record import DefinitionRecord

IMPORTED: Final = "imported_definition_hash_value"
"""The global parameter that says which document came in last. It is not shown."""


class Parameter(DefinitionRecord, frozen=True):
    """A parameter of a component, such as a plugin, in a virtual host; `value` is any JSON."""

    KIND: ClassVar[str] = "parameter"
    TABLE: ClassVar[str] = "parameters"

    vhost: str
    component: str
    name: str
    value: Any

    @property
    def key(self) -> tuple[str, str, str]:
        return self.vhost, self.component, self.name


class GlobalParameter(DefinitionRecord, frozen=True):
    """A parameter of the whole node; `value` is any JSON."""

    KIND: ClassVar[str] = "global_parameter"
    TABLE: ClassVar[str] = "global_parameters"

    name: str
    value: Any

    @property
    def key(self) -> str:
        return self.name
