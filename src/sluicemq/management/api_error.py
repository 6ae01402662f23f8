"""The errors of the HTTP API, with RabbitMQ's names."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """Ends a request with this status, and with `error` and `reason` in the body."""

    def __init__(self, status: int, error: str, reason: str = "") -> None:
        super().__init__(reason or error)
        self.status = status
        self.error = error
        self.reason = reason

    def as_json(self) -> dict[str, Any]:
        """Return the body of the answer."""
        return {"error": self.error, "reason": self.reason or self.error}


def not_found() -> ApiError:
    """Return the error for an object that does not exist."""
    return ApiError(404, "Object Not Found", "Not Found")


def bad_request(reason: str) -> ApiError:
    """Return the error for a request that makes no sense, with the reason."""
    return ApiError(400, "bad_request", reason)


def not_authorised(reason: str) -> ApiError:
    """Return the error for a user who may not do this, or could not log in."""
    return ApiError(401, "not_authorised", reason)


class BrokerAway(Exception):
    """The broker does not answer on its control socket now."""


class BrokerRefused(Exception):
    """The broker has refused a command; `code` is the exit code that the command line would
    have."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code
