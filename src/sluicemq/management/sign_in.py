"""Authenticates requests: users of the broker, by their names and passwords or by a session of the
page.

It asks the broker about each user at most once a second, and anew after every change that this
process makes: so many pages cost the broker little, and changes made elsewhere apply within a
second. After repeated failures further attempts are delayed longer and longer, by address and by
name, and the log says so.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
import sys
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import HTTPConnection

from sluicemq.management.api_error import ApiError, BrokerRefused, not_authorised
from sluicemq.management.broker_link import BrokerLink
from sluicemq.text import printable

ADMINISTRATOR: Final = "administrator"
MONITORING: Final = "monitoring"
POLICYMAKER: Final = "policymaker"
MANAGEMENT: Final = "management"
IMPLIED: Final = {
    ADMINISTRATOR: {ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT},
    MONITORING: {MONITORING, MANAGEMENT},
    POLICYMAKER: {POLICYMAKER, MANAGEMENT},
    MANAGEMENT: {MANAGEMENT},
}
"""The tags that each tag implies."""

FREE_FAILURES: Final = 3
"""The number of failures without a delay."""

DELAY_S_MAX: Final = 8.0
WAITING_MAX: Final = 64
"""The most attempts that wait at a time; further ones are refused at once (429)."""

FAILURES_MAX: Final = 4096
"""The most addresses and names whose failures are remembered."""

FORGOTTEN_S: Final = 300.0
LET_IN_S: Final = 1.0
"""For how many seconds the broker's permission to log in is remembered."""

LET_IN_MAX: Final = 1000
"""The most users that are remembered so; the oldest are forgotten first."""

SESSIONS_MAX: Final = 1000
COOKIE: Final = "sluicemq_session"
PAGE_HEADER: Final = "x-sluicemq-page"
"""A header that the page sends with every request. No other site can have a browser send it, so a
session's cookie alone changes nothing."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """The authenticated user of a request. `vhosts` are those that the user may enter."""

    name: str
    password: str
    tags: tuple[str, ...]
    vhosts: frozenset[str]

    def may(self, tag: str) -> bool:
        """Tell whether the user's tags include or imply this one."""
        return any(tag in IMPLIED.get(own, ()) for own in self.tags)

    def __repr__(self) -> str:
        """Return the user's name and tags, without the password."""
        return f"Visitor({self.name!r}, {self.tags!r})"


@dataclass(slots=True)
class PageSession:
    """A session of the page, until `until_s` of the loop's clock."""

    name: str
    password: str
    until_s: float


@dataclass(slots=True)
class Attempts:
    """Counts the log-ins that have succeeded and failed since the start."""

    succeeded: int = 0
    failed: int = 0


class Failures:
    """Counts recent failures to log in, by address and by name."""

    def __init__(self) -> None:
        self.counts: dict[str, tuple[int, float]] = {}

    def delay_s(self, keys: tuple[str, ...], now_s: float) -> float:
        """Return how long the next attempt has to wait."""
        most = 0
        for key in keys:
            count, at_s = self.counts.get(key, (0, 0.0))
            if now_s - at_s < FORGOTTEN_S:
                most = max(most, count)
        if most < FREE_FAILURES:
            return 0.0
        return min(DELAY_S_MAX, 0.1 * 2.0 ** min(most - FREE_FAILURES, 10))

    def failed(self, keys: tuple[str, ...], now_s: float) -> None:
        """Count a failure; when there are too many entries the oldest are forgotten."""
        for key in keys:
            count, at_s = self.counts.pop(key, (0, 0.0))
            self.counts[key] = (count + 1 if now_s - at_s < FORGOTTEN_S else 1, now_s)
        while len(self.counts) > FAILURES_MAX:
            del self.counts[next(iter(self.counts))]

    def succeeded(self, keys: tuple[str, ...]) -> None:
        """Forget failures, because the right password was given."""
        for key in keys:
            self.counts.pop(key, None)


class SignIn:
    """Finds the user of a request, by password or session."""

    def __init__(self, link: BrokerLink, session_s: float) -> None:
        self.link = link
        self.session_s = session_s
        self.failures = Failures()
        self.attempts = Attempts()
        self.waiting = 0
        self.let_in: dict[tuple[str, str, bool], tuple[float, Visitor]] = {}
        """Users that have logged in, and the time until which the broker need not be asked about
        them: by name, password, and whether from this machine."""
        self.changes = 0
        """The number of changes that this process has made."""
        self.sessions: dict[str, PageSession] = {}

    async def visitor(self, request: HTTPConnection) -> Visitor:
        """Return the user of a request. Raises ApiError (401) unless one may use the API."""
        credentials = credentials_of(request) or self.of_session(request)
        if credentials is None:
            raise not_authorised("Login failed")
        visitor = await self.log_in(*credentials, address_of(request))
        if not visitor.may(MANAGEMENT):
            raise not_authorised("Not management user")
        return visitor

    async def log_in(self, name: str, password: str, address: str) -> Visitor:
        """Ask the broker whether it has this user with this password. Raises ApiError if not,
        delayed after earlier failures."""
        loop = asyncio.get_running_loop()
        keys = (f"address {address}", f"user {name}")
        delay_s = self.failures.delay_s(keys, loop.time())
        if delay_s:
            if self.waiting >= WAITING_MAX:
                raise ApiError(429, "too_many_requests", "too many failed log-ins")
            self.waiting += 1
            try:
                await asyncio.sleep(delay_s)
            finally:
                self.waiting -= 1
        key = name, password, is_near(address)
        until_s, known = self.let_in.get(key, (0.0, None))
        if known is not None and not delay_s and loop.time() < until_s:
            self.attempts.succeeded += 1
            return known
        asked_s, changes = loop.time(), self.changes
        try:
            [found] = await self.link.ask(
                "log_in", username=name, password=password, from_loopback=key[2]
            )
        except BrokerRefused as refused:
            self.failures.failed(keys, loop.time())
            self.attempts.failed += 1
            text = f"HTTP access denied from {address}: {printable(str(refused))}"
            print(text, file=sys.stderr, flush=True)
            raise not_authorised("Login failed") from refused
        self.attempts.succeeded += 1
        if delay_s:
            self.failures.succeeded(keys)
        visitor = Visitor(name, password, tuple(found["tags"]), frozenset(found["vhosts"]))
        if changes == self.changes:
            self.let_in.pop(key, None)
            self.let_in[key] = asked_s + LET_IN_S, visitor
            while len(self.let_in) > LET_IN_MAX:
                del self.let_in[next(iter(self.let_in))]
        return visitor

    def changed(self) -> None:
        """Note that this process changes something, so that the broker is asked about users
        anew."""
        self.changes += 1
        self.let_in.clear()

    def open_session(self, visitor: Visitor) -> str:
        """Begin a session of the page and return its token; the oldest one ends when there are too
        many."""
        token = secrets.token_urlsafe(32)
        until_s = asyncio.get_running_loop().time() + self.session_s
        self.sessions[token] = PageSession(visitor.name, visitor.password, until_s)
        while len(self.sessions) > SESSIONS_MAX:
            del self.sessions[next(iter(self.sessions))]
        return token

    def close_session(self, request: HTTPConnection) -> None:
        """End the session that a request belongs to, if there is one."""
        self.sessions.pop(request.cookies.get(COOKIE, ""), None)

    def of_session(self, request: HTTPConnection) -> tuple[str, str] | None:
        """Return name and password of the session that a request belongs to; None without one. Only
        requests made by the page may use a session."""
        token = request.cookies.get(COOKIE, "")
        session = self.sessions.get(token)
        if session is None:
            return None
        if session.until_s < asyncio.get_running_loop().time():
            del self.sessions[token]
            return None
        if request.scope["type"] == "http" and PAGE_HEADER not in request.headers:
            return None
        return session.name, session.password


def credentials_of(request: HTTPConnection) -> tuple[str, str] | None:
    """Return name and password of HTTP's basic authentication; None when there is none."""
    kind, _, encoded = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    name, colon, password = text.partition(":")
    return (name, password) if colon else None


def address_of(request: HTTPConnection) -> str:
    """Return the address of the client."""
    return request.client.host if request.client is not None else ""


def is_near(address: str) -> bool:
    """Tell whether an address belongs to this machine."""
    return address.startswith("127.") or address in ("::1", "")


def public(visitor: Visitor) -> dict[str, Any]:
    """Return the answer to `whoami` for a user."""
    return {"name": visitor.name, "tags": list(visitor.tags)}
