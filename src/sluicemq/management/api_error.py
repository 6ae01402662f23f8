"""What a request is answered with that is not granted, under RabbitMQ's names."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """A request ends with this status, and `error` and `reason` as its body."""

    def __init__(self, status: int, error: str, reason: str = "") -> None:
        super().__init__(reason or error)
        self.status = status
        self.error = error
        self.reason = reason

    def as_json(self) -> dict[str, Any]:
        """Return the body of the answer."""
        return {"error": self.error, "reason": self.reason or self.error}


def not_found() -> ApiError:
    """Return the answer that there is no such thing."""
    return ApiError(404, "Object Not Found", "Not Found")


def bad_request(reason: str) -> ApiError:
    """Return the answer that a request makes no sense, with the reason."""
    return ApiError(400, "bad_request", reason)


def not_authorised(reason: str) -> ApiError:
    """Return the answer that the user may not do this, or is none."""
    return ApiError(401, "not_authorised", reason)


class BrokerAway(Exception):
    """The broker does not answer on its control socket now."""


class BrokerRefused(Exception):
    """The broker has refused a command; `code` is the exit code that the command line would
    have."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code
