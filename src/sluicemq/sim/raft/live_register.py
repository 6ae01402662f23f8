"""The registers again, as a machine whose snapshots need entries of the log: a quorum queue's name
the messages that are in it, and do not have them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from zlib import crc32

from sluicemq.sim.raft.register import KEYS, Register
from sluicemq.storage.raft.live_places import LivePlaces

KEPT = 12
"""Writes that are needed for a while."""
FOR_EVER = 3
"""Writes that are needed until the end, whatever comes behind them."""


class NeedyRegister(Register):
    """A machine whose snapshots need entries of the log."""

    @property
    def live(self) -> frozenset[int]:
        """The entries that are still needed."""
        raise NotImplementedError

    def places(self, entries: dict[int, bytes]) -> LivePlaces:
        """Of each of these entries, all that are needed, the places that are."""
        raise NotImplementedError

    @staticmethod
    def trim(data: bytes, places: Sequence[range]) -> bytes:
        """What is needed of an entry for the messages at these places."""
        raise NotImplementedError


class LiveRegister(NeedyRegister):
    """Needs the last write of each register, some of the others for a while, and few for ever. Of
    each it needs all but the blanks."""

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
    """What is needed of an entry: its only message, without the blanks behind it."""
    return data.rstrip()
