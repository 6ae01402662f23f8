"""Small things that are equal when their fields are: as plain classes, because compiled code makes
and reads these several times faster than named tuples."""

from __future__ import annotations

from sluicemq.compiling import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True, acyclic=True)
class ByValue:
    """Base of such classes. Nobody changes them once they are made."""

    __slots__ = ()

    def values(self) -> tuple[object, ...]:
        """Return all fields, in the order of the arguments of the class."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self)
            and isinstance(other, ByValue)
            and other.values() == self.values()
        )

    def __hash__(self) -> int:
        return hash(self.values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.values()}"
