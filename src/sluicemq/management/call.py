"""One request to the API, with its user and body; and the answer to it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from sluicemq.manage.record_columns import VHOSTS
from sluicemq.management.api_error import ApiError, bad_request, not_authorised, not_found
from sluicemq.management.desk import Desk
from sluicemq.management.inventory import Record
from sluicemq.management.message_stats import SampleWish
from sluicemq.management.sign_in import MONITORING, Visitor
from sluicemq.management.user_session import T, UserSession


class ApiAnswer(NamedTuple):
    """The answer to a request. A `content` of None is an empty body."""

    content: Any = None
    status: int = 200
    headers: Mapping[str, str] = {}


class Call:
    """A request of `visitor`. `path` has the variable parts of its path, `query` its parameters,
    `raw` its body."""

    def __init__(
        self,
        desk: Desk,
        visitor: Visitor,
        path: Mapping[str, str],
        query: Mapping[str, str],
        raw: bytes,
        headers: Mapping[str, str],
    ) -> None:
        self.desk = desk
        self.visitor = visitor
        self.path = path
        self.query = query
        self.raw = raw
        self.headers = headers

    @property
    def wish(self) -> SampleWish:
        """The samples that the request wants in addition to rates."""
        return SampleWish(self.query)

    @property
    def is_monitor(self) -> bool:
        """Whether the user may see what belongs to others."""
        return self.visitor.may(MONITORING)

    def body(self) -> dict[str, Any]:
        """Return the body, a JSON object; an empty body is an empty one. Raises ApiError when it is
        no JSON object."""
        if not self.raw.strip():
            return {}
        try:
            found = json.loads(self.raw)
        except (ValueError, RecursionError) as error:
            raise ApiError(400, "bad_request", f"not_json: {error}") from error
        if not isinstance(found, dict):
            raise bad_request("the body must be a JSON object")
        return found

    def sees_vhost(self, name: str) -> bool:
        """Tell whether lists show the user the contents of a virtual host."""
        return self.is_monitor or name in self.visitor.vhosts

    def visible(self, rows: list[Record]) -> list[Record]:
        """Return those records that are in virtual hosts that the user sees."""
        if self.is_monitor:
            return rows
        return [row for row in rows if row["vhost"] in self.visitor.vhosts]

    def own(self, rows: list[Record]) -> list[Record]:
        """Return those connections or channels that the user sees: all, or only its own."""
        if self.is_monitor:
            return rows
        return [row for row in rows if row["user"] == self.visitor.name]

    async def vhost(self) -> str:
        """Return the virtual host that the path names. Raises ApiError when there is none (404), or
        the user may not enter it (401)."""
        name = self.path["vhost"]
        if name in self.visitor.vhosts:
            return name
        if all(row["name"] != name for row in await self.desk.inventory.all(VHOSTS)):
            raise not_found()
        raise not_authorised("User not authorised to access virtual host")

    async def seen_vhost(self) -> str:
        """Return the virtual host that the path names, for reading only: monitors may look into
        all. Raises ApiError as `vhost` does."""
        if not self.is_monitor:
            return await self.vhost()
        name = self.path["vhost"]
        if all(row["name"] != name for row in await self.desk.inventory.all(VHOSTS)):
            raise not_found()
        return name

    async def as_user(self, vhost: str, work: Callable[[UserSession], T]) -> T:
        """Do `work` over AMQP in the user's name, and return its result."""
        node = await self.desk.inventory.node()
        self.desk.inventory.changed()
        try:
            return await self.desk.sessions.run(
                node["listeners"], self.visitor.name, self.visitor.password, vhost, work
            )
        finally:
            self.desk.inventory.changed()


def as_json(content: Any) -> bytes:
    """Return content as JSON. Keys of bindings that are not UTF-8 keep their bytes as surrogates,
    which only the slower of two encoders takes."""
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:
        return json.dumps(content, separators=(",", ":")).encode()


Handler = Callable[[Call], Awaitable[ApiAnswer]]


class ApiRoute(NamedTuple):
    """A method and a path of the API below /api, with the tag that its users must have. Parts of
    the path in braces match anything."""

    method: str
    path: str
    tag: str
    handler: Handler


def text_in(body: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a text of a body. Raises ApiError for another type, or if missing without a
    default."""
    value = body.get(name, default)
    if not isinstance(value, str):
        raise bad_request(f"{name} is missing or not a text")
    return value


def flag_in(body: Mapping[str, Any], name: str) -> bool:
    """Return a flag of a body, False when it is missing: true or "true". Raises ApiError when it is
    no flag."""
    value = body.get(name, False)
    if value in ("true", "false"):
        return bool(value == "true")
    if not isinstance(value, bool):
        raise bad_request(f"{name} must be true or false")
    return value


def object_in(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object of a body, an empty one when it is missing. Raises ApiError when it is of
    another type."""
    value = body.get(name, {})
    if value in ([], ""):
        return {}
    if not isinstance(value, dict):
        raise bad_request(f"{name} must be an object")
    return value
