"""Notifies the service manager that has started the broker, by systemd's protocol `Type=notify`.

A service manager that wants notifications has set NOTIFY_SOCKET to the address of a datagram
socket. Nothing waits for it: a datagram that cannot be sent at once is dropped.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final

ADDRESS: Final = "NOTIFY_SOCKET"
WATCHDOG: Final = "WATCHDOG_USEC"
WATCHDOG_PROCESS: Final = "WATCHDOG_PID"


class ServiceManager:
    """Notifies the service manager that `env` names, if there is one. Its variables are removed
    from `env`, so that no process started later speaks for this one."""

    def __init__(self, env: MutableMapping[str, str]) -> None:
        address = env.pop(ADDRESS, "")
        interval_us, process = env.pop(WATCHDOG, ""), env.pop(WATCHDOG_PROCESS, "")
        is_meant = process in ("", str(os.getpid())) and interval_us.isdecimal()
        self.watchdog_s = int(interval_us) / 1e6 if is_meant else 0.0
        """The seconds within which it must hear that the broker answers; 0: there is no limit."""
        self.address = "\0" + address[1:] if address.startswith("@") else address
        self.socket: socket.socket | None = None
        if address:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self.socket.setblocking(False)

    def ready(self, status: str) -> None:
        """Tell that clients can connect; the service manager shows `status` to its users."""
        self.send(f"READY=1\nSTATUS={status}")

    def alive(self) -> None:
        """Tell that the broker answers; any thread may call this."""
        self.send("WATCHDOG=1")

    def stopping(self) -> None:
        """Tell that the broker has begun to end."""
        self.send("STOPPING=1\nSTATUS=stopping")

    def send(self, text: str) -> None:
        """Send one datagram, if there is a service manager."""
        if self.socket is not None:
            with suppress(OSError):
                self.socket.sendto(text.encode(), self.address)
