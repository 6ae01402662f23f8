"""Clients that try to log in while an attack runs, twice a second, whether the last one is done or
not.

    python -m hostile.newcomers PORT SECONDS

Waits for a line, and prints its figures as a line of JSON.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import time

from hostile import frames

ADDRESS = "127.0.0.2"
"""Another than the attacker's: each has its own share of the places before the login."""
INTERVAL_S = 0.5
PATIENCE_S = 15.0
"""A log-in that takes longer has failed."""
OPENED = re.compile(rb"\x01\x00\x01\x00\x00..\x00\x14\x00\x0b", re.DOTALL)


def log_in(port: int) -> bool:
    """As far as an open channel."""
    received = b""
    try:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S, (ADDRESS, 0)) as link:
            link.sendall(frames.login())
            while not OPENED.search(received):
                data = link.recv(65536)
                if not data:
                    return False
                received += data
    except OSError:
        return False
    return True


def main() -> None:
    """The newcomers' process."""
    port, seconds = int(sys.argv[1]), float(sys.argv[2])
    times: list[float] = []
    failed: list[float] = []

    def one() -> None:
        began = time.monotonic()
        done = log_in(port)
        (times if done else failed).append(time.monotonic() - began)

    print("ready", flush=True)
    sys.stdin.readline()
    threads = []
    for _ in range(int(seconds / INTERVAL_S)):
        threads.append(threading.Thread(target=one, daemon=True))
        threads[-1].start()
        time.sleep(INTERVAL_S)
    deadline = time.monotonic() + 2 * PATIENCE_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    figures = {
        "logins": len(times),
        "logins_failed": len(threads) - len(times),
        "login_worst_s": max([*times, *failed], default=0.0),
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
