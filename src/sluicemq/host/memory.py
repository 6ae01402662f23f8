"""The process's memory, as Linux reports it."""

from __future__ import annotations

import ctypes
import os
import weakref
from pathlib import Path

from sluicemq.kernel.world import Memory

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
UNKNOWN_TOTAL_BYTES = 1 << 30
"""Bytes of memory assumed when the system does not tell (RabbitMQ assumes the same)."""


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Names of glibc's mallopt."""
KEEP_BYTES = 64 << 20
LARGE_BYTES = 4 << 20


def tune_allocator() -> None:
    """Keep glibc from giving each socket buffer back to the system and faulting it in again. By
    default it maps anything above 128 KiB anew, and a broker takes and frees a quarter of a
    mebibyte a read. `HostMemory.trim` gives back what is kept."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, KEEP_BYTES)


class HostMemory(Memory):
    """Reads RSS from /proc/self/statm, and the total from the control group or the machine."""

    def __init__(self) -> None:
        self.trimmer = None
        # The file stays open: with no descriptor left to open it the alarm would be blind.
        self.statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self.statm).atexit = False
        libc = ctypes.CDLL(None)
        if hasattr(libc, "malloc_trim"):
            self.trimmer = libc.malloc_trim

    def total_bytes(self) -> int:
        totals = [total for total in (machine_total(), group_limit()) if total]
        return min(totals, default=UNKNOWN_TOTAL_BYTES)

    def resident_bytes(self) -> int:
        return int(os.pread(self.statm, 128, 0).split()[1]) * PAGE_BYTES

    def trim(self) -> None:
        if self.trimmer is not None:
            self.trimmer(0)


def machine_total() -> int:
    """Return the machine's RAM in bytes, or 0 when it is not known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES
    except (ValueError, OSError):
        return 0


def group_limit() -> int:
    """Return the control group's memory limit in bytes (cgroup v2, then v1), or 0 when there is
    none."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            text = Path("/sys/fs/cgroup", name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            return int(text)
    return 0
