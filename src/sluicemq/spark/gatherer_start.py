"""Starts gathering processes, on the planner's machine or, from a task of the query, on an
executor, and connects them with the planner (`planner_link.py`).

On an executor the first task starts one, and later tasks find it: it holds a lock on a file named
after the session and the parent process of the executor's workers, with which it also ends. The
process connects to the planner and sends its own address, so that only the planner's has to be
known in advance.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Final

from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.options import Options
from sluicemq.spark.own_folder import LOCKS, lock_file, own_folder
from sluicemq.spark.planner_link import LOST_S, PlannerLink
from sluicemq.spark.transfer import Endpoint, reach

CONNECT_S: Final = 10.0
ANSWER_S: Final = LOST_S + CONNECT_S
"""Seconds to wait for the answer of the planner, which may have to wait for the end of a lease."""

MODULE: Final = "sluicemq.spark.gatherer"


@dataclass(frozen=True)
class GathererCall:
    """The parameters of a gathering process. It connects to `planner`, unless it inherits a
    connection as the file descriptor `fd` (-1: it does not). `host`, `bind` and `port` are those of
    its own chunk server; without `fd`, host and bind follow from the connection. It ends with the
    process that the pidfd `lives_with` refers to (-1: only with the planner). `lock` is the path of
    the file that it holds locked, and removes as it ends; empty for none."""

    session: str
    options: Options
    planner: Endpoint
    fd: int = -1
    host: str = ""
    bind: str = ""
    port: int = 0
    lives_with: int = -1
    lock: str = ""


def start_beside(call: GathererCall) -> tuple[subprocess.Popen[bytes], PlannerLink]:
    """Start a gathering process on this machine, and return it with the link to it. Raises
    `AmqpError` when the machine cannot start one."""
    try:
        ours, theirs = socket.socketpair()
    except OSError as error:
        raise cannot_start(error) from error
    with theirs:
        try:
            child = start(replace(call, fd=theirs.fileno()), theirs.fileno())
        except OSError as error:
            ours.close()
            raise cannot_start(error) from error
    return child, PlannerLink(ours)


def cannot_start(error: OSError) -> AmqpError:
    """Return the error for a driver's machine that cannot start a gathering process."""
    return AmqpError(f"gather = driver: this machine cannot start a process that gathers: {error}")


def start_on_executor(call: GathererCall) -> None:
    """Start a gathering process on this executor, unless one holds the lock already. A Python
    worker of the executor calls this; raises OSError when the process cannot be started."""
    parent = os.getppid()
    path = own_folder() / f"{LOCKS}{call.session[:16]}-{parent}"
    lock = lock_file(path)
    if lock is None:
        return
    try:
        with life_of(parent) as life:
            # From now on the new process has the lock.
            start(replace(call, lives_with=life, lock=str(path)), lock, life)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(lock)


@contextlib.contextmanager
def life_of(parent: int) -> Iterator[int]:
    """Yield a pidfd of the parent process, which becomes readable when that has ended; unlike its
    id it never refers to another process. Raises OSError when the parent has ended already."""
    handle = os.pidfd_open(parent)
    try:
        if os.getppid() != parent:
            raise ProcessLookupError(errno.ESRCH, "the executor has ended")
        yield handle
    finally:
        os.close(handle)


def start(call: GathererCall, *handles: int) -> subprocess.Popen[bytes]:
    """Start a gathering process, which inherits the open file descriptors `handles` and finds
    modules where this process does."""
    child = subprocess.Popen(
        [sys.executable, "-m", MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=handles,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError), child.stdin:
        pickle.dump(call, child.stdin)
    return child


def connect_to_planner(call: GathererCall) -> tuple[PlannerLink, str, str]:
    """Connect the gathering process with its planner. Returns the link, the host under which others
    reach the process's own server, and the address to listen at (empty: that host)."""
    if call.fd >= 0:
        return PlannerLink(socket.socket(fileno=call.fd)), call.host, call.bind
    peer = reach(call.planner, CONNECT_S)
    return PlannerLink(peer), *own_place(call, peer.getsockname()[0])


def own_place(call: GathererCall, host: str) -> tuple[str, str]:
    """Return the host and the address to listen at for a server of this process, whose end of the
    connection to the planner is `host`. For a loopback address, which other machines cannot reach,
    they are those that the options name for the planner's machine. An empty address means the
    host."""
    if ip_address(host).is_loopback:
        return call.options.transfer_host, call.options.transfer_bind
    return host, ""


def ask_planner(planner: Endpoint, **question: object) -> bool:
    """Ask the planner a question on behalf of a task, and return its yes or no. Raises OSError or
    EOFError when there is no answer."""
    with reach(planner, CONNECT_S) as peer:
        peer.settimeout(ANSWER_S)
        peer.sendall(json.dumps({"token": planner.token, **question}).encode() + b"\n")
        with peer.makefile("rb") as stream:
            line = stream.readline()
    if not line:
        raise EOFError
    return bool(json.loads(line))
