"""The lag of the in-sync mirrors behind their master, and its consequences: the master waits for a
mirror, or drops it.

    entries of the master --> bytes behind --> its gate is shut --> dropped
    acknowledgement -------------------------> open                 joins again, later each time
"""

from __future__ import annotations

from bisect import bisect_right

from sluicemq.queues.mirrored.group_standing import GroupStanding
from sluicemq.queues.mirrored.mirror_bounds import MirrorBounds

LOOK_MS_MAX = 1000
"""The time between two looks counts for at most so long, because this process may have stood still
itself."""
KEPT_MAX = 4096
"""The number of entries whose bytes are known; a mirror that lags further lags too far."""


class EntryBytes:
    """Counts the bytes of a master's newest entries."""

    def __init__(self) -> None:
        self.indexes: list[int] = []
        self.totals: list[int] = []
        """For each entry, the bytes of all entries up to it."""
        self.first = 0
        """The index of the first entry; 0: there was none."""
        self.known_from = 0
        """Of the entries up to this index only the sum of bytes is known: `forgotten`."""
        self.forgotten = 0

    def add(self, index: int, size_bytes: int) -> None:
        """Note an entry, behind all others."""
        assert not self.indexes or index > self.indexes[-1], "entries come in their order"
        self.first = self.first or index
        self.indexes.append(index)
        self.totals.append(self.total + size_bytes)
        if len(self.indexes) > 2 * KEPT_MAX:
            self.known_from, self.forgotten = self.indexes[KEPT_MAX - 1], self.totals[KEPT_MAX - 1]
            del self.indexes[:KEPT_MAX], self.totals[:KEPT_MAX]

    @property
    def last(self) -> int:
        """Return the index of the last entry; 0: there was none."""
        return self.indexes[-1] if self.indexes else 0

    @property
    def total(self) -> int:
        """Return the bytes of all entries so far."""
        return self.totals[-1] if self.totals else self.forgotten

    def behind(self, index: int) -> int | None:
        """Return the bytes of entries behind `index`; None: more than is known."""
        if index < self.known_from:
            return None
        at = bisect_right(self.indexes, index)
        return self.total - (self.totals[at - 1] if at else self.forgotten)


class MirrorLag:
    """A master's view of one in-sync mirror."""

    __slots__ = ("durable", "is_shut", "waited_ms")

    def __init__(self, durable: int) -> None:
        self.durable = durable
        self.waited_ms = 0
        """For how long it has made no progress, though it lacked entries."""
        self.is_shut = False
        """It is so far behind that publishers wait for it."""


class Rejoining:
    """When a dropped mirror may join again: from `may_join_ms` on, if it has the entries from
    before it was dropped, up to `needs`."""

    __slots__ = ("delay_ms", "joined_ms", "may_join_ms", "needs")

    def __init__(self) -> None:
        self.delay_ms = 0
        self.may_join_ms = 0
        self.joined_ms = 0
        self.needs = 0


class MirrorLags:
    """The lags of all mirrors of one master, from its beginning to its end. Times are in
    milliseconds of a clock that never goes back."""

    def __init__(self, bounds: MirrorBounds, now_ms: int) -> None:
        self.bounds = bounds
        self.entries = EntryBytes()
        self.now_ms = now_ms
        self.lags: dict[int, MirrorLag] = {}
        """The lags of the mirrors in the set, and of no others."""
        self.rejoining: dict[int, Rejoining] = {}
        """The mirrors that have been dropped."""

    @property
    def holding_up(self) -> list[int]:
        """Return the mirrors for which publishers wait."""
        return [member for member, lag in self.lags.items() if lag.is_shut]

    def look(self, standing: GroupStanding, mirrors: tuple[int, ...], now_ms: int) -> None:
        """Note the progress of `mirrors`, which are those of the set. Others are forgotten, so that
        nobody waits for them."""
        passed_ms = min(now_ms - self.now_ms, LOOK_MS_MAX)
        self.now_ms = now_ms
        for member in [each for each in self.lags if each not in mirrors]:
            del self.lags[member]
        for member in mirrors:
            durable = standing.durable.get(member, 0)
            lag = self.lags.get(member)
            if lag is None:
                lag = self.lags[member] = MirrorLag(durable)
                self.joined(member)
            behind = self.entries.behind(durable)
            if durable > lag.durable or behind == 0:
                lag.waited_ms = 0
            else:
                lag.waited_ms += passed_ms
            lag.durable = durable
            bound = self.bounds.close_bytes if lag.is_shut else self.bounds.gate_bytes
            lag.is_shut = behind is None or behind >= bound

    def gives_up(self, member: int, standing: GroupStanding) -> str:
        """Return why an in-sync mirror is to be dropped; "" if it is not."""
        lag = self.lags[member]
        behind = self.entries.behind(lag.durable)
        if member not in standing.durable:
            return "it has no vote any more"
        if member in standing.lost:
            return "its node cannot be reached"
        if behind is None or behind >= self.bounds.behind_bytes:
            return "it is too far behind"
        if lag.waited_ms >= self.bounds.stalled_ms:
            return f"it has got no further for {self.bounds.stalled_ms} ms"
        return ""

    def dropped(self, member: int) -> None:
        """Note that a mirror is to be dropped: it joins again later, and after a longer time
        whenever it drops out soon after joining."""
        bounds = self.bounds
        again = self.rejoining.setdefault(member, Rejoining())
        is_soon = again.delay_ms and self.now_ms - again.joined_ms < bounds.rejoin_max_ms
        delay_ms = 2 * again.delay_ms if is_soon else bounds.rejoin_ms
        again.delay_ms = min(delay_ms, bounds.rejoin_max_ms)
        again.may_join_ms = self.now_ms + again.delay_ms
        again.needs = self.entries.last

    def joined(self, member: int) -> None:
        """Note that a mirror is in the set."""
        if member in self.rejoining:
            self.rejoining[member].joined_ms = self.now_ms

    def may_join(self, member: int, standing: GroupStanding) -> bool:
        """Tell whether a member outside the set keeps up well enough to join: it has all entries
        from before this master, and lacks little of the rest."""
        again = self.rejoining.get(member)
        durable = standing.durable.get(member, 0)
        if member in standing.lost:
            return False
        if again is not None and (self.now_ms < again.may_join_ms or durable < again.needs):
            return False
        behind = self.entries.behind(durable)
        has_former = durable >= self.entries.first > 0
        return has_former and behind is not None and behind < self.bounds.close_bytes
