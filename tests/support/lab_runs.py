"""Small runs for the tests of the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sluicemq.lab.plan import RunPlan, choose_limits
from sluicemq.lab.progress import Progress, Snapshot
from sluicemq.lab.scenarios import scenario_named


class Notes(Progress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.snapshots: list[Snapshot] = []
        self.ended = False

    def note(self, text: str) -> None:
        self.notes.append(text)

    def second_passed(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    def run_ended(self) -> None:
        self.ended = True


def small_plan(url: str, directory: Path, scenario: str = "1", **options: Any) -> RunPlan:
    """A run of seconds: a hundredth of the rate unless said otherwise."""
    row = scenario_named(scenario)
    scale = options.setdefault("scale", 0.05)
    limits = options.pop("limits", "1%,100%")
    if options.get("confirms", True):
        options["chosen_limits"] = choose_limits(row, scale, limits)
    options.setdefault("step_seconds", 1)
    return RunPlan(scenario=row, targets=(url,), directory=directory, **options)


def rows(directory: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(directory / table).to_pylist()
    return found
