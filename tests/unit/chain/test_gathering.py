"""Goal: a leader makes few large entries of what publishers with confirms send, and waits for
nobody in vain.

Method: a clock that is moved by hand, and publishers that send again what was agreed on.
"""

from __future__ import annotations

from sluicemq.chain.queue.quorum.gathering import HOLD_FACTOR, PASSED_MAX, Gathering
from sluicemq.kernel.world import Clock
from sluicemq.limits import QUORUM_HOLD_MAX_MS, RAFT_APPEND_BYTES

MS = 1_000_000


class HandClock(Clock):
    """A clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.ns = 1

    def now_ns(self) -> int:
        return self.ns


def agreed_after(gathering: Gathering, clock: HandClock, took_ms: int, waiting: int) -> int:
    gathering.made(1000)
    clock.ns += took_ms * MS
    return gathering.agreed(waiting)


def test_two_crowds_become_one() -> None:
    clock = HandClock()
    gathering = Gathering(clock)
    assert agreed_after(gathering, clock, 8, waiting=500) == HOLD_FACTOR * 8
    assert gathering.waits(500)
    assert gathering.waits(1349)
    assert not gathering.waits(1350), "nine tenths of all that is under way"
    assert not gathering.waits(500), "it was enough once"


def test_what_is_large_enough_never_waits() -> None:
    clock = HandClock()
    gathering = Gathering(clock)
    gathering.made(4 * RAFT_APPEND_BYTES)
    gathering.agreed(waiting_bytes=RAFT_APPEND_BYTES - 1)
    assert gathering.waits(RAFT_APPEND_BYTES - 1)
    assert not gathering.waits(RAFT_APPEND_BYTES)


def test_the_wait_is_bounded() -> None:
    clock = HandClock()
    gathering = Gathering(clock)
    assert agreed_after(gathering, clock, 60_000, waiting=1) == QUORUM_HOLD_MAX_MS
    clock.ns += QUORUM_HOLD_MAX_MS * MS - 1
    assert gathering.waits(1)
    assert gathering.left_ms == 1
    clock.ns += 1
    assert gathering.left_ms == 0
    assert not gathering.waits(1)


def test_who_waits_in_vain_waits_ever_more_seldom() -> None:
    clock = HandClock()
    gathering = Gathering(clock)
    passed: list[int] = []
    count = 0
    while len(passed) < 10:
        if not agreed_after(gathering, clock, 2, waiting=0):
            count += 1
            continue
        assert gathering.waits(100)
        clock.ns += 2 * HOLD_FACTOR * MS
        assert not gathering.waits(120), "hardly more than would have gone at once"
        passed.append(count)
        count = 0
    assert passed[:4] == [0, 1, 2, 4]
    assert passed[-1] == PASSED_MAX
    while not agreed_after(gathering, clock, 2, waiting=0):
        pass
    assert not gathering.waits(900), "they have come"
    assert agreed_after(gathering, clock, 2, waiting=0), "so it is worth it again"


def test_a_wait_is_of_use_when_some_of_them_come() -> None:
    clock = HandClock()
    gathering = Gathering(clock)
    for _ in range(3):
        assert agreed_after(gathering, clock, 2, waiting=100)
        clock.ns += 2 * HOLD_FACTOR * MS
        assert not gathering.waits(125)


def test_another_leader_begins_anew() -> None:
    clock = HandClock()
    gathering = Gathering(clock)
    agreed_after(gathering, clock, 2, waiting=0)
    gathering.forget()
    assert not gathering.waits(1)
    assert gathering.left_ms == 0
