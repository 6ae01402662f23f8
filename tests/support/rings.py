"""Rings for tests: whether the system has real ones, and one that does what a test tells it."""

from __future__ import annotations

import os

from sluicemq.host.uring import WriteRing


def has_ring() -> bool:
    """Has this system io_uring? Containers often forbid it."""
    try:
        WriteRing().close()
    except OSError:
        return False
    return True


class ToldRing(WriteRing):
    """A ring whose writes are done when the test says so, by `finish`."""

    def __init__(self) -> None:  # no ring of the system's
        self.descriptor, self.writer = os.pipe()
        self.begun: list[tuple[int, int, bytes]] = []
        """Descriptor, offset and data of each write so far."""
        self.told: int | None = None
        self.refusal: OSError | None = None

    def write(self, descriptor: int, offset: int, data: bytes, flags: int) -> None:
        assert flags == os.RWF_DSYNC
        if self.refusal is not None:
            raise self.refusal
        self.begun.append((descriptor, offset, data))

    def finish(self, result: int | None = None) -> None:
        """End the write under way with this result; None: all of it is done. As much as it says is
        in the file."""
        descriptor, offset, data = self.begun[-1]
        self.told = len(data) if result is None else result
        os.pwrite(descriptor, data[: max(self.told, 0)], offset)
        os.write(self.writer, b"!")

    def result(self) -> int | None:
        found, self.told = self.told, None
        if found is not None:
            os.read(self.descriptor, 1)
        return found

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self.writer)
