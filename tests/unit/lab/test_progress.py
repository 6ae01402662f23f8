"""Goal: a run can be followed. Method: a second's figures as text, on a terminal and off one."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sluicemq.lab.plan import RunPlan
from sluicemq.lab.progress import LiveProgress, PlainProgress, Snapshot, ms_text, progress_for
from sluicemq.lab.scenarios import scenario_named

PLAN = RunPlan(
    scenario=scenario_named("1"), targets=("amqp://h",), directory=Path("unused"), scale=0.1
)


def snapshot(second: int, step: int | None, blocked: float = 0.0) -> Snapshot:
    return Snapshot(
        second=second,
        step=None if step is None else PLAN.steps[step],
        intended=2000,
        written=1990,
        confirmed=1985,
        delivered=1980,
        unconfirmed=5,
        unacked=0,
        blocked_connections=blocked,
        messages_ready=1234,
        p50_ns=400_000,
        p99_ns=None,
    )


def shown(terminal: bool) -> str:
    console = Console(file=StringIO(), force_terminal=terminal, width=140)
    progress = progress_for(console)
    assert isinstance(progress, LiveProgress if terminal else PlainProgress)
    progress.run_planned(PLAN)
    progress.note("something [worth] noting")
    progress.second_passed(snapshot(0, 0))
    progress.second_passed(snapshot(21, 1, blocked=3))
    progress.second_passed(snapshot(120, None))
    progress.run_ended()
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_off_a_terminal_every_second_is_a_line() -> None:
    lines = shown(terminal=False).splitlines()
    assert lines[0].startswith("scenario 1 (few-fast): 20 publishers x 100/s (unscaled 1,000/s)")
    assert lines[1] == "something [worth] noting"
    assert " ".join(lines[2].split()) == (
        "1 s step 1/6 limit 1 (1 %) pub 1,990/s del 1,980/s p50 0.4 p99 - ms "
        "unconfirmed 5 ready 1,234"
    )
    assert lines[3].endswith("blocked 3")
    assert lines[4].strip().startswith("121 s  draining")


def test_on_a_terminal_every_step_has_a_bar() -> None:
    text = shown(terminal=True)
    assert "step 6 limit 100 (100 %)" in text
    assert "draining" in text
    assert "del  1,980/s" in text


@pytest.mark.parametrize(
    ("ns", "text"), [(None, "-"), (421_000, "0.421"), (23_456_000, "23.5"), (123_456_000, "123")]
)
def test_latencies_have_three_digits(ns: int | None, text: str) -> None:
    assert ms_text(ns) == text
