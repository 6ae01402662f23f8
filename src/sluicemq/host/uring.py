"""An io_uring of Linux, for one write at a time: the system writes while the caller goes on.

The caller puts a request into memory that it shares with the system, and makes one call, which does
not wait for the disk: one of the system's own threads writes, without Python's lock. When it is
done, the result is in the same memory, and the ring's descriptor is readable.

Python has no memory barriers, so the ring needs a processor that keeps the program's order of reads
and of writes.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import sys
from typing import Final

SETUP, ENTER = 425, 426
"""The numbers of the system calls io_uring_setup and io_uring_enter, the same on all processors."""

ORDERED_PROCESSORS: Final = ("x86_64",)
"""Processors that keep the program's order of reads, and of writes, as Linux names them."""

PARAMETERS: Final = 30
"""32-bit words of struct io_uring_params; the names below are words in it."""
SQ_ENTRIES, CQ_ENTRIES, FEATURES = 0, 1, 5
SQ_TAIL, SQ_ARRAY = 11, 16
CQ_HEAD, CQ_TAIL, CQ_MASK, CQ_RESULTS = 20, 21, 22, 25

ONE_MAPPING: Final = 1
"""The feature that both queues are in one mapping, which Linux has since 5.4."""
REQUESTS_OFFSET: Final = 0x1000_0000
"""Where the mapping of the requests begins, as an offset in the ring's descriptor."""

WRITE: Final = 23
"""The operation IORING_OP_WRITE, which Linux has since 5.6."""
BY_A_WORKER: Final = 1 << 4
"""IOSQE_ASYNC: one of the system's threads does all of it, so that the call never waits for the
disk."""


class Request(ctypes.Structure):
    """One request, as struct io_uring_sqe has it."""

    _fields_ = (
        ("operation", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("priority", ctypes.c_uint16),
        ("descriptor", ctypes.c_int32),
        ("offset", ctypes.c_uint64),
        ("data", ctypes.c_char_p),
        ("size", ctypes.c_uint32),
        ("write_flags", ctypes.c_uint32),
        ("rest", ctypes.c_uint64 * 4),
    )


class Result(ctypes.Structure):
    """One result, as struct io_uring_cqe has it. `value` is the number of bytes written, or a
    negative errno."""

    _fields_ = (
        ("tag", ctypes.c_uint64),
        ("value", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
    )


class WriteRing:
    """An io_uring with room for one request. The constructor raises OSError when there is none
    here: the system is too old, or somebody has forbidden it, as containers do."""

    def __init__(self) -> None:
        if sys.platform != "linux" or platform.machine() not in ORDERED_PROCESSORS:
            raise OSError(errno.ENOSYS, "no io_uring on this system or processor")
        self.system = ctypes.PyDLL(None, use_errno=True).syscall
        """Makes system calls, and keeps Python's lock: these calls are shorter than a change of
        its owner."""
        self.system.restype = ctypes.c_long
        parameters = (ctypes.c_uint32 * PARAMETERS)()
        size = ctypes.c_long(1)
        self.descriptor: int = self.system(ctypes.c_long(SETUP), size, ctypes.byref(parameters))
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "io_uring_setup")
        try:
            self._map(parameters)
        except BaseException:
            self.close()
            raise
        self.enter = [ctypes.c_long(each) for each in (ENTER, self.descriptor, 1, 0, 0, 0, 0)]

    def _map(self, parameters: ctypes.Array[ctypes.c_uint32]) -> None:
        """Find the shared memory's parts."""
        if not parameters[FEATURES] & ONE_MAPPING:
            raise OSError(errno.ENOSYS, "io_uring is too old")
        result_size = ctypes.sizeof(Result)
        size = max(
            parameters[SQ_ARRAY] + 4 * parameters[SQ_ENTRIES],
            parameters[CQ_RESULTS] + result_size * parameters[CQ_ENTRIES],
        )
        queues = mmap.mmap(self.descriptor, size)
        requests = mmap.mmap(self.descriptor, ctypes.sizeof(Request), offset=REQUESTS_OFFSET)
        word = ctypes.c_uint32.from_buffer
        word(queues, parameters[SQ_ARRAY]).value = 0  # the place of the only request
        self.sq_tail = word(queues, parameters[SQ_TAIL])
        self.cq_head = word(queues, parameters[CQ_HEAD])
        self.cq_tail = word(queues, parameters[CQ_TAIL])
        self.cq_mask = word(queues, parameters[CQ_MASK]).value
        begin = parameters[CQ_RESULTS]
        self.results = [
            Result.from_buffer(queues, begin + result_size * index)
            for index in range(parameters[CQ_ENTRIES])
        ]
        self.request = Request.from_buffer(requests)
        self.request.operation = WRITE
        self.request.flags = BY_A_WORKER

    def write(self, descriptor: int, offset: int, data: bytes, flags: int) -> None:
        """Have `data` written with these flags of pwritev2; `data` must stay in memory until
        `result` has returned. Raises OSError when the system does not take the request; then it
        will never be done, and this ring is of no more use."""
        request = self.request
        request.descriptor = descriptor
        request.offset = offset
        request.data = data
        request.size = len(data)
        request.write_flags = flags
        self.sq_tail.value += 1
        if self.system(*self.enter) != 1:
            raise OSError(ctypes.get_errno(), "io_uring_enter")

    def result(self) -> int | None:
        """Return how many bytes were written, or a negative errno; None: that is not known yet.
        Each write has one result."""
        head = self.cq_head.value
        if head == self.cq_tail.value:
            return None
        found: int = self.results[head & self.cq_mask].value
        self.cq_head.value = head + 1
        return found

    def close(self) -> None:
        """Give the ring back to the system."""
        os.close(self.descriptor)
