"""Ports that are chosen before somebody listens there."""

from __future__ import annotations

import socket
from pathlib import Path
from random import SystemRandom

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
EDGES = (10_000, 65_536)


def free_port(*hosts: str) -> int:
    """One at which nobody listens at these addresses of this machine (127.0.0.1 if there is none),
    and none of those that the system gives to who asks for any: so nobody comes in between."""
    first, last = map(int, RANGE.read_text().split())
    others = [port for port in range(*EDGES) if not first <= port <= last] or range(*EDGES)
    while True:
        port = SystemRandom().choice(others)
        if all(is_free(host, port) for host in hosts or ("127.0.0.1",)):
            return port


def is_free(host: str, port: int) -> bool:
    """Whether nobody listens there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
