"""Parses an AMQP URL into a broker's address and a user."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from sluicemq.client.tls import TlsFiles
from sluicemq.errors import Refused

AMQP_PORT: Final = 5672
AMQPS_PORT: Final = 5671


QUERY: Final = (
    "auth_mechanism",
    "cacertfile",
    "certfile",
    "keyfile",
    "server_name_indication",
    "verify",
)
"""The parameters that may follow the `?`, as in RabbitMQ's URI query parameters."""

NO_FILES: Final = TlsFiles()
MECHANISMS: Final = ("plain", "external")
VERIFY: Final = ("verify_peer", "verify_none")


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of `amqp://user:password@host:port/vhost`, with RabbitMQ's defaults; `amqps` uses
    TLS, with options such as `?cacertfile=...&certfile=...&keyfile=...&verify=verify_peer`."""

    host: str = "127.0.0.1"
    port: int = AMQP_PORT
    username: str = "guest"
    password: str = "guest"
    virtual_host: str = "/"
    secure: bool = False
    tls: TlsFiles = NO_FILES
    server_name: str = ""
    """The name that the broker's certificate must have; the host's when empty."""
    mechanism: str = "PLAIN"

    @classmethod
    def parse(cls, url: str) -> Address:
        """Return the address in a URL; no path, or an empty one, is the vhost "/". Raises Refused
        when the URL is malformed."""
        try:
            parts = urlsplit(url)
            port = parts.port or (AMQPS_PORT if parts.scheme == "amqps" else AMQP_PORT)
        except ValueError as error:
            raise Refused(f"{without_password(url)!r} is not an AMQP URL: {error}") from error
        if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
            shown = without_password(url)
            raise Refused(f"{shown!r} is not an AMQP URL: expected amqp://user:password@host:port")
        query = read_query(url, parts.query)
        return cls(
            parts.hostname,
            port,
            unquote(parts.username or "guest"),
            unquote(parts.password or "guest"),
            unquote(parts.path[1:]) or "/",
            parts.scheme == "amqps",
            TlsFiles(
                query.get("cacertfile"),
                query.get("certfile"),
                query.get("keyfile"),
                query.get("verify") != "verify_none",
            ),
            query.get("server_name_indication", ""),
            query.get("auth_mechanism", "plain").upper(),
        )

    def __str__(self) -> str:
        """Return the address as a URL without the password."""
        scheme = "amqps" if self.secure else "amqp"
        vhost = self.virtual_host.lstrip("/")
        return f"{scheme}://{self.username}@{self.host}:{self.port}/{vhost}"


def read_query(url: str, text: str) -> dict[str, str]:
    """Return the options behind the `?` of `url`. Raises Refused for unknown options and values."""
    query = dict(parse_qsl(text, keep_blank_values=True))
    choices = {"auth_mechanism": MECHANISMS, "verify": VERIFY}
    for key, value in query.items():
        if key not in QUERY:
            shown = without_password(url)
            raise Refused(f"{shown!r}: {key} is not an option; there are {', '.join(QUERY)}")
        if value not in choices.get(key, (value,)):
            shown = without_password(url)
            raise Refused(f"{shown!r}: {key} = {value}: must be {' or '.join(choices[key])}")
    return query


def without_password(url: str) -> str:
    """Return the text with everything between the user's name and the last `@` hidden."""
    return re.sub(r"(://[^:/@]*):.*@", r"\1:...@", url)
