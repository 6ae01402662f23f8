"""Describes the results of a whole post in words, for its page and for the documents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sluicemq.lab.scenarios import SCENARIOS
from sluicemq.spark.pipeline import formats
from sluicemq.spark.pipeline.post_results import GOAL, Post, PostBroker, key_of
from sluicemq.spark.pipeline.results import ClaimResult, Outcome, RunResult, Step

BUDGET: Final = (
    "publishers share one budget for the whole node, and what queues do not get rid of is not let "
    "in; RabbitMQ grants each publisher 400 messages by itself"
)
ENTRIES: Final = (
    "an entry of a queue's log carries what many publishers have sent meanwhile, and is confirmed "
    "as one, so that a small limit already carries much"
)
CREDIT: Final = (
    "a queue that cannot keep up holds up its publishers, and no others, before messages wait in it"
)

REASONS: Final = {
    "1.a": ENTRIES,
    "1.c": ENTRIES,
    "1.d": ENTRIES,
    "2.a": BUDGET,
    "2.b": CREDIT,
    "2.c": BUDGET,
    "2.e": ENTRIES,
    "3.a": ENTRIES,
    "3.b": CREDIT,
    "4.a": BUDGET,
    "4.c": BUDGET,
    "4.d": CREDIT,
    "5.a": BUDGET,
    "5.b": CREDIT,
    "5.c": CREDIT,
    "5.d": "confirms come before publishers have used their limit up",
    "5.e": "bodies of all queues are in one cache with one bound, whatever a queue's argument says",
    "6.a": "segments are written from one journal, where a message that has left its queue is not "
    "written any more",
    "6.b": "appends of all groups share one sync, whatever one batch may have",
    "7.b": BUDGET,
}
"""Why a claim about trouble does not hold for SluiceMQ, by the claim's id, where the runs show
that."""


VERBS: Final = {
    Outcome.HOLDS: ("holds", "hold"),
    Outcome.BETTER: ("is better", "are better"),
    Outcome.FAILS: ("does not hold", "do not hold"),
    Outcome.UNTESTED: ("was not tested", "were not tested"),
}
"""What is said of one claim with an outcome, and of several."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A part of the post: its claims begin with `number`; `scenario` is None where they are about
    several scenarios."""

    number: int
    title: str
    text: str


def chapters(post: Post) -> list[Chapter]:
    """Return the parts of the post, in its order."""
    info = post.any_info
    made = []
    for scenario in SCENARIOS:
        rate = formats.rate(scenario.publishers * scenario.rate * info["scale"])
        made.append(
            Chapter(
                scenario.number,
                f"Scenario {scenario.number}: {scenario.name.replace('-', ' ')}",
                f"{scenario.publishers:,} publishers, {scenario.queues:,} queues, "
                f"{scenario.consumers:,} consumers; {rate} wanted, of the post's "
                f"{formats.rate(scenario.publishers * scenario.rate)}.",
            )
        )
    made.append(
        Chapter(
            6,
            "Before and after 3.8.4",
            "One thing changed at a time: scenario 5 on quorum queues, with RabbitMQ's older and "
            "newer numbers for logs.",
        )
    )
    made.append(Chapter(7, "Across the scenarios", "What the post concluded from all of them."))
    return made


def claims_of(broker: PostBroker, chapter: Chapter) -> list[ClaimResult]:
    """Return the broker's claims of one part of the post."""
    return [each for each in broker.claims if each.claim.startswith(f"{chapter.number}.")]


def other_evidence(post: Post, chapter: Chapter) -> list[str]:
    """Return a sentence for each fitting run of a claim of this part whose evidence is more
    favourable than the one that counts."""
    return [
        f"{claim.claim}, {broker.name}, {evidence}."
        for broker in post.brokers
        for claim in claims_of(broker, chapter)
        for evidence in re.split("; (?=scenario )", claim.others)
        if evidence
    ]


def about(post: Post) -> str:
    """Return a sentence about the machine and settings of the post."""
    info, brokers = post.any_info, post.brokers
    machine = info["machine"]
    nodes = len(info["target"])
    first, last = (
        pick(run.info["started_at"] for broker in brokers for run in broker.runs)
        for pick in (min, max)
    )
    seconds = min(step.end_s - step.start_s for run in brokers[0].runs for step in run.steps)
    return (
        f"{' and '.join(broker.name for broker in brokers)}, each with {nodes} node"
        f"{'s' * (nodes != 1)} on one machine of {machine['cores']} cores and "
        f"{formats.gibibytes(machine['ram'])} of memory, shared with the load; rates scaled by "
        f"{info['scale']:g}, steps of {seconds:g} s. Run from "
        f"{first[:16].replace('T', ' ')} to {last[:16].replace('T', ' ')} UTC."
    )


def verdicts(broker: PostBroker) -> str:
    """Return how many claims hold, are better, do not hold or are not tested, in words."""
    of_all = f"of the post's {len(broker.claims)} claims"
    parts: list[str] = []
    for outcome, (one, several) in VERBS.items():
        count = broker.count(outcome)
        if count:
            subject = f"{count} {of_all}" if not parts else f"{count}"
            parts.append(f"{subject} {one if count == 1 else several}")
    return f"{broker.name}: {formats.listed(parts)}."


def goal(broker: PostBroker) -> str:
    """Return in how many runs every step has the wanted class; for SluiceMQ, whose goal it is, also
    the classes in the other runs, by scenario."""
    missed = [run for run in broker.usual_runs if any(step.scale != GOAL for step in run.steps)]
    met = len(broker.usual_runs) - len(missed)
    text = f"{broker.name}: class {GOAL} at every step in {met} of {len(broker.usual_runs)} runs"
    if not missed or not broker.is_ours:
        return f"{text}."
    scenarios = dict.fromkeys(run.info["scenario"] for run in missed)
    others = "; ".join(
        f"scenario {number}: {scales([x for x in missed if x.info['scenario'] == number])}"
        for number in scenarios
    )
    return f"{text}. The steps of the others, {others}."


def missed_steps(broker: PostBroker) -> list[tuple[RunResult, Step]]:
    """Return the steps of the post's own runs that do not have the wanted class; none for other
    brokers than SluiceMQ, whose goal it is."""
    runs = broker.usual_runs if broker.is_ours else []
    return [(run, step) for run in runs for step in run.steps if step.scale != GOAL]


def scales(runs: Sequence[RunResult]) -> str:
    """Return how many steps of these runs have which class on the post's scale."""
    found = Counter(step.scale for run in runs for step in run.steps)
    return ", ".join(f"{count} of class {scale}" for scale, count in sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Advantage:
    """A claim about trouble that does not occur, with the figures, and why."""

    claim: ClaimResult
    why: str


def advantages(post: Post) -> list[Advantage]:
    """Return where SluiceMQ is better than the post, as far as the reason is known."""
    return [
        Advantage(claim, REASONS[claim.claim])
        for broker in post.brokers
        if broker.is_ours
        for claim in broker.claims
        if claim.outcome is Outcome.BETTER and claim.claim in REASONS
    ]


def faults(broker: PostBroker) -> list[str]:
    """Return a sentence for each run that ended early, or whose verification found something."""
    found = []
    for run in broker.runs:
        counts = run.info["verification"]
        wrong = {
            "lost": counts["lost"],
            "doubled": counts["duplicates"],
            "out of order": counts["out_of_order"],
            "foreign": counts["foreign"],
        }
        words = [f"{count:,} {name}" for name, count in wrong.items() if count]
        if run.info["stopped"]:
            words.append(f"it ended early: {run.info['stopped']}")
        if words:
            found.append(f"{broker.name}, {run.label}: {'; '.join(words)}.")
    return found


def runs_of(post: Post, scenario: int) -> Sequence[RunResult]:
    """Return all brokers' usual runs of a scenario with confirms and single acks."""
    return [
        run
        for broker in post.brokers
        for run in broker.usual_runs
        if key_of(run.info)[::2] == (scenario, "confirms")
    ]
