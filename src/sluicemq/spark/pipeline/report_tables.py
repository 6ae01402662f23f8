"""The tables: the page shows them whole, a terminal only columns that have a title for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sluicemq.spark.pipeline import formats
from sluicemq.spark.pipeline.display_table import Cell, Chip, Column, ColumnKind, Group, Table, Tone
from sluicemq.spark.pipeline.drawing import CLASS_SIGNS
from sluicemq.spark.pipeline.results import (
    Balance,
    ClaimResult,
    Imbalance,
    Outcome,
    RunResult,
    Step,
    StepClass,
)

CLASS_TONES: Final = {
    StepClass.STEADY: Tone.GOOD,
    StepClass.BACKLOG_GROWING: Tone.FAIR,
    StepClass.SWINGING: Tone.BAD,
    StepClass.COLLAPSED: Tone.BAD,
}
OUTCOMES: Final = {
    Outcome.HOLDS: Chip(Tone.GOOD, "✓ holds"),
    Outcome.BETTER: Chip(Tone.GOOD, "★ better"),
    Outcome.FAILS: Chip(Tone.BAD, "✕ does not hold"),
    Outcome.UNTESTED: Chip(Tone.DULL, "not tested"),
}


def _limit(step: Step) -> str:
    return formats.limit(step.in_flight_limit, step.in_flight_percent)


LIMIT: Final = Column("in-flight limit", _limit, ColumnKind.TEXT, "limit")


def _latency(kind: str, percentile: str) -> Callable[[Step], str]:
    def cell(step: Step) -> str:
        percentiles = getattr(step.latencies, kind)
        return formats.duration(getattr(percentiles, f"{percentile}_ms"))

    return cell


THROUGHPUT: Final[Group[Step]] = Group(
    "Messages per second",
    (
        Column("published", lambda step: formats.count(step.published_per_s), terminal="in/s"),
        Column("delivered", lambda step: formats.count(step.delivered_per_s), terminal="out/s"),
        Column("of wanted", lambda step: formats.share(step.sustained_per_s / step.target_per_s)),
    ),
)
END_TO_END: Final[Group[Step]] = Group(
    "End-to-end latency",
    (
        Column("p50", _latency("end_to_end_response", "p50"), terminal="p50"),
        Column("p75", _latency("end_to_end_response", "p75")),
        Column("p95", _latency("end_to_end_response", "p95")),
        Column("p99", _latency("end_to_end_response", "p99"), terminal="p99"),
        Column("max", _latency("end_to_end_response", "max")),
        Column("p99 from write", _latency("end_to_end_service", "p99"), terminal="p99\nwrite"),
    ),
)
CONFIRM: Final[Group[Step]] = Group(
    "Confirm latency",
    (
        Column("p50", _latency("confirm_response", "p50")),
        Column("p99", _latency("confirm_response", "p99"), terminal="p99\nconfirm"),
        Column("max", _latency("confirm_response", "max")),
        Column("p99 from write", _latency("confirm_service", "p99")),
    ),
)
WAITING: Final[Group[Step]] = Group(
    "Waiting messages",
    (
        Column(
            "backlog change", lambda step: formats.signed(step.backlog_last - step.backlog_first)
        ),
        Column("backlog max", lambda step: formats.count(step.backlog_max)),
        Column("unconf. max", lambda step: formats.count(step.unconfirmed_max)),
        Column("unacked max", lambda step: formats.count(step.unacked_max)),
        Column("held back", lambda step: formats.count(step.abandoned)),
    ),
)
BROKER: Final[Group[Step]] = Group(
    "Broker",
    (
        Column("blocked", lambda step: formats.share(step.blocked_share)),
        Column("CPU/message", lambda step: formats.microseconds(step.broker_cpu_us_per_message)),
        Column("RSS max", lambda step: formats.mebibytes(step.broker_rss_max_bytes)),
    ),
)


def class_chip(step_class: StepClass, number: str = "") -> Chip:
    """Return a chip with the class and its sign; `number`, if given, precedes it as the number of
    its steps."""
    return Chip(CLASS_TONES[step_class], f"{CLASS_SIGNS[step_class]} {number}{step_class}")


def _class_cell(step: Step) -> Cell:
    return Cell(chips=[class_chip(step.step_class)], note=f"{step.scale}\n{step.class_reason}")


CLASS_TITLE: Final = "class, and the post's scale"
CLASS: Final[Group[Step]] = Group(
    "", (Column(CLASS_TITLE, _class_cell, ColumnKind.CLASS, "class"),)
)


def steps_tables(run: RunResult) -> list[Table[Step]]:
    """Return the run's steps in two tables, so that neither is too wide to read: rates and
    latencies, then the rest."""
    chosen = run.knee.step if run.knee is not None else None
    latency = [THROUGHPUT, END_TO_END]
    if run.info["confirms"]:
        latency.append(CONFIRM)
    return [
        Table(LIMIT, groups, run.steps, lambda step: step.step == chosen)
        for groups in (latency, [WAITING, BROKER, CLASS])
    ]


def _balance(title: str, part: Callable[[Balance], Imbalance]) -> Group[Step]:
    def ratio(step: Step) -> str:
        return formats.ratio(part(step.imbalance).max_over_mean)

    def variation(step: Step) -> str:
        return formats.variation(part(step.imbalance).cv)

    return Group(title, (Column("max/mean", ratio), Column("cv", variation)))


BALANCE: Final[Sequence[Group[Step]]] = (
    _balance("publishers", lambda balance: balance.publishers),
    _balance("queues", lambda balance: balance.queues),
    _balance("consumers", lambda balance: balance.consumers),
    _balance("queue latency", lambda balance: balance.queue_latency),
    Group(
        "jitter (cv)",
        (
            Column("published", lambda step: formats.variation(step.published_cv)),
            Column("delivered", lambda step: formats.variation(step.delivered_cv)),
            Column("p95 latency", lambda step: formats.variation(step.latency_cv)),
        ),
    ),
)


def balance_table(run: RunResult) -> Table[Step]:
    """Return a table of the imbalance between clients and between queues, and of the jitter between
    seconds, in each step."""
    return Table(LIMIT, BALANCE, run.steps)


def queues_table(run: RunResult) -> Table[int]:
    """Return a table with a row for each queue: its messages and its mean latency, in all and at
    each limit."""
    found = {(one.queue, one.step): one for one in run.queues}

    def mean_at(step: Step) -> Column[int]:
        def cell(queue: int) -> str:
            one = found.get((queue, step.step))
            return formats.duration(None if one is None else one.mean_ms)

        return Column(formats.limit_name(step.in_flight_limit), cell)

    def messages(queue: int) -> str:
        return formats.count(sum(one.messages for one in run.queues if one.queue == queue))

    return Table(
        Column("queue", lambda queue: f"{queue}"),
        [
            Group("", (Column("messages", messages),)),
            Group("Mean end-to-end latency", [mean_at(step) for step in run.steps]),
        ],
        sorted({one.queue for one in run.queues}),
    )


def _mean_rate(run: RunResult, value: Callable[[Step], float]) -> str:
    """Return the mean rate over the measured seconds of all steps."""
    seconds = sum(step.measured_s for step in run.steps)
    total = sum(value(step) * step.measured_s for step in run.steps)
    return formats.rate(total / max(seconds, 1))


def _run_duration(kind: str, percentile: str) -> Callable[[RunResult], str]:
    def cell(run: RunResult) -> str:
        return formats.duration(getattr(getattr(run.latencies, kind), f"{percentile}_ms"))

    return cell


def _classes(run: RunResult) -> Cell:
    found = [step.step_class for step in run.steps]
    return Cell(chips=[class_chip(each, f"{found.count(each)} ") for each in dict.fromkeys(found)])


RUN: Final[Group[RunResult]] = Group(
    "",
    (
        Column("wanted", lambda run: formats.rate(run.target_per_s)),
        Column("published", lambda run: _mean_rate(run, lambda step: step.published_per_s)),
        Column("delivered", lambda run: _mean_rate(run, lambda step: step.delivered_per_s)),
        Column("p50", _run_duration("end_to_end_response", "p50")),
        Column("p99", _run_duration("end_to_end_response", "p99")),
        Column("max", _run_duration("end_to_end_response", "max")),
        Column("p99 from write", _run_duration("end_to_end_service", "p99")),
        Column(
            "recommended limit",
            lambda run: formats.count(run.knee.in_flight_limit if run.knee else None),
        ),
        Column("lost", lambda run: formats.count(run.info["verification"]["lost"])),
        Column("steps", _classes, ColumnKind.TEXT),
    ),
)


def runs_table(runs: Sequence[RunResult]) -> Table[RunResult]:
    """Return a table with a row for each run."""
    return Table(Column("run", lambda run: run.label), [RUN], runs)


def _evidence(claim: ClaimResult) -> Cell:
    return Cell(_sentence(claim.evidence), note=_sentence(claim.elsewhere or claim.others))


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}." if words else ""


CLAIM: Final[Group[ClaimResult]] = Group(
    "",
    (
        Column(
            "the post says",
            lambda claim: formats.unbroken(claim.text),
            ColumnKind.PROSE,
            "the post says",
            3,
        ),
        Column(
            "here", lambda claim: Cell(chips=[OUTCOMES[claim.outcome]]), ColumnKind.TEXT, "here"
        ),
        Column("evidence", _evidence, ColumnKind.PROSE, "evidence", 4),
    ),
)


def claims_table(claims: Sequence[ClaimResult]) -> Table[ClaimResult]:
    """Return a table with a row for each claim."""
    return Table(Column("id", lambda claim: claim.claim, ColumnKind.TEXT, "id"), [CLAIM], claims)


Rule = tuple[str, str, str]

RULE: Final[Group[Rule]] = Group(
    "",
    (
        Column("the post's scale", lambda rule: rule[1], ColumnKind.TEXT),
        Column(
            "when, over its measured seconds; the first that applies",
            lambda rule: rule[2],
            ColumnKind.PROSE,
        ),
    ),
)


def rules_table(rules: Sequence[Rule]) -> Table[Rule]:
    """Return a table of the classes and their definitions."""
    return Table(Column("class", lambda rule: rule[0]), [RULE], rules)
