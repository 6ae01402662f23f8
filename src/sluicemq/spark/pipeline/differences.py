"""The differences of other runs from the first one, step by step, and whether they are better."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sluicemq.spark.pipeline import formats
from sluicemq.spark.pipeline.display_table import Cell, Chip, Column, ColumnKind, Group, Table, Tone
from sluicemq.spark.pipeline.results import RunResult, Step

NOTABLE: Final = 0.05
"""The least change that is called better or worse: two runs of one broker differ by as much."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of steps by which runs are compared."""

    title: str
    value: Callable[[Step], float | None]
    words: Callable[[float | None], str]
    more_is_better: bool = False
    terminal: str = ""
    """Its title on a terminal; empty: a terminal does not show it."""


def _latency(kind: str, percentile: str) -> Callable[[Step], float | None]:
    def value(step: Step) -> float | None:
        found: float | None = getattr(getattr(step.latencies, kind), f"{percentile}_ms")
        return found

    return value


MEASURES: Final = (
    Measure("sustained", lambda step: step.sustained_per_s, formats.rate, True, "sustained"),
    Measure("p50", _latency("end_to_end_response", "p50"), formats.duration),
    Measure("p99", _latency("end_to_end_response", "p99"), formats.duration, terminal="p99"),
    Measure(
        "p99 from write",
        _latency("end_to_end_service", "p99"),
        formats.duration,
        terminal="p99 from write",
    ),
    Measure("p99 confirm", _latency("confirm_response", "p99"), formats.duration),
    Measure("CPU/message", lambda step: step.broker_cpu_us_per_message, formats.microseconds),
    Measure("RSS max", lambda step: step.broker_rss_max_bytes, formats.mebibytes),
)


@dataclass(frozen=True, slots=True)
class StepPair:
    """The same step in the first run and in another one."""

    before: Step
    after: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One figure of one step in the first run and in another one."""

    run: str
    first_run: str
    in_flight_limit: int | None
    figure: str
    before: float | None
    after: float | None
    change: float | None
    """The change as a share of `before`; None when that is missing or 0."""


def step_pairs(first: RunResult, other: RunResult) -> list[StepPair]:
    """Return those steps of two runs that have the same in-flight limit, or both none."""
    before = {step.in_flight_limit: step for step in first.steps}
    return [
        StepPair(before[step.in_flight_limit], step)
        for step in other.steps
        if step.in_flight_limit in before
    ]


def differences(runs: Sequence[RunResult]) -> Iterator[Difference]:
    """Yield the figures of all runs but the first, each with that of the first."""
    for other in runs[1:]:
        first = runs[0]
        for pair in step_pairs(first, other):
            for measure in MEASURES:
                before, after = measure.value(pair.before), measure.value(pair.after)
                yield Difference(
                    run=other.label,
                    first_run=first.label,
                    in_flight_limit=pair.after.in_flight_limit,
                    figure=measure.title,
                    before=before,
                    after=after,
                    change=change(before, after),
                )


def change(before: float | None, after: float | None) -> float | None:
    """Return the change of a figure as a share of `before`; None when either is missing, or
    `before` is 0."""
    if before is None or after is None or before == 0:
        return None
    return after / before - 1


def change_chip(share: float, more_is_better: bool) -> Chip:
    """Return a chip with a change in percent, and whether it is for the better."""
    words = f"{formats.signed(share * 100)}{formats.PERCENT}"
    if abs(share) < NOTABLE:
        return Chip(Tone.DULL, words)
    better = (share > 0) == more_is_better
    return Chip(Tone.GOOD, f"{words} better") if better else Chip(Tone.BAD, f"{words} worse")


def _column(measure: Measure) -> Column[StepPair]:
    def cell(pair: StepPair) -> Cell:
        before, after = measure.value(pair.before), measure.value(pair.after)
        share = change(before, after)
        chips = [] if share is None else [change_chip(share, measure.more_is_better)]
        note = "" if before is None else f"\nwas\u00a0{measure.words(before)}"
        return Cell(measure.words(after), chips, note)

    return Column(measure.title, cell, ColumnKind.CHANGE, measure.terminal)


LIMIT: Final[Column[StepPair]] = Column(
    "in-flight limit",
    lambda pair: formats.limit(pair.after.in_flight_limit, pair.after.in_flight_percent),
    ColumnKind.TEXT,
    "limit",
)


def difference_table(first: RunResult, other: RunResult) -> Table[StepPair]:
    """Return a table with a row for each step that both runs have, and the columns of MEASURES that
    either of them has figures of."""
    pairs = step_pairs(first, other)
    columns = [
        _column(measure)
        for measure in MEASURES
        if any(
            measure.value(step) is not None for pair in pairs for step in (pair.before, pair.after)
        )
    ]
    return Table(LIMIT, [Group("", columns)], pairs)
