"""The records: virtual hosts, users and what they may do, policies, parameters; each by its key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sluicemq.metadata.codec import RECORDS
from sluicemq.model.users import User
from sluicemq.model.vhosts import VhostDefinition

if TYPE_CHECKING:
    from sluicemq.model.parameters import GlobalParameter, Parameter
    from sluicemq.model.permissions import Permission, TopicPermission
    from sluicemq.model.policies import OperatorPolicy, Policy
    from sluicemq.model.record import Key

BELONG_TO: Final = {VhostDefinition.KIND: "vhost", User.KIND: "user"}
"""The field by which other records belong to one of this kind, and go with it."""


class RecordTables:
    """A table for each kind of record."""

    def __init__(self) -> None:
        self.vhosts: dict[str, VhostDefinition] = {}
        self.users: dict[str, User] = {}
        self.permissions: dict[tuple[str, str], Permission] = {}
        self.topic_permissions: dict[tuple[str, str, str], TopicPermission] = {}
        self.policies: dict[tuple[str, str], Policy] = {}
        self.operator_policies: dict[tuple[str, str], OperatorPolicy] = {}
        self.parameters: dict[tuple[str, str, str], Parameter] = {}
        self.global_parameters: dict[str, GlobalParameter] = {}
        self.records: dict[str, dict[Any, Any]] = {
            each.KIND: getattr(self, each.TABLE) for each in RECORDS
        }
        """All tables above, by the KIND of their records."""

    def remove_record(self, kind: str, key: Key) -> bool:
        """Delete a record, and those that belong to it even if it is not there itself. Returns
        whether it was."""
        was_there = self.records[kind].pop(key, None) is not None
        field = BELONG_TO.get(kind)
        if field is not None:
            for table in self.records.values():
                for other, each in [*table.items()]:
                    if getattr(each, field, None) == key:
                        del table[other]
        return was_there
