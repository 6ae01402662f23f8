"""Faults at the system call: Debian's strace in front of the broker.

strace counts the calls of each thread by itself: with `storage.io_threads=1` the Nth call of the
one thread that works on files is the Nth after start-up, which is done by the main thread.
"""

from __future__ import annotations

import shutil
from typing import Final

PROGRAM: Final = "strace"
CALLS: Final = (
    "fdatasync",
    "fsync",
    "pwrite64",
    "pwritev2",
    "io_uring_enter",
    "openat",
    "rename",
    "unlink",
    "ftruncate",
    "fallocate",
)
"""Everything by which the broker changes its directory. (Each thread counts its own calls, and the
main thread makes those of io_uring.)"""

HOW_TO_GET: Final = "strace is missing: `make strace`, or apt-get install strace"


def is_there() -> bool:
    """Can faults be injected here?"""
    return shutil.which(PROGRAM) is not None


def failing(call: str, error: str, when: str) -> list[str]:
    """What stands before a command whose calls fail; `when` is N, N+ or N..M. The broker is our
    child, strace its tracer in the background."""
    return _tracing(call, f"inject={call}:error={error}:when={when}", "-D", "--seccomp-bpf")


def killing(call: str, number: int) -> list[str]:
    """What traces a broker that has begun to start, and is killed with -9 as a thread is about to
    make its Nth such call. (Filtered by seccomp, strace does not deliver a signal; without,
    everything is slower, and most of all the imports, which are over by then.)"""
    return _tracing(call, f"inject={call}:signal=KILL:when={number}")


def _tracing(call: str, injection: str, *options: str) -> list[str]:
    words = [PROGRAM, "-f", "-qqq", *options, "-o", "/dev/null"]
    return [*words, "-e", "signal=none", "-e", f"trace={call}", "-e", injection]
