"""Goal: the harness sees what it is there to see.

Method: the broker with a planted bug (`planted.py`) is killed under its clients until a promise is
broken. A bug that is not noticed means that the harness would pass idly over it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from durability import planted
from durability.torture import Failed, Round

SEEDS = range(20, 28)
"""Rounds, until one notices. Two of three notice a lost acknowledgement, so that four may not."""
CYCLES = 8


@pytest.mark.parametrize("name", planted.BUGS)
def test_a_planted_bug_is_caught(name: str, tmp_path: Path) -> None:
    for seed in SEEDS:
        round_ = Round(seed, tmp_path / str(seed), planted.program(name), stop_percent=0)
        try:
            round_.run(CYCLES)
        except Failed as failed:
            print(failed)
            assert round_.tally.start_s, "the broker with the bug does not start"
            return
    pytest.fail(f"{name} was not noticed in {len(SEEDS)} rounds of {CYCLES} kills")
