"""A follower's progress, as its leader sees it.

    probe      the leader finds out where the logs match, with one append at a time
    stream     entries are sent without waiting, as many as may be in flight
    snapshot   it lags behind the log's first entry, and is sent a snapshot in pieces

It begins with the first of these.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from sluicemq.raft.entry import LogEntry
from sluicemq.raft.settings import RaftSettings
from sluicemq.raft.snapshot import LogSnapshot

PROBE: Final = "probe"
STREAM: Final = "stream"
SNAPSHOT: Final = "snapshot"


class FollowerProgress:
    """The progress of one follower: 0 <= match < next at any time."""

    __slots__ = (
        "commit_sent",
        "has_moved",
        "in_flight",
        "in_flight_bytes",
        "is_active",
        "is_asked",
        "is_quiet",
        "live",
        "match",
        "next",
        "offset",
        "round",
        "settings",
        "snapshot",
        "state",
        "unsent_bytes",
        "waited_ticks",
        "was_sent",
    )

    def __init__(self, settings: RaftSettings, following: int) -> None:
        self.settings = settings
        self.state = PROBE
        self.match = 0
        """Entries up to here are durable there, and the same."""
        self.next = following
        """The index of the next entry to be sent."""
        self.is_asked = False
        """A probe, or a piece, is on its way."""
        self.in_flight: deque[tuple[int, int]] = deque()
        """For each append on its way, its last index and its bytes."""
        self.in_flight_bytes = 0
        self.unsent_bytes = 0
        """The bytes of entries added since it was last sent some."""
        self.commit_sent = 0
        """The last commit index that it was told."""
        self.was_sent = False
        """Entries or commits were sent since the last round of heartbeats."""
        self.has_moved = False
        """More has become durable there since that round."""
        self.snapshot: LogSnapshot | None = None
        """The snapshot that is being sent: its content, and the entries that it names, must
        stay."""
        self.offset = 0
        """The offset of the last piece sent."""
        self.live = 0
        """By its answers, it has the entries up to here that the snapshot needs."""
        self.waited_ticks = 0
        """Ticks since that piece was sent."""
        self.is_active = False
        """It was heard since the last check."""
        self.is_quiet = False
        """It knows that it will hear no more heartbeats."""
        self.round = 0
        """The last heartbeat that it has answered."""

    @property
    def in_flight_entries(self) -> int:
        """The number of entries that were sent and are not acknowledged."""
        return self.next - 1 - self.match

    @property
    def room_entries(self) -> int:
        """The number of entries that may be sent now; 0 while an answer is awaited."""
        settings = self.settings
        if self.state == SNAPSHOT or self.is_asked:
            return 0
        if self.in_flight_bytes >= settings.in_flight_bytes:
            return 0
        if self.state == PROBE:
            return settings.append_entries
        return min(settings.append_entries, settings.in_flight_entries - self.in_flight_entries)

    def sent(self, entries: list[LogEntry]) -> None:
        """Note that these entries were sent, from `next` on."""
        assert not entries or entries[0].index == self.next
        self.was_sent = True
        self.unsent_bytes = 0
        if self.state == PROBE:
            self.is_asked = True
        elif entries:
            size_bytes = sum(entry.size_bytes for entry in entries)
            self.next = entries[-1].index + 1
            self.in_flight.append((entries[-1].index, size_bytes))
            self.in_flight_bytes += size_bytes
            assert self.in_flight_entries <= self.settings.in_flight_entries
        assert self.match < self.next

    def acknowledged(self, match: int) -> bool:
        """Note that everything up to `match` is durable there; returns whether that is news."""
        while self.in_flight and self.in_flight[0][0] <= match:
            self.in_flight_bytes -= self.in_flight.popleft()[1]
        is_news = match > self.match
        if is_news:
            self.has_moved = True
            self.match = match
            self.next = max(self.next, match + 1)
        if self.state == SNAPSHOT:
            assert self.snapshot is not None
            if match < self.snapshot.index:
                return is_news
        if self.state != STREAM and (is_news or self.next == match + 1):
            self.stream()
        return is_news

    def refused(self, previous: int, following: int) -> None:
        """The entry at `previous` did not match; the logs may match before `following`. Answers to
        older appends are ignored."""
        if self.state == SNAPSHOT or previous <= self.match:
            return
        if self.state == STREAM or previous == self.next - 1:
            self.probe(following)

    def probe(self, following: int) -> None:
        """Find out where the logs match, from the entry before `following` on backwards."""
        self._enter(PROBE)
        self.next = max(self.match + 1, following)

    def stream(self) -> None:
        """Send entries without waiting, as it is known where the logs match."""
        self._enter(STREAM)
        self.next = self.match + 1

    def send_snapshot(self, snapshot: LogSnapshot) -> None:
        """Send it a snapshot, because it lags behind the log's first entry."""
        self._enter(SNAPSHOT)
        self.snapshot = snapshot

    @property
    def lacks_entries(self) -> bool:
        """Whether it lacks entries that the snapshot's content needs."""
        return self.snapshot is not None and self.live < self.snapshot.live_upto

    def lost_answer(self) -> None:
        """The follower is there, so an unanswered question may be asked again."""
        if self.state == PROBE:
            self.is_asked = False

    def _enter(self, state: str) -> None:
        self.state = state
        self.is_asked = False
        self.snapshot = None
        self.waited_ticks = 0
        self.in_flight.clear()
        self.in_flight_bytes = 0
