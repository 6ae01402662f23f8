"""Where a broker is and who asks: an AMQP URL taken apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from sluicemq.errors import Refused

AMQP_PORT: Final = 5672


@dataclass(frozen=True, slots=True)
class Address:
    """`amqp://user:password@host:port/vhost`, every part with RabbitMQ's default."""

    host: str = "127.0.0.1"
    port: int = AMQP_PORT
    username: str = "guest"
    password: str = "guest"
    virtual_host: str = "/"

    @classmethod
    def parse(cls, url: str) -> Address:
        """From a URL; no path, or an empty one, is the vhost "/"."""
        try:
            parts = urlsplit(url)
            port = parts.port or AMQP_PORT
        except ValueError as error:
            raise Refused(f"{url!r} is not an AMQP URL: {error}") from error
        if parts.scheme != "amqp" or not parts.hostname:
            raise Refused(f"{url!r} is not an AMQP URL: expected amqp://user:password@host:port")
        return cls(
            parts.hostname,
            port,
            unquote(parts.username or "guest"),
            unquote(parts.password or "guest"),
            unquote(parts.path[1:]) or "/",
        )

    def __str__(self) -> str:
        """Without the password."""
        return f"amqp://{self.username}@{self.host}:{self.port}/{self.virtual_host.lstrip('/')}"
