"""Users, as RabbitMQ's definitions describe them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from msgspec import field

from sluicemq.model.passwords import DEFAULT_ALGORITHM, NOBODY, is_right
from sluicemq.model.record import DefinitionRecord

IMPERSONATOR: Final = "impersonator"
"""The tag of users who may set `user_id` to anybody's name."""


class User(DefinitionRecord, frozen=True):
    """A user that may log in. With an empty `password_hash` nobody can log in with a password.
    `limits` has max-connections and max-channels; a negative one is no limit."""

    KIND: ClassVar[str] = "user"
    TABLE: ClassVar[str] = "users"

    name: str
    password_hash: str = ""
    hashing_algorithm: str = DEFAULT_ALGORITHM
    tags: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.name

    def __repr__(self) -> str:
        """Return the user's fields without the password hash, because this may go to a log."""
        return f"User({self.name!r}, tags={self.tags!r}, limits={self.limits!r})"


def password_fits(user: User | None, password: str) -> bool:
    """Tell whether that is the user's password. None, the user that does not exist, has none, and
    finding that out takes as long."""
    if user is None:
        return is_right(password, NOBODY, DEFAULT_ALGORITHM)
    return is_right(password, user.password_hash, user.hashing_algorithm)
