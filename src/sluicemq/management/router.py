"""Finds the handler for a request's path. Parts of paths are matched as they were sent, because the
name of a virtual host or queue may have a slash, which is %2F there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import unquote

from sluicemq.management.call import ApiRoute


class FoundRoute(NamedTuple):
    """A route, with the values of its variable parts in a request's path."""

    route: ApiRoute
    path: dict[str, str]


class Router:
    """Finds routes by method and path; the first match in the given order wins."""

    def __init__(self, routes: Iterable[ApiRoute]) -> None:
        self.by_length: dict[int, list[tuple[list[str], ApiRoute]]] = {}
        for route in routes:
            parts = route.path.strip("/").split("/")
            self.by_length.setdefault(len(parts), []).append((parts, route))

    def all(self, raw_path: str) -> list[FoundRoute]:
        """Return the routes of all methods for a path, which is still percent-encoded."""
        parts = raw_path.strip("/").split("/")
        found: list[FoundRoute] = []
        for pattern, route in self.by_length.get(len(parts), ()):
            path: dict[str, str] = {}
            for wanted, part in zip(pattern, parts, strict=True):
                if wanted.startswith("{"):
                    path[wanted[1:-1]] = unquote(part, errors="surrogateescape")
                elif wanted != part:
                    break
            else:
                found.append(FoundRoute(route, path))
        return found
