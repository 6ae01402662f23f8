"""Goal: what the broker has said stays true however often it is killed (docs/durability-tests.md).

Method: 30 times kill -9 of the real process at a random moment, its start-up included, under
publishing and consuming clients; two data directories, limits so small that the journal goes from
file to file and queues are paged out all the time. The least that must have happened is demanded,
so that a test that is stuck cannot pass.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from durability.torture import START_UP_EVERY, Round
from support.thorough import thorough

CYCLES = 15
SEEDS = range(1, thorough(2, 4) + 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_confirmed_is_lost_by_kill_9(seed: int, tmp_path: Path) -> None:
    round_ = Round(seed, tmp_path, stop_percent=0)
    tally = round_.run(CYCLES)
    print(tally.line())
    assert tally.kills >= CYCLES, tally
    assert tally.in_start_up == CYCLES // START_UP_EVERY, tally
    assert tally.confirmed >= 20 * CYCLES, tally
    assert tally.delivered >= 20 * CYCLES, tally
    assert tally.redelivered >= 1, tally
    assert tally.sure_acks >= CYCLES, tally
    assert tally.journal_files >= CYCLES, tally
    assert tally.checkpoints >= CYCLES, tally
    assert tally.index_bytes > 0, tally
    assert tally.store_bytes > 0, tally


def test_nothing_is_lost_between_polite_stops_and_kills(tmp_path: Path) -> None:
    tally = Round(5, tmp_path, stop_percent=50).run(10)
    assert tally.stops >= 2, tally
    assert tally.kills >= 2, tally
    assert tally.confirmed >= 100, tally
