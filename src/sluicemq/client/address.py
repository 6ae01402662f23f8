"""Where a broker is and who asks: an AMQP URL taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from sluicemq.errors import Refused

AMQP_PORT: Final = 5672
AMQPS_PORT: Final = 5671


@dataclass(frozen=True, slots=True)
class Address:
    """`amqp://user:password@host:port/vhost`, parts as RabbitMQ has them; `amqps`: by TLS."""

    host: str = "127.0.0.1"
    port: int = AMQP_PORT
    username: str = "guest"
    password: str = "guest"
    virtual_host: str = "/"
    secure: bool = False

    @classmethod
    def parse(cls, url: str) -> Address:
        """From a URL; no path, or an empty one, is the vhost "/"."""
        try:
            parts = urlsplit(url)
            port = parts.port or (AMQPS_PORT if parts.scheme == "amqps" else AMQP_PORT)
        except ValueError as error:
            raise Refused(f"{without_password(url)!r} is not an AMQP URL: {error}") from error
        if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
            shown = without_password(url)
            raise Refused(f"{shown!r} is not an AMQP URL: expected amqp://user:password@host:port")
        return cls(
            parts.hostname,
            port,
            unquote(parts.username or "guest"),
            unquote(parts.password or "guest"),
            unquote(parts.path[1:]) or "/",
            parts.scheme == "amqps",
        )

    def __str__(self) -> str:
        """Without the password."""
        scheme = "amqps" if self.secure else "amqp"
        vhost = self.virtual_host.lstrip("/")
        return f"{scheme}://{self.username}@{self.host}:{self.port}/{vhost}"


def without_password(url: str) -> str:
    """The text with what stands between the user's name and the last `@` hidden."""
    return re.sub(r"(://[^:/@]*):.*@", r"\1:...@", url)
