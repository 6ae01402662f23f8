"""Users and their permissions: list, show, make, change, delete."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from sluicemq.management.api_error import bad_request, not_found
from sluicemq.management.call import ApiAnswer, ApiRoute, Call, text_in
from sluicemq.management.listing import as_wanted
from sluicemq.management.sign_in import ADMINISTRATOR, MONITORING

Shown = dict[str, Any]

HASHING: Final = "rabbit_password_hashing_sha256"


async def users(call: Call) -> ApiAnswer:
    """Return all users, with the hashes of their passwords."""
    return ApiAnswer(as_wanted(await call.desk.declared("users"), call.query))


async def without_permissions(call: Call) -> ApiAnswer:
    """Return the users that may enter no virtual host."""
    named = {row["user"] for row in await call.desk.declared("permissions")}
    return ApiAnswer([row for row in await call.desk.declared("users") if row["name"] not in named])


async def found(call: Call) -> Shown:
    """Return the user that the path names. Raises ApiError when there is none."""
    for row in await call.desk.declared("users"):
        if row["name"] == call.path["user"]:
            return row
    raise not_found()


async def user(call: Call) -> ApiAnswer:
    """Return one user, with the hash of its password."""
    return ApiAnswer(await found(call))


async def put(call: Call) -> ApiAnswer:
    """Make a user, or replace the password (or its hash) and the tags of one."""
    body = call.body()
    name = call.path["user"]
    is_new = all(row["name"] != name for row in await call.desk.declared("users"))
    if "tags" not in body:
        raise bad_request("the key tags is missing")
    given: Shown = {"username": name, "tags": tags_of(body["tags"])}
    if "password" in body:
        given["password"] = text_in(body, "password")
    else:
        given["password_hash"] = text_in(body, "password_hash", "")
        given["hashing_algorithm"] = text_in(body, "hashing_algorithm", HASHING)
    await call.desk.change("set_user", **given)
    return ApiAnswer(None, 201 if is_new else 204)


def tags_of(given: object) -> list[str]:
    """Return tags that were given as a list, or as names with commas between. Raises ApiError for
    other values."""
    if isinstance(given, str):
        return [each.strip() for each in given.split(",") if each.strip()]
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        return given
    raise bad_request("tags must be a text or a list of texts")


async def delete(call: Call) -> ApiAnswer:
    """Delete a user, with all of its permissions."""
    await call.desk.change("delete_user", username=(await found(call))["name"])
    return ApiAnswer(None, 204)


async def delete_many(call: Call) -> ApiAnswer:
    """Delete the users that the body names, and skip those that do not exist."""
    names = call.body().get("users")
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise bad_request("users must be a list of names")
    there = {row["name"] for row in await call.desk.declared("users")}
    for name in dict.fromkeys(names):
        if name in there:
            await call.desk.change("delete_user", username=name)
    return ApiAnswer(None, 204)


async def permissions_of(call: Call) -> ApiAnswer:
    """Return the permissions of one user."""
    return await of_user(call, "permissions")


async def topic_permissions_of(call: Call) -> ApiAnswer:
    """Return the topic permissions of one user."""
    return await of_user(call, "topic_permissions")


async def of_user(call: Call, table: str) -> ApiAnswer:
    """Return the permissions in one table of the user that the path names."""
    name = (await found(call))["name"]
    rows = await call.desk.declared(table)
    return ApiAnswer(as_wanted([row for row in rows if row["user"] == name], call.query))


async def permissions(call: Call) -> ApiAnswer:
    """Return the permissions of all users."""
    return ApiAnswer(as_wanted(await call.desk.declared("permissions"), call.query))


async def topic_permissions(call: Call) -> ApiAnswer:
    """Return the topic permissions of all users."""
    return ApiAnswer(as_wanted(await call.desk.declared("topic_permissions"), call.query))


async def granted(call: Call, table: str) -> list[Shown]:
    """Return the permissions of the user in the virtual host that the path names. Raises ApiError
    when there are none."""
    place = call.path["vhost"], call.path["user"]
    rows = await call.desk.declared(table)
    chosen = [row for row in rows if (row["vhost"], row["user"]) == place]
    if not chosen:
        raise not_found()
    return chosen


async def permission(call: Call) -> ApiAnswer:
    """Return the permissions of one user in one virtual host."""
    return ApiAnswer((await granted(call, "permissions"))[0])


async def set_permission(call: Call) -> ApiAnswer:
    """Set the permissions of one user in one virtual host: 201 when they are new."""
    body = call.body()
    patterns = {name: text_in(body, name) for name in ("configure", "write", "read")}
    place = {"vhost": call.path["vhost"], "username": call.path["user"]}
    is_new = not exists(await call.desk.declared("permissions"), place)
    await call.desk.change("set_permissions", **place, **patterns)
    return ApiAnswer(None, 201 if is_new else 204)


def exists(rows: list[Shown], place: Mapping[str, str]) -> bool:
    """Tell whether the rows have permissions of that user in that virtual host."""
    return any((row["vhost"], row["user"]) == (place["vhost"], place["username"]) for row in rows)


async def clear_permission(call: Call) -> ApiAnswer:
    """Remove all permissions of a user in a virtual host."""
    await granted(call, "permissions")
    await call.desk.change(
        "clear_permissions", vhost=call.path["vhost"], username=call.path["user"]
    )
    return ApiAnswer(None, 204)


async def topic_permission(call: Call) -> ApiAnswer:
    """Return the topic permissions of one user in one virtual host."""
    return ApiAnswer(await granted(call, "topic_permissions"))


async def set_topic_permission(call: Call) -> ApiAnswer:
    """Set the topic permissions of a user for one exchange."""
    body = call.body()
    place = {"vhost": call.path["vhost"], "username": call.path["user"]}
    is_new = not exists(await call.desk.declared("topic_permissions"), place)
    await call.desk.change(
        "set_topic_permissions",
        **place,
        exchange=text_in(body, "exchange"),
        write=text_in(body, "write"),
        read=text_in(body, "read"),
    )
    return ApiAnswer(None, 201 if is_new else 204)


async def clear_topic_permission(call: Call) -> ApiAnswer:
    """Remove all topic permissions of a user in a virtual host."""
    await granted(call, "topic_permissions")
    await call.desk.change(
        "clear_topic_permissions", vhost=call.path["vhost"], username=call.path["user"]
    )
    return ApiAnswer(None, 204)


async def limits(call: Call) -> ApiAnswer:
    """Return the limits of all users that have some."""
    rows = await call.desk.declared("users")
    return ApiAnswer(
        [{"user": row["name"], "value": row["limits"]} for row in rows if row["limits"]]
    )


async def limits_of(call: Call) -> ApiAnswer:
    """Return the limits of one user."""
    row = await found(call)
    return ApiAnswer([{"user": row["name"], "value": row["limits"]}] if row["limits"] else [])


async def set_limit(call: Call) -> ApiAnswer:
    """Set one limit of a user."""
    row = await found(call)
    definition = json.dumps({call.path["limit"]: call.body().get("value")})
    await call.desk.change("set_user_limits", username=row["name"], definition=definition)
    return ApiAnswer(None, 204)


async def clear_limit(call: Call) -> ApiAnswer:
    """Remove one limit of a user."""
    row = await found(call)
    if call.path["limit"] not in row["limits"]:
        raise not_found()
    await call.desk.change("clear_user_limits", username=row["name"], limit_type=call.path["limit"])
    return ApiAnswer(None, 204)


async def hash_password(call: Call) -> ApiAnswer:
    """Return the hash of a password, for use in definitions; nothing is stored."""
    [row] = await call.desk.link.ask("hash_password", password=call.path["password"])
    return ApiAnswer({"ok": row["password_hash"]})


async def attempts(call: Call) -> ApiAnswer:
    """Return how many log-ins over HTTP have succeeded and failed at this process. Raises ApiError
    for other nodes, whose own processes count theirs."""
    if call.path["node"] != await call.desk.node_name():
        raise not_found()
    counted = call.desk.sign_in.attempts
    return ApiAnswer(
        [
            {
                "protocol": "http",
                "auth_attempts": counted.succeeded + counted.failed,
                "auth_attempts_failed": counted.failed,
                "auth_attempts_succeeded": counted.succeeded,
            }
        ]
    )


PERMISSION: Final = "permissions/{vhost}/{user}"
TOPIC: Final = "topic-permissions/{vhost}/{user}"
ROUTES: Final = (
    ApiRoute("GET", "users", ADMINISTRATOR, users),
    ApiRoute("GET", "users/without-permissions", ADMINISTRATOR, without_permissions),
    ApiRoute("POST", "users/bulk-delete", ADMINISTRATOR, delete_many),
    ApiRoute("GET", "users/{user}", ADMINISTRATOR, user),
    ApiRoute("PUT", "users/{user}", ADMINISTRATOR, put),
    ApiRoute("DELETE", "users/{user}", ADMINISTRATOR, delete),
    ApiRoute("GET", "users/{user}/permissions", ADMINISTRATOR, permissions_of),
    ApiRoute("GET", "users/{user}/topic-permissions", ADMINISTRATOR, topic_permissions_of),
    ApiRoute("GET", "permissions", ADMINISTRATOR, permissions),
    ApiRoute("GET", PERMISSION, ADMINISTRATOR, permission),
    ApiRoute("PUT", PERMISSION, ADMINISTRATOR, set_permission),
    ApiRoute("DELETE", PERMISSION, ADMINISTRATOR, clear_permission),
    ApiRoute("GET", "topic-permissions", ADMINISTRATOR, topic_permissions),
    ApiRoute("GET", TOPIC, ADMINISTRATOR, topic_permission),
    ApiRoute("PUT", TOPIC, ADMINISTRATOR, set_topic_permission),
    ApiRoute("DELETE", TOPIC, ADMINISTRATOR, clear_topic_permission),
    ApiRoute("GET", "user-limits", ADMINISTRATOR, limits),
    ApiRoute("GET", "user-limits/{user}", ADMINISTRATOR, limits_of),
    ApiRoute("PUT", "user-limits/{user}/{limit}", ADMINISTRATOR, set_limit),
    ApiRoute("DELETE", "user-limits/{user}/{limit}", ADMINISTRATOR, clear_limit),
    ApiRoute("GET", "auth/hash_password/{password}", ADMINISTRATOR, hash_password),
    ApiRoute("GET", "auth/attempts/{node}", MONITORING, attempts),
)
