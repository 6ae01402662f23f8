"""The page about a whole post: the verdicts on its claims, broker beside broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sluicemq import __version__
from sluicemq.spark.pipeline import formats, post_story
from sluicemq.spark.pipeline.classify import RULES
from sluicemq.spark.pipeline.display_table import Cell, Chip, Column, ColumnKind, Group, Table, Tone
from sluicemq.spark.pipeline.drawing import COLOURS
from sluicemq.spark.pipeline.limit_plots import over_limit
from sluicemq.spark.pipeline.page_figure import PageFigure, run_legend
from sluicemq.spark.pipeline.post_results import Post, PostBroker, RunKey
from sluicemq.spark.pipeline.report import TEMPLATES
from sluicemq.spark.pipeline.report_tables import OUTCOMES, rules_table
from sluicemq.spark.pipeline.results import ClaimResult, RunResult, Step

SCALE_TONES: Final = {1: Tone.BAD, 2: Tone.BAD, 3: Tone.GOOD, 4: Tone.FAIR}
"""The tone of each class of the post's scale."""

MissedStep = tuple[RunResult, Step]
"""A step without the wanted class, and its run."""

Verdicts = Sequence[ClaimResult]
"""The results of each broker's runs for one claim."""

Figure = Callable[[RunResult], str | Cell]


@dataclass(frozen=True, slots=True)
class ChapterSection:
    """The content of the page for one part of the post. `picture` is None when there is nothing to
    show, `runs` when the part has no runs of its own."""

    chapter: post_story.Chapter
    picture: PageFigure | None
    runs: Table[RunKey] | None
    claims: Table[Verdicts]
    others: Sequence[str]
    """The evidence of other runs that fit a claim: a sentence for each broker's claim that has
    some."""


def render(post: Post) -> str:
    """Return the page as the text of an HTML file that needs nothing else."""
    return TEMPLATES.get_template("post.html").render(
        title="Quorum queues, mirrored queues and flow control: the post, run again",
        colours=COLOURS,
        about=post_story.about(post),
        verdicts=[post_story.verdicts(broker) for broker in post.brokers],
        goals=[post_story.goal(broker) for broker in post.brokers],
        faults=[text for broker in post.brokers for text in post_story.faults(broker)],
        sections=[_section(post, chapter) for chapter in post_story.chapters(post)],
        advantages=post_story.advantages(post),
        missed=missed_table(post),
        rules=rules_table(RULES),
        version=__version__,
    )


def _section(post: Post, chapter: post_story.Chapter) -> ChapterSection:
    keys = [key for key in post.keys if key[0] == chapter.number]
    return ChapterSection(
        chapter,
        _picture(post, chapter.number),
        runs_table(post.brokers, keys) if keys else None,
        claims_table(post.brokers, chapter),
        post_story.other_evidence(post, chapter),
    )


def _picture(post: Post, scenario: int) -> PageFigure | None:
    runs = [
        replace(run, label=f"{run.info['product']}, {run.info['queue_type']}", knee=None)
        for run in post_story.runs_of(post, scenario)
    ]
    if not runs:
        return None
    about = f"Sustained throughput and p99 latency by limit, scenario {scenario}"
    return PageFigure(
        "What each in-flight limit buys,",
        "with confirms. First what went in and came out again, then what 99\u00a0% of the messages "
        "took from the write to the delivery.",
        over_limit(runs, about),
        legend=run_legend(runs),
    )


def runs_table(brokers: Sequence[PostBroker], keys: Sequence[RunKey]) -> Table[RunKey]:
    """Return a table with a row for each type of queues and mode, and the brokers beside one
    another."""
    name: Column[RunKey] = Column("queues", lambda key: f"{key[1]}, {key[2]}", ColumnKind.TEXT)
    return Table(name, [_figures_of(broker) for broker in brokers], keys)


def _figures_of(broker: PostBroker) -> Group[RunKey]:
    def of_run(figure: Figure) -> Callable[[RunKey], str | Cell]:
        def cell(key: RunKey) -> str | Cell:
            run = broker.run_of(key)
            return formats.NOTHING if run is None or not run.steps else figure(run)

        return cell

    return Group(
        broker.name,
        (
            Column("class", of_run(_classes), ColumnKind.TEXT),
            Column("carried, of wanted", of_run(_carried)),
            Column("p99 from write", of_run(_p99_range)),
            Column("CPU a message", of_run(_cpu)),
            Column("RSS max", of_run(_memory)),
        ),
    )


def _classes(run: RunResult) -> Cell:
    """Return how many steps have which class on the post's scale."""
    found = Counter(step.scale for step in run.steps)
    return Cell(
        chips=[
            Chip(SCALE_TONES[scale], f"{scale} × {count}") for scale, count in sorted(found.items())
        ]
    )


def _best(run: RunResult) -> Step:
    return max(run.steps, key=lambda step: step.sustained_per_s)


def _carried(run: RunResult) -> str:
    return _carried_in(_best(run))


def _carried_in(step: Step) -> str:
    share = formats.share(step.sustained_per_s / step.target_per_s)
    return f"{formats.rate(step.sustained_per_s)}, {share}"


def _p99_range(run: RunResult) -> str:
    """Return the p99 of the smallest and of the largest limit."""
    steps = run.limited_steps or run.steps
    ends = [formats.duration(x.latencies.end_to_end_service.p99_ms) for x in (steps[0], steps[-1])]
    return " to ".join(dict.fromkeys(ends))


def _cpu(run: RunResult) -> str:
    return formats.microseconds(_best(run).broker_cpu_us_per_message)


def _memory(run: RunResult) -> str:
    known = [step.broker_rss_max_bytes for step in run.steps if step.broker_rss_max_bytes]
    return formats.mebibytes(max(known, default=None))


def _limit_of(row: MissedStep) -> str:
    _, step = row
    return formats.limit(step.in_flight_limit, step.in_flight_percent)


def _class_and_why(row: MissedStep) -> Cell:
    _, step = row
    return Cell(
        chips=[Chip(SCALE_TONES[step.scale], f"{step.scale} {step.step_class}")],
        note=step.class_reason,
    )


def _unconfirmed(row: MissedStep) -> str:
    """Return the most messages under way, with their share of what the limit allows."""
    run, step = row
    if step.in_flight_limit is None:
        return formats.NOTHING
    allowed = step.in_flight_limit * run.info["publishers"]
    share = formats.share(step.unconfirmed_max / allowed)
    return f"{formats.count(step.unconfirmed_max)}, {share}"


def _wait_by_limit(row: MissedStep) -> str:
    """Return for how long messages have to be under way, on the mean, at the rate of the confirms
    and with as many of them under way as there were."""
    _, step = row
    if step.in_flight_limit is None or not step.confirmed_per_s:
        return formats.NOTHING
    return formats.duration(step.unconfirmed_max / step.confirmed_per_s * 1000)


MISSED: Final[Group[MissedStep]] = Group(
    "",
    (
        Column("limit", _limit_of, ColumnKind.TEXT),
        Column("class", _class_and_why, ColumnKind.CLASS),
        Column("carried, of wanted", lambda row: _carried_in(row[1])),
        Column("unconfirmed", _unconfirmed),
        Column("wait by the limit", _wait_by_limit),
    ),
)


def missed_table(post: Post) -> Table[MissedStep] | None:
    """Return a table of the steps of SluiceMQ's runs that are not class 3, with the rule that they
    break; None when there is none."""
    rows = [each for broker in post.brokers for each in post_story.missed_steps(broker)]
    name: Column[MissedStep] = Column("run", lambda row: row[0].label, ColumnKind.TEXT)
    return Table(name, [MISSED], rows) if rows else None


def claims_table(brokers: Sequence[PostBroker], chapter: post_story.Chapter) -> Table[Verdicts]:
    """Return a table with a row for each claim of one part of the post, and the brokers' verdicts
    beside one another."""

    def verdict(position: int) -> Callable[[Verdicts], Cell]:
        return lambda claims: _verdict(claims[position], chapter)

    rows = [*zip(*(post_story.claims_of(broker, chapter) for broker in brokers), strict=True)]
    columns: list[Column[Verdicts]] = [
        Column("the post says", lambda x: formats.unbroken(x[0].text), ColumnKind.PROSE),
        *(
            Column(broker.name, verdict(position), ColumnKind.PROSE)
            for position, broker in enumerate(brokers)
        ),
    ]
    if any(verdicts[0].machine for verdicts in rows):
        columns.append(Column("on the post's machine", lambda x: x[0].machine, ColumnKind.PROSE))
    name: Column[Verdicts] = Column("id", lambda x: x[0].claim, ColumnKind.TEXT)
    return Table(name, [Group("", columns)], rows)


def _verdict(claim: ClaimResult, chapter: post_story.Chapter) -> Cell:
    """Return the outcome and its evidence, without the number of the chapter's own scenario."""
    evidence = claim.evidence.replace(f"scenario {chapter.number}, ", "")
    note = f"{claim.elsewhere}." if claim.elsewhere else ""
    return Cell(f"{evidence}.", chips=[OUTCOMES[claim.outcome]], note=note)
