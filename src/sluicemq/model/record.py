"""A durable definition that is plain JSON: users, permissions, virtual hosts, policies.

A subclass is a frozen dataclass whose fields are JSON values (lists are tuples here); the names of
its fields are those in the file.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, Self

Key = str | tuple[str, ...]


class Record:
    """`KIND` names it in the journal, `TABLE` all of them in checkpoints and definitions; two with
    the same `key` are the same one."""

    __slots__ = ()

    KIND: ClassVar[str]
    TABLE: ClassVar[str]

    @property
    def key(self) -> Key:
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        """Its fields by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """The record again; TypeError when the fields are not its fields."""
        return cls(**{name: plain(value) for name, value in values.items()})


def plain(value: Any) -> Any:
    """A list of JSON's is a tuple."""
    return tuple(value) if isinstance(value, list) else value
