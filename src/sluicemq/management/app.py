"""The HTTP application: answers requests, within bounds.

It limits how many requests are in progress, and how many bytes of answers wait for their readers;
it refuses the rest (503). A body must arrive within BODY_SECONDS and have at most the configured
size (413). GET changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from sluicemq.management.api_error import (
    ApiError,
    BrokerAway,
    BrokerRefused,
    bad_request,
    not_authorised,
    not_found,
)
from sluicemq.management.call import ApiAnswer, Call, as_json
from sluicemq.management.desk import Desk
from sluicemq.management.exposition import CONTENT_TYPE
from sluicemq.management.live import LiveUpdates
from sluicemq.management.metrics import Scrape
from sluicemq.management.pages import Pages
from sluicemq.management.router import Router
from sluicemq.management.routes import ROUTES
from sluicemq.management.sign_in import (
    COOKIE,
    MANAGEMENT,
    MONITORING,
    PAGE_HEADER,
    Visitor,
    address_of,
    public,
)

API: Final = "/api/"
METRICS: Final = "/metrics"
SESSION: Final = "/session"
REQUESTS_MAX: Final = 256
PENDING_BYTES_MAX: Final = 128 << 20
"""The most bytes of answers that wait to be sent: beyond that further answers are refused."""

CHUNK_BYTES: Final = 128 << 10
BODY_SECONDS: Final = 60.0
REALM: Final = 'Basic realm="RabbitMQ Management"'
SECURITY: Final = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none';"
    " form-action 'none'; object-src 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Headers of all answers: they allow no resources from elsewhere, and no page in a frame."""

CODES: Final = {67: 404, 75: 503, 70: 500}
"""The status for a command that the broker has refused, by its exit code; 400 for others."""

BUSY: Final = ApiError(503, "busy", "Too many requests at a time")
BROKEN: Final = ApiError(500, "internal_error", "See the log of the management process")
AWAY: Final = ApiError(503, "broker_unavailable", "The broker does not answer")


class ManagementApp:
    """Answers requests, with the help of the desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.router = Router(ROUTES)
        self.pages = Pages()
        self.live = LiveUpdates(desk.sign_in, self.fetch)
        self.requests = 0
        self.pending_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "websocket":
            await self.live.serve(WebSocket(scope, receive, send))
            return
        request = Request(scope, receive)
        if self.requests >= REQUESTS_MAX:
            await self.send(self.refusal(request, BUSY), send)
            return
        self.requests += 1
        try:
            await self.send(await self.response(request), send)
        finally:
            self.requests -= 1

    async def metrics_only(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request at a port that serves metrics only."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif not scope["path"].startswith(METRICS):
            await self.send(self.refusal(Request(scope, receive), not_found()), send)
        else:
            await self(scope, receive, send)

    async def send(self, response: Response, send: Send) -> None:
        """Send an answer piece by piece, as fast as it is read; the server disconnects a reader
        that is too slow."""
        body = bytes(response.body)
        if self.pending_bytes and self.pending_bytes + len(body) > PENDING_BYTES_MAX:
            response = as_response(ApiAnswer(BUSY.as_json(), BUSY.status))
            body = bytes(response.body)
        self.pending_bytes += len(body)
        start = {"status": response.status_code, "headers": response.raw_headers}
        try:
            await send({"type": "http.response.start", **start})
            for at in range(0, len(body), CHUNK_BYTES):
                piece = body[at : at + CHUNK_BYTES]
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self.pending_bytes -= len(body)

    async def response(self, request: Request) -> Response:
        """Return the answer to a request; errors become answers, too."""
        try:
            return await self.answer(request)
        except ApiError as error:
            return self.refusal(request, error)
        except BrokerAway:
            return self.refusal(request, AWAY)
        except BrokerRefused as refused:
            status = CODES.get(refused.code, 400)
            kind = "Object Not Found" if status == 404 else "bad_request"
            return self.refusal(request, ApiError(status, kind, str(refused)))
        except Exception:
            traceback.print_exc()
            return self.refusal(request, BROKEN)

    def refusal(self, request: Request, error: ApiError) -> Response:
        """Return the answer for an error."""
        headers = {}
        if error.status == 401 and PAGE_HEADER not in request.headers:
            headers["www-authenticate"] = REALM
        return as_response(ApiAnswer(error.as_json(), error.status, headers))

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request. Raises ApiError when the request is refused."""
        raw_path = request.scope.get("raw_path", b"").decode("latin-1")
        if raw_path.startswith(METRICS):
            return await self.metrics(request, raw_path)
        if raw_path == SESSION:
            return await self.session(request)
        if not raw_path.startswith(API):
            page = self.pages.get(raw_path.strip("/"), SECURITY)
            if page is None or request.method not in ("GET", "HEAD"):
                raise not_found()
            return page
        routes = self.router.all(raw_path[len(API) :])
        method = "GET" if request.method == "HEAD" else request.method
        if not routes:
            await self.desk.sign_in.visitor(request)
            raise not_found()
        for route, path in routes:
            if route.method == method:
                visitor = await self.desk.sign_in.visitor(request)
                if not visitor.may(route.tag):
                    raise not_authorised(f"Not {route.tag} user")
                raw = await self.body(request) if method != "GET" else b""
                query = dict(request.query_params)
                call = Call(self.desk, visitor, path, query, raw, request.headers)
                return as_response(await route.handler(call))
        allowed = ", ".join(sorted({found.route.method for found in routes} | {"HEAD", "OPTIONS"}))
        status = 204 if request.method == "OPTIONS" else 405
        return as_response(ApiAnswer(None, status, {"allow": allowed}))

    async def fetch(self, visitor: Visitor, where: str) -> Any:
        """Return the answer's content for one GET of the API. Raises ApiError when it is
        refused."""
        raw_path, _, query = where.partition("?")
        for route, path in self.router.all(raw_path):
            if route.method == "GET":
                if not visitor.may(route.tag):
                    raise not_authorised(f"Not {route.tag} user")
                params = dict(parse_qsl(query, keep_blank_values=True))
                answer = await route.handler(Call(self.desk, visitor, path, params, b"", {}))
                return answer.content
        raise not_found()

    async def session(self, request: Request) -> Response:
        """Begin a session of the page (POST, with name and password), or end one (DELETE). Scripts
        cannot read its cookie, and other sites cannot have it sent."""
        sign_in = self.desk.sign_in
        if PAGE_HEADER not in request.headers or request.method not in ("POST", "DELETE"):
            raise not_found()
        if request.method == "DELETE":
            sign_in.close_session(request)
            response = as_response(ApiAnswer(None, 204))
            response.delete_cookie(COOKIE)
            return response
        try:
            given = json.loads(await self.body(request))
            name, password = str(given["name"]), str(given["password"])
        except (ValueError, KeyError, TypeError) as error:
            raise bad_request("name and password are missing") from error
        visitor = await sign_in.log_in(name, password, address_of(request))
        if not visitor.may(MANAGEMENT):
            raise not_authorised("Not management user")
        response = as_response(ApiAnswer(public(visitor)))
        response.set_cookie(
            COOKIE,
            sign_in.open_session(visitor),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    async def metrics(self, request: Request, path: str) -> Response:
        """Return the answer to a scrape. Raises ApiError for a user who may not see metrics, if
        authentication is configured."""
        config = self.desk.config.prometheus
        if config.authentication:
            visitor = await self.desk.sign_in.visitor(request)
            if not visitor.may(MONITORING):
                raise not_authorised(f"Not {MONITORING} user")
        scrape = Scrape(self.desk)
        kind = path[len(METRICS) :].strip("/")
        if request.method not in ("GET", "HEAD") or kind not in ("", "per-object", "detailed"):
            raise not_found()
        if kind == "detailed":
            query = request.query_params
            text = await scrape.detailed(query.getlist("family"), query.getlist("vhost"))
        elif kind == "per-object" or config.per_object:
            text = await scrape.per_object()
        else:
            text = await scrape.aggregated()
        return Response(text, 200, {**SECURITY, "cache-control": "no-cache"}, CONTENT_TYPE)

    async def body(self, request: Request) -> bytes:
        """Return the body of a request. Raises ApiError when it is too large (413) or too slow
        (408)."""
        most = self.desk.config.management.body_bytes_max
        text = f"the body is larger than {most} bytes"
        announced = request.headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > most:
            raise ApiError(413, "payload_too_large", text)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise ApiError(413, "payload_too_large", text)
                    parts.append(part)
        except TimeoutError:
            raise ApiError(408, "request_timeout", "the body did not arrive in time") from None
        except ValueError as error:
            raise bad_request(str(error)) from error
        return b"".join(parts)


def as_response(answer: ApiAnswer) -> Response:
    """Return an answer as an HTTP response: JSON, which no browser caches."""
    headers: dict[str, str] = {**SECURITY, "cache-control": "no-cache", **answer.headers}
    if answer.content is None:
        return Response(None, answer.status, headers)
    return Response(as_json(answer.content), answer.status, headers, "application/json")
