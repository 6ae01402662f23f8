"""RabbitMQ's HTTP API, which lists queues: AMQP has no method for that.

    GET /api/queues/VHOST?page=1&page_size=500&sort=name&name=^BEGIN&use_regex=true

gives a page of them. The server searches the octets of names for a PCRE, which is not what a
pattern means here; so it only gets the letters with which each match begins, and `discovery.py`
does the matching. The time and size of a page and the number of pages are bounded, whatever the
server does: `BrokerError` is for errors that may pass, `Refused` for those that will not. Neither
contains a password.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, IncompleteRead
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

import regex

from sluicemq.client.address import without_password
from sluicemq.client.session import BrokerError
from sluicemq.client.tls import TlsFiles
from sluicemq.errors import Refused

if TYPE_CHECKING:
    from sluicemq.spark.option_values import OptionValues

PAGE_ROWS: Final = 500
"""The most rows of a page that RabbitMQ gives."""

PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
PAGES_MAX: Final = 400
PAGES_TIMEOUTS: Final = 10
"""The most time for all pages, as a multiple of that for one."""

ROUNDS_MAX: Final = 3
"""The most times that a list is read because its length has changed meanwhile."""

REASON_MAX: Final = 200
"""The most characters of a server's words in an error."""

OK: Final = 200
REDIRECTS: Final = range(300, 400)
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
TOO_MANY: Final = 429
SERVERS_FAULTS: Final = range(500, 600)

FIXED: Final = re.compile(r"(?:\w|-|\\[.\-])*", re.ASCII)
"""Matches the beginning of a pattern that has only literal characters."""


@dataclass(frozen=True)
class Server:
    """The HTTP API that lists the queues, and the user for it. `shown` is the option with its value
    as errors show it, without a password."""

    shown: str
    secure: bool
    host: str
    port: int
    path: str
    username: str
    password: str = field(repr=False)
    tls: TlsFiles


class Listed(NamedTuple):
    """A queue as the server lists it. `kind` is classic, quorum, stream, or the type of a
    plugin."""

    name: str
    kind: str
    is_exclusive: bool


class Response(NamedTuple):
    """The server's answer to a request: its HTTP status and its body."""

    status: int
    body: bytes


def server_of(options: OptionValues) -> Server:
    """Return the server that `managementUrl` names. The URL may name the user; else it is that of
    the AMQP connection. Raises `Refused` when the option is missing or is no such URL."""
    if not options.management_url:
        raise Refused(
            f"queuePattern = {options.queue_pattern!r}: needs managementUrl, for AMQP cannot list"
            " queues, but RabbitMQ's HTTP API can; SluiceMQ has it with `serve --management`"
        )
    url = options.management_url.strip()
    shown = f"managementUrl = {without_password(url)!r}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text may have a password
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Refused(f"{shown}: must be http://host:port or https://host:port")
    address = options.addresses[0]
    username, password = address.username, address.password
    if parts.username is not None:
        username, password = unquote(parts.username), unquote(parts.password or "")
    secure = parts.scheme == "https"
    return Server(
        *(shown, secure, parts.hostname, port or (443 if secure else 80), parts.path.rstrip("/")),
        *(username, password, options.tls),
    )


def check_pattern(options: OptionValues) -> None:
    """Raise `Refused` when queuePattern is no regular expression, is given together with queues or
    for streams, or when the brokers have different virtual hosts."""
    given = f"queuePattern = {options.queue_pattern!r}"
    if options.queues:
        raise Refused(f"{given}: give it, or queues, not both")
    if options.is_stream:
        raise Refused(f"{given}: is for queues; name streams by queues")
    try:
        regex.compile(options.queue_pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise Refused(f"{given}: is not a regular expression: {error}") from error
    hosts = {address.virtual_host for address in options.addresses}
    if len(hosts) > 1:
        raise Refused(f"{given}: needs one virtual host; uris have {', '.join(sorted(hosts))}")


def fixed_begin(pattern: str) -> str:
    """Return the longest known text that all matches of the pattern begin with, as a pattern
    itself; empty when there is none."""
    if "|" in pattern or "(?" in pattern:  # alternatives, or flags that apply to the whole pattern
        return ""
    found = FIXED.match(pattern)
    assert found is not None
    atoms: list[str] = re.findall(r"\\.|.", found[0])
    if pattern[found.end() : found.end() + 1] in ("*", "?", "{"):
        atoms = atoms[:-1]
    return "".join(atoms)


def list_queues(server: Server, virtual_host: str, begin: str, timeout_s: float) -> list[Listed]:
    """Return all queues of the virtual host whose names begin with `begin`, a result of
    `fixed_begin`, and perhaps others. Looks through all pages again, ROUNDS_MAX times at most,
    while the number of queues changes. One page may take `timeout_s` seconds, all of them
    PAGES_TIMEOUTS times that. Raises `BrokerError` for errors that may pass, else `Refused`."""
    found: dict[str, Listed] = {}
    deadline = time.monotonic() + PAGES_TIMEOUTS * timeout_s
    for _ in range(ROUNDS_MAX):
        counts: set[int] = set()
        page = pages = 1
        while page <= pages:
            if time.monotonic() > deadline:
                raise BrokerError(
                    f"has not given {pages} pages of queues in {PAGES_TIMEOUTS} times"
                    f" {timeout_s:g} s (timeout)"
                )
            queues, pages, count = read_page(server, virtual_host, begin, page, timeout_s)
            found |= {queue.name: queue for queue in queues}
            counts.add(count)
            page += 1
        if len(counts) <= 1:
            break
    return list(found.values())


def read_page(
    server: Server, virtual_host: str, begin: str, page: int, timeout_s: float
) -> tuple[list[Listed], int, int]:
    """Return the queues of a page, the number of pages, and the number of queues in all of them.
    Pages count from 1. Raises `BrokerError` for errors that may pass, else `Refused`."""
    query = {"page": page, "page_size": PAGE_ROWS, "sort": "name"}
    query["columns"] = "name,type,arguments,exclusive,owner_pid_details"
    if begin:
        query |= {"name": f"^{begin}", "use_regex": "true"}
    target = f"{server.path}/api/queues/{quote(virtual_host, safe='')}?{urlencode(query)}"
    answer = get(server, target, timeout_s)
    check_status(server, answer, virtual_host)
    try:
        words = json.loads(answer.body)
        queues = [listed(item) for item in words["items"]]
        pages, count = int(words["page_count"]), int(words["filtered_count"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(
            f"{server.shown}: what answers there gives no pages of queues, as RabbitMQ's HTTP API"
            " does"
        ) from error
    if pages > PAGES_MAX:
        raise Refused(
            f"{server.shown}: virtual host {virtual_host!r} has {count} queues to look through, in"
            f" more than {PAGES_MAX} pages; let queuePattern begin with the letters that all names"
            " begin with"
        )
    return queues, pages, count


def listed(item: dict[str, Any]) -> Listed:
    """Return a queue out of one item of a page. Servers before RabbitMQ 3.8 do not give its type,
    which is then found in its arguments."""
    kind = item.get("type") or item.get("arguments", {}).get("x-queue-type", "classic")
    is_exclusive = bool(item.get("exclusive") or item.get("owner_pid_details"))
    return Listed(str(item["name"]), str(kind), is_exclusive)


def check_status(server: Server, answer: Response, virtual_host: str) -> None:
    """Raise an error unless the answer has status 200: `BrokerError` when that may pass, else
    `Refused`."""
    status, reason = answer.status, reason_of(answer.body)
    if status == OK:
        return
    if status in (UNAUTHORIZED, FORBIDDEN):
        raise Refused(
            f"{server.shown}: does not let user {server.username!r} see virtual host"
            f" {virtual_host!r}: {status}{reason}; the user needs the tag management"
            " and the virtual host"
        )
    if status == NOT_FOUND:
        raise Refused(
            f"{server.shown}: has no {server.path}/api/queues for virtual host {virtual_host!r}:"
            f" {status}{reason}; it must be the address of RabbitMQ's HTTP API (management plugin)"
        )
    if status == TOO_MANY or status in SERVERS_FAULTS:
        raise BrokerError(f"answers {status}{reason}")
    if status in REDIRECTS:
        raise Refused(
            f"{server.shown}: leads elsewhere ({status}), where no password is sent; give the"
            " address it leads to"
        )
    raise Refused(f"{server.shown}: answers {status}{reason}")


def reason_of(body: bytes) -> str:
    """Return the reason that the server gives for an error, after a space; empty when the body is
    not one of its errors."""
    with suppress(ValueError, TypeError, LookupError, RecursionError):
        words = json.loads(body)
        return f" {str(words['reason'])[:REASON_MAX]}"
    return ""


def get(server: Server, target: str, timeout_s: float) -> Response:
    """Send one request and return its answer. Raises `BrokerError` or `Refused` when that fails, or
    takes more than `timeout_s` seconds in all."""
    deadline = time.monotonic() + timeout_s
    login = b64encode(f"{server.username}:{server.password}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
    try:
        with closing(reach(server, timeout_s)) as sock, ended_at(deadline, sock):
            if isinstance(sock, ssl.SSLSocket):
                sock.do_handshake()
            connection = HTTPConnection(server.host, server.port)
            connection.sock = sock
            connection.request("GET", target, headers=headers | {"Connection": "close"})
            with connection.getresponse() as response:
                body = response.read(PAGE_BYTES_MAX + 1)
                if len(body) > PAGE_BYTES_MAX:
                    raise Refused(f"{server.shown}: a page of it is above {PAGE_BYTES_MAX} octets")
                if response.length or time.monotonic() >= deadline:  # cut off, perhaps unnoticed
                    raise IncompleteRead(body, response.length)
                return Response(response.status, body)
    except (OSError, HTTPException) as error:
        is_late = isinstance(error, TimeoutError) or time.monotonic() >= deadline
        raise (late(timeout_s) if is_late else failure(server, error)) from error


def late(timeout_s: float) -> BrokerError:
    return BrokerError(f"has not answered in {timeout_s:g} s (timeout)")


def failure(server: Server, error: OSError | HTTPException) -> BrokerError | Refused:
    """Return the error for a failed request: `BrokerError` when it may pass, else `Refused`."""
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return Refused(f"{server.shown}: TLS: {error}")
    if isinstance(error, OSError):
        return BrokerError(f"cannot be reached: {error}")
    if isinstance(error, IncompleteRead):
        return BrokerError("broke off in the middle of an answer")
    return Refused(f"{server.shown}: what answers there does not speak HTTP")


def reach(server: Server, timeout_s: float) -> socket.socket:
    """Connect to the server within `timeout_s` seconds. Under TLS the handshake has not been done
    yet. Raises OSError when there is no connection."""
    sock = socket.create_connection((server.host, server.port), timeout_s)
    if not server.secure:
        return sock
    try:
        return server.tls.context().wrap_socket(
            sock, server_hostname=server.host, do_handshake_on_connect=False
        )
    except BaseException:
        sock.close()
        raise


@contextmanager
def ended_at(deadline: float, sock: socket.socket) -> Iterator[None]:
    """Shut the connection down at `deadline` (monotonic, in seconds) if the block still runs,
    because a server that sends an octet now and then never exceeds the timeout of a single read."""

    def end() -> None:
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # TLS's own waits for the peer

    timer = threading.Timer(max(deadline - time.monotonic(), 0), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
