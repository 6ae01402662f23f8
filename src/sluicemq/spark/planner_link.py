"""The socket between a planner and a gathering process: lines of JSON both ways.

The planner numbers its requests, from 1 on, and each answer has the number of its request:

    planner                                       process
    {"n": 7, "ask": "take", ..}   ------------>
                                  <------------   {"n": 7, "state": {consumer: ..}, "answer": ..}
                                  <------------   {"n": 7, "state": {consumer: ..}}      as it comes

Requests are carried out in order, so a state with number n is that after request n. The link is the
lease: a process whose planner is gone, or silent for LEASE_S, closes its connections to the broker
and ends, and its messages come again. A planner that hears nothing for LEASE_S counts the process
as lost. Between machines it has TLS if chunks have (`transfer_tls.py`).
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Any, Final

from sluicemq.spark.transfer import Peer

BEAT_S: Final = 5.0
LEASE_S: Final = 30.0
LOST_S: Final = LEASE_S + BEAT_S
"""Seconds of silence after which a process is known to be lost."""

LINE_MAX_BYTES: Final = 256 * 1024 * 1024
"""The longest line in bytes: all ids of a batch are one line."""

Words = dict[str, Any]


class PlannerLink:
    """Exchanges lines of JSON between a planner and a gathering process. Any thread may call
    `send`, one thread `receive`."""

    def __init__(self, peer: Peer) -> None:
        peer.settimeout(LEASE_S)
        self._peer = peer
        self._stream = peer.makefile("rb")
        self._lock = threading.Lock()

    def send(self, words: Words) -> None:
        """Send one message. Raises OSError when the other side is gone, or takes nothing for
        LEASE_S seconds."""
        line = json.dumps(words).encode() + b"\n"
        with self._lock:
            self._peer.sendall(line)

    def receive(self) -> Words | None:
        """Wait for the next message of the other side; None when it is gone, or silent for LEASE_S
        seconds."""
        try:
            line = self._stream.readline(LINE_MAX_BYTES)
        except (OSError, ValueError):  # ValueError: this side has closed it
            return None
        if not line.endswith(b"\n"):
            return None
        words: Words = json.loads(line)
        return words

    def close(self) -> None:
        """Close the connection, which the other side notices at once; any thread may call it."""
        with contextlib.suppress(OSError):
            self._peer.shutdown(socket.SHUT_RDWR)
        self._peer.close()
