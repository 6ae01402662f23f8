"""Divides the process's descriptors between sockets and files.

Clients never get all of them: storage, control socket and log must go on when strangers have taken
every place. The reserve includes connections that are accepted before they can be turned away.
"""

from __future__ import annotations

import resource
from typing import Final, NamedTuple

PLENTY: Final = 1 << 20
"""The number of descriptors assumed when there is no limit."""

OWN: Final = 64
"""Descriptors for the process itself: its log, its loop, the control socket and its clients."""

SOCKETS_MIN: Final = 8
"""The number of clients that there may always be, however few descriptors the system gives."""


class Shares(NamedTuple):
    """How many descriptors clients may have, and how many files may be kept open."""

    sockets: int
    handles: int


def shares(limit: int, handles_max: int, backlog: int) -> Shares:
    """Divide `limit` descriptors between clients and files; `backlog` clients may be accepted in
    one go."""
    handles = min(handles_max, max(1, limit // 4))
    reserve = handles + min(OWN, limit // 4) + min(backlog, limit // 8)
    return Shares(max(SOCKETS_MIN, limit - reserve), handles)


def raise_limit() -> None:
    """Raise the process's limit of descriptors to the highest value the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    """Return how many descriptors this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return PLENTY if soft == resource.RLIM_INFINITY else min(soft, PLENTY)
