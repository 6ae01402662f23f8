"""Something between each two nodes of a cluster that passes on what they say, or does not.

Each node listens at an address that the others do not know; at the one that they know a proxy does.
Who connects is seen from the kernel's table of sockets and the processes of the nodes, so that what
goes from one node to another can be held up whichever of the two has connected.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Final

READ_BYTES: Final = 1 << 16
LOOKS: Final = 500
LOOK_S: Final = 0.02
Place = tuple[str, int]
Way = tuple[int, int]
"""From one node to another, by their numbers."""


class LinkProxies:
    """`shown[i]` is where node i + 1 is known to be, `real[i]` where it listens; `pid_of` says
    which process a node is now, None: it does not run."""

    def __init__(
        self, shown: Sequence[Place], real: Sequence[Place], pid_of: Callable[[int], int | None]
    ) -> None:
        self.count = len(shown)
        self.pid_of = pid_of
        self.delay_s: dict[Way, float] = {}
        self._cut: set[Way] = set()
        self._changed = threading.Condition()
        self._pairs: dict[socket.socket, tuple[Way, socket.socket]] = {}
        self._listeners = [socket.create_server(place) for place in shown]
        for number, (listener, target) in enumerate(zip(self._listeners, real, strict=True), 1):
            self._begin(self._accept, listener, number, target)

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    # -- what goes wrong

    def cut(self, *ways: Way) -> None:
        """Hold up all that goes these ways, as if packets were lost: nobody is told."""
        with self._changed:
            self._cut.update(ways)

    def slow(self, number: int, delay_s: float) -> None:
        """Whatever goes to or from that node takes so long."""
        for one, other in permutations(range(1, self.count + 1), 2):
            if number in (one, other):
                self.delay_s[one, other] = delay_s

    def reset(self, one: int, other: int) -> None:
        """End all connections between these two."""
        for near, (way, far) in list(self._pairs.items()):
            if set(way) == {one, other}:
                shut(near)
                shut(far)

    def heal(self) -> None:
        """Everything goes everywhere again, also what was held up."""
        with self._changed:
            self._cut.clear()
            self.delay_s.clear()
            self._changed.notify_all()

    def close(self) -> None:
        for listener in self._listeners:
            shut(listener)
            listener.close()
        self.heal()
        for near, (_, far) in list(self._pairs.items()):
            shut(near)
            shut(far)

    # -- passing on

    def _accept(self, listener: socket.socket, number: int, target: Place) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, place = listener.accept()
                self._begin(self._connect, near, place, number, target)

    def _connect(self, near: socket.socket, place: Place, number: int, target: Place) -> None:
        caller = self._caller(place, near.getsockname())
        try:
            if caller is None:
                raise ConnectionAbortedError
            far = socket.create_connection(target)
        except OSError:
            near.close()
            return
        for each in (near, far):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pairs[near] = (caller, number), far
        self._begin(self._pass_on, far, near, (number, caller))
        self._pass_on(near, far, (caller, number))
        self._pairs.pop(near, None)

    def _caller(self, place: Place, here: Place) -> int | None:
        """The node that connects from that place to this one; None when it is gone again. The
        kernel's list may lack a socket while others come and go, so it is looked at more than
        once."""
        for _ in range(LOOKS):
            inode = inode_of(place, here)
            for number in range(1, self.count + 1):
                pid = self.pid_of(number)
                if inode and pid is not None and has_socket(pid, inode):
                    return number
            time.sleep(LOOK_S)
        return None

    def _pass_on(self, source: socket.socket, target: socket.socket, way: Way) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(READ_BYTES):
                if way in self.delay_s:
                    time.sleep(self.delay_s[way])
                with self._changed:
                    while way in self._cut:
                        self._changed.wait()
                target.sendall(data)
        shut(source)
        shut(target)


def shut(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


def inode_of(place: Place, other: Place) -> str:
    """Of the socket that is bound there and connected to the other place, as the kernel lists it;
    "" when there is none. Several may be bound to one place, also ones that are closed."""
    ends = [listed(place), listed(other)]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        columns = line.split()
        if columns[1:3] == ends:
            return columns[9]
    return ""


def listed(place: Place) -> str:
    """A place as the kernel lists it."""
    host, port = place
    return f"{int.from_bytes(socket.inet_aton(host), 'little'):08X}:{port:04X}"


def has_socket(pid: int, inode: str) -> bool:
    """Whether that process has it open."""
    try:
        names = os.scandir(f"/proc/{pid}/fd")
    except OSError:
        return False
    with names:
        for each in names:
            with contextlib.suppress(OSError):
                if os.readlink(each.path) == f"socket:[{inode}]":
                    return True
    return False
