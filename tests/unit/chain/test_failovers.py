"""Goal: when the node is lost that leads many queues, each of them agrees on something again within
three seconds, on slow disks, too; and the nodes that are left share what it has led.

Method: whole brokers in simulated time. `bench/failovers.py` has the figures of more of them. The
planted mistake is that of members which all ask at one time, and of which none gives way.
"""

from __future__ import annotations

from typing import Final

import pytest

from sluicemq.raft import election
from sluicemq.raft.member import RaftMember
from support.failovers import FAULTS, Failover, Machines

WANTED_MS: Final = 3_000
QUEUES: Final = 12
SLOW: Final = Machines(sync_ms=200, network_ms=20)


@pytest.mark.parametrize("fault", FAULTS)
def test_queues_go_on_within_three_seconds(fault: str) -> None:
    failover = Failover(fault, QUEUES, 0, SLOW)
    assert max(failover.silences_ms) < WANTED_MS
    assert min(failover.led) >= QUEUES // 4, "one node leads nearly all"


def test_queues_are_missed_for_longer_when_nobody_gives_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted_ms = max(Failover("kill", QUEUES, 0, SLOW).silences_ms)
    monkeypatch.setattr(RaftMember, "place", 0)
    monkeypatch.setattr(RaftMember, "give_way", lambda _self: None)
    monkeypatch.setattr(election, "goes_first", lambda _member, _request: False)
    assert max(Failover("kill", QUEUES, 0, SLOW).silences_ms) > wanted_ms
