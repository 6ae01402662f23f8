"""Registers whose snapshots need entries of the log, as those of a quorum queue do: these name the
queue's messages without having them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from zlib import crc32

from sluicemq.sim.raft.register import KEYS, Register
from sluicemq.storage.raft.live_places import LivePlaces

KEPT = 12
"""Writes needed for a while."""
FOR_EVER = 3
"""Writes needed until the end, whatever follows them."""


class NeedyRegister(Register):
    """A machine whose snapshots need entries of the log."""

    @property
    def live(self) -> frozenset[int]:
        """Return the indexes of entries that are still needed."""
        raise NotImplementedError

    def places(self, entries: dict[int, bytes]) -> LivePlaces:
        """Return, for each of these entries, which all are needed, the needed places."""
        raise NotImplementedError

    @staticmethod
    def trim(data: bytes, places: Sequence[range]) -> bytes:
        """Return the part of an entry that the messages at these places need."""
        raise NotImplementedError


class LiveRegister(NeedyRegister):
    """Needs the last write of each register, some other writes for a while, and a few for ever. It
    needs all of a write except its blanks."""

    def __init__(self) -> None:
        super().__init__()
        self.last: dict[str, int] = {}
        self.kept: list[int] = []
        self.first: list[int] = []

    def apply(self, data: bytes, index: int) -> None:
        super().apply(data, index)
        for write in data.decode().split():
            self.last[write.partition("=")[0]] = index
        chance = crc32(data) % 8
        if chance < 3:
            self.kept = [*self.kept, index][-KEPT:]
        if chance == 7 and len(self.first) < FOR_EVER:
            self.first.append(index)

    @property
    def live(self) -> frozenset[int]:
        return frozenset([*self.last.values(), *self.kept, *self.first])

    def places(self, entries: dict[int, bytes]) -> LivePlaces:
        found = LivePlaces()
        for index in sorted(entries):
            found.add(index, [range(1)], len(needed_of(entries[index])))
        return found

    @staticmethod
    def trim(data: bytes, places: Sequence[range]) -> bytes:
        assert [*places] == [range(1)]
        return needed_of(data)

    def content(self) -> bytes:
        state = [self.values, self.digest, self.last, self.kept, self.first]
        return json.dumps(state, sort_keys=True).encode()

    def restore(self, content: bytes) -> None:
        if content:
            self.values, self.digest, self.last, self.kept, self.first = json.loads(content)
        else:
            self.values, self.digest = dict.fromkeys(KEYS, 0), 0
            self.last, self.kept, self.first = {}, [], []


def needed_of(data: bytes) -> bytes:
    """Return the needed part of an entry: its only message, without the blanks behind it."""
    return data.rstrip()
