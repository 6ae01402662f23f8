"""Users: add, change, list, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from sluicemq.manage.command import DATA, NO_USER, SOFTWARE, UNAVAILABLE, CommandRefused
from sluicemq.metadata.changes import DeleteRecord, UpsertRecord
from sluicemq.model.document_fields import is_name, json_of
from sluicemq.model.passwords import SALT_BYTES, hash_password
from sluicemq.model.users import User
from sluicemq.model.vhosts import NAME_BYTES_MAX, USER_LIMITS, check_limits

if TYPE_CHECKING:
    from sluicemq.broker.broker import Broker
    from sluicemq.manage.command import Given
    from sluicemq.manage.task import Action, Task


def user_named(broker: Broker, name: str) -> User:
    """Return that user. Raises CommandRefused with rabbitmqctl's exit code when there is none."""
    user = broker.definitions.users.get(name)
    if user is None:
        raise CommandRefused(f'User "{name}" does not exist', NO_USER)
    return user


def user_of(task: Task, given: Given) -> User:
    """Return the user that the command names."""
    return user_named(task.broker, given.text("username"))


def hashed(task: Task, given: Given) -> str:
    """Return the hash of the given password; "" for an empty password, which never matches."""
    password = given.text("password")
    salt = task.broker.world.dice.token(SALT_BYTES)
    return hash_password(password, salt) if password else ""


def add_user(task: Task, given: Given) -> None:
    name = given.text("username")
    if name in task.broker.definitions.users:
        raise CommandRefused(f'User "{name}" already exists', SOFTWARE)
    if not name or not is_name(name):
        raise CommandRefused(f"a user's name must have 1 to {NAME_BYTES_MAX} bytes", DATA)
    task.propose(UpsertRecord(User(name, hashed(task, given))))


def delete_user(task: Task, given: Given) -> None:
    """Delete a user with its permissions; the broker closes its connections."""
    task.propose(DeleteRecord(User.KIND, user_of(task, given).name))


def change(task: Task, user: User) -> None:
    """Store the changed record of a user."""
    task.propose(UpsertRecord(user))


def change_password(task: Task, given: Given) -> None:
    """Set a user's password; its hash has the default algorithm, whatever the old one had."""
    user = user_of(task, given)
    change(task, User(user.name, hashed(task, given), tags=user.tags, limits=user.limits))


def clear_password(task: Task, given: Given) -> None:
    change(task, replace(user_of(task, given), password_hash=""))


def authenticate_user(task: Task, given: Given) -> None:
    """Check a password as if the client connected from this machine."""
    name = given.text("username")
    refusal = task.broker.access.refusal(name, given.text("password"), from_loopback=True)
    if refusal:
        text = f'failed to authenticate user "{name}"\n{refusal}'
        raise CommandRefused(text, DATA)
    task.finish()


def set_user_tags(task: Task, given: Given) -> None:
    """Set a user's tags. The broker itself uses only `impersonator`; the others are for management
    interfaces."""
    tags = tuple(dict.fromkeys(given.texts("tags")))
    change(task, replace(user_of(task, given), tags=tags))


def list_users(task: Task, _: Given) -> None:
    users = task.broker.definitions.users.values()
    task.finish([{"user": user.name, "tags": list(user.tags)} for user in users])


def new_hash(task: Task, given: Given) -> None:
    """Answer the hash of the given password; nothing is stored."""
    task.finish([{"password_hash": hashed(task, given)}])


def set_user_limits(task: Task, given: Given) -> None:
    """Set the limits that the command names; the others stay."""
    user = user_of(task, given)
    limits = check_limits(json_object(given.text("definition")), USER_LIMITS)
    change(task, replace(user, limits={**user.limits, **limits}))


def clear_user_limits(task: Task, given: Given) -> None:
    """Remove one limit of a user, or all; it is no error if there are none."""
    user, gone = user_of(task, given), given.text("limit_type")
    left = {name: limit for name, limit in user.limits.items() if gone not in (name, "all")}
    change(task, replace(user, limits=left))


def list_user_limits(task: Task, given: Given) -> None:
    """List users that have limits; a user named with --user is listed even without any."""
    if given.values.get("user") is not None:
        users = [user_named(task.broker, given.text("user"))]
    else:
        users = [user for user in task.broker.definitions.users.values() if user.limits]
    task.finish([{"user": user.name, "limits": dict(user.limits)} for user in users])


def json_object(text: str) -> dict[str, Any]:
    """Parse an argument that has to be a JSON object. Raises CommandRefused when it is not."""
    try:
        value = json_of(text)
    except ValueError as error:
        raise CommandRefused(f"JSON decoding error. Reason: {error}", UNAVAILABLE) from error
    if not isinstance(value, dict):
        raise CommandRefused(f"{text} is not a JSON object", UNAVAILABLE)
    return value


ACTIONS: Final[dict[str, Action]] = {
    "add_user": add_user,
    "delete_user": delete_user,
    "change_password": change_password,
    "clear_password": clear_password,
    "authenticate_user": authenticate_user,
    "set_user_tags": set_user_tags,
    "list_users": list_users,
    "hash_password": new_hash,
    "set_user_limits": set_user_limits,
    "clear_user_limits": clear_user_limits,
    "list_user_limits": list_user_limits,
}
