"""Durable definitions that are plain JSON: users, permissions, virtual hosts, policies.

A subclass is a frozen msgspec Struct whose fields are JSON values (lists are tuples here); its
fields have the names of those in the file, and their types are checked when it is read.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from msgspec import Struct, convert
from msgspec.structs import asdict

Key = str | tuple[str, ...]


class DefinitionRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """A durable definition. `KIND` names its class in the journal, `TABLE` names all definitions of
    the class in checkpoints and documents; two of a class with equal `key` are the same one."""

    KIND: ClassVar[str]
    TABLE: ClassVar[str]

    @property
    def key(self) -> Key:
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        """Return the fields of the record by name, as JSON."""
        return asdict(self)

    @classmethod
    def of(cls, values: object) -> Self:
        """Return the record that has these fields, which are JSON. Raises msgspec.ValidationError,
        which says where, when one is missing, unknown or of another type; UnicodeEncodeError when
        it is unknown and cannot even be named. Unknown fields are refused because the next
        checkpoint would lack them."""
        return convert(values, cls)
