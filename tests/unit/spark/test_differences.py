"""What is called better or worse, and which steps are compared."""

from __future__ import annotations

import io

from rich.console import Console

from sluicemq.spark.pipeline.console import print_comparison
from sluicemq.spark.pipeline.differences import (
    change,
    change_chip,
    difference_table,
    differences,
    step_pairs,
)
from sluicemq.spark.pipeline.display_table import Tone

from .records import make_analysis, make_run, make_step

BEFORE = make_run([make_step(10, 1000), make_step(20, 1000, number=1)], label="before")
AFTER = make_run([make_step(20, 750, latency_ms=10), make_step(50, 900, number=1)], label="after")


def test_steps_are_compared_by_their_limit() -> None:
    (pair,) = step_pairs(BEFORE, AFTER)
    assert (pair.before.step, pair.after.step) == (1, 0)
    free = make_run([make_step(None)], confirms=False)
    assert len(step_pairs(free, free)) == 1
    assert step_pairs(BEFORE, free) == []


def test_a_change_is_a_share_of_what_was() -> None:
    assert change(100.0, 75.0) == -0.25
    assert change(None, 1.0) is change(1.0, None) is change(0.0, 1.0) is None


def test_what_is_better_depends_on_the_figure() -> None:
    assert change_chip(0.2, more_is_better=True).tone is Tone.GOOD
    assert change_chip(0.2, more_is_better=False).tone is Tone.BAD
    assert change_chip(-0.2, more_is_better=False).text == "\u221220\u00a0% better"
    assert change_chip(0.04, more_is_better=True).tone is Tone.DULL


def test_every_figure_of_every_common_step_is_a_row() -> None:
    rows = {row.figure: row for row in differences([BEFORE, AFTER])}
    assert rows["sustained"].change == -0.25
    assert (rows["p99"].before, rows["p99"].after, rows["p99"].change) == (10.0, 20.0, 1.0)
    assert {(row.run, row.first_run, row.in_flight_limit) for row in rows.values()} == {
        ("after", "before", 20)
    }
    assert list(differences([BEFORE])) == []


def test_columns_that_nobody_has_are_left_out() -> None:
    bare = [make_run([make_step(10, broker_cpu_us_per_message=None)]) for _ in range(2)]
    titles = {column.title for column in difference_table(*bare).columns}
    assert "CPU/message" not in titles
    assert "RSS max" in titles


def test_a_terminal_shows_the_changes() -> None:
    out = io.StringIO()
    print_comparison(make_analysis(BEFORE, AFTER), Console(file=out, width=80))
    text = out.getvalue()
    assert "after against before" in text
    assert "…" not in text
    assert "\u221225\u00a0% worse 750/s" in text
    assert "after: nothing lost of 60,000" in text
