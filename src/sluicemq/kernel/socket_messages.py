"""What a net posts to the owner of a connection, and to its writer (`kernel/world.py`, `Net`)."""

from __future__ import annotations

from sluicemq.compiling import mypyc_attr


class Connected:
    """Posted to the owner of a connection: it is made."""

    __slots__ = ()


@mypyc_attr(acyclic=True, free_list_len=1)
class Received:
    """Posted to the owner of a connection: `data` came from the peer."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Writable:
    """Posted to a connection's writer: the socket's buffer has drained below its low-water mark."""

    __slots__ = ()


class Closed:
    """Posted to the owner of a connection: it is gone, or could not be made; `reason` is for the
    log."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason
