"""A simulated file: the content that readers see, the durable content, and the steps between them.

    write, resize --> data (the page cache) --> steps --sync--> durable

A step has a copy of the sectors that it touched. At a power loss each sector of each step has
become durable or not, independent of the others; a durable sector has everything written to it
before. So may the length: without the data, which then reads as zeroes, or not at all.
"""

from __future__ import annotations

from random import Random
from typing import Final

SECTOR: Final = 512
"""Bytes that arrive together or not at all."""


class FileChange:
    """One change since the last sync. `sectors` begins at `start`, a multiple of SECTOR, and is
    None when only the length changed; `size` is the file's length after it."""

    __slots__ = ("sectors", "size", "start")

    def __init__(self, start: int, sectors: bytes | None, size: int) -> None:
        self.start = start
        self.sectors = sectors
        self.size = size


class Inode:
    """The content of a simulated file, without its name."""

    __slots__ = ("data", "durable", "steps", "syncs")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.steps: list[FileChange] = []
        self.syncs = 0
        """The number of syncs, each of which may have changed what is durable."""

    def copy(self) -> Inode:
        """Return another file with the same content and steps."""
        twin = Inode()
        twin.data = self.data.copy()
        twin.durable = self.durable.copy()
        twin.steps = self.steps.copy()
        return twin

    def write(self, offset: int, data: bytes) -> None:
        """Write into the page cache; a gap before `offset` reads as zeroes."""
        cache = self.data
        if offset > len(cache):
            cache.extend(bytes(offset - len(cache)))
        cache[offset : offset + len(data)] = data
        start = offset - offset % SECTOR
        end = -(-(offset + len(data)) // SECTOR) * SECTOR
        self.steps.append(FileChange(start, bytes(cache[start:end]), len(cache)))

    def resize(self, size: int) -> None:
        """Truncate the file, or extend it with zeroes."""
        _fit(self.data, size)
        self.steps.append(FileChange(0, None, size))

    def sync(self) -> None:
        """Make durable everything that was written."""
        self.syncs += 1
        durable = self.durable
        for step in self.steps:
            if step.sectors is None:
                _fit(durable, step.size)
            else:
                _put(durable, step.start, step.sectors)
        _fit(durable, len(self.data))
        self.steps = []

    def forget_steps(self) -> None:
        """Let a sync fail: the pages count as clean though they never become durable. They can
        still be read; the next sync skips them."""
        self.steps = []

    def lose_power(self, random: Random, kept: float) -> None:
        """Keep what a power loss leaves, with no steps pending. `kept` is the share of steps that
        arrive completely; half of the others are torn."""
        left = self.durable
        size = len(left)
        for step in self.steps:
            if step.sectors is None:
                if random.random() < kept:
                    _fit(left, step.size)
                    size = step.size
                continue
            whole = random.random() < kept
            torn = random.random() < 0.5
            for at in range(0, len(step.sectors), SECTOR):
                if whole or (torn and random.random() < 0.5):
                    start = step.start + at
                    sector = step.sectors[at : at + SECTOR]
                    _put(left, start, sector)
                    size = max(size, min(step.size, start + len(sector)))
            if random.random() < 0.3:
                size = max(size, step.size)
        _fit(left, size)
        self.data = bytearray(left)
        self.steps = []

    def flip(self, offset: int, mask: int) -> None:
        """Flip the bits of `mask` in one byte at rest."""
        self.data[offset] ^= mask
        if offset < len(self.durable):
            self.durable[offset] ^= mask


def _put(file: bytearray, start: int, data: bytes) -> None:
    if start > len(file):
        file.extend(bytes(start - len(file)))
    file[start : start + len(data)] = data


def _fit(file: bytearray, size: int) -> None:
    del file[size:]
    file.extend(bytes(size - len(file)))
