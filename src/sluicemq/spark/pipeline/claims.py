"""Judges the post's claims by the given runs: finds the runs that each needs, and what they show.

A claim names its scenarios, queue type and mode. With a fitting run it is judged, from that run
alone or by comparing several. Without one it is "not tested": then the evidence names what is
missing, and how a run of the same mode on another queue type would have been judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sluicemq.spark.pipeline.results import ClaimResult, Outcome, RunResult


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's result: the outcome, and the figures for it in words."""

    outcome: Outcome
    evidence: str
    others: str = ""
    """The evidence of other fitting runs that is more favourable."""


USUAL_PROFILE: Final = "adaptive"

Judge = Callable[[RunResult], Judgement]
"""Judges a claim from one run that has at least one step."""

Compare = Callable[[Sequence[RunResult]], Judgement | None]
"""Judges a claim from all runs of its scenarios; returns None when required runs are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim of the post, the runs it is about, and the judge or comparison that decides on
    it."""

    id: str
    text: str
    scenarios: tuple[int, ...]
    queue_type: str | None = None
    """The queue type the claim is about; None: any."""
    confirms: bool | None = None
    judge: Judge | None = None
    compare: Compare | None = None
    also: Compare | None = None
    """The other half of a claim with two, which compares runs: the claim is as good as the less
    favourable half. Without the runs that it requires, the first half decides."""
    needs: str = ""
    """The runs that `compare` requires."""
    of_profiles: bool = False
    """Whether it is about flow profiles. Other claims are judged by runs with the usual one, if
    any."""
    machine: str = ""
    """How the post's larger cluster matters for it; empty: it does not."""


def evaluate(claims: Sequence[Claim], runs: Sequence[RunResult]) -> list[ClaimResult]:
    """Judge every claim by the runs; returns the results in the claims' order."""
    return [judge(claim, runs) for claim in claims]


def judge(claim: Claim, runs: Sequence[RunResult]) -> ClaimResult:
    """Judge one claim by all runs. Without a fitting run it is not tested, and the evidence names
    what is missing."""
    family = [run for run in runs if run.info["scenario"] in claim.scenarios and run.steps]
    if not claim.of_profiles:
        family = [run for run in family if is_usual(run)] or family
    same_mode = [run for run in family if claim.confirms in (None, run.info["confirms"])]
    fitting = [run for run in same_mode if claim.queue_type in (None, run.info["queue_type"])]
    found: Judgement | None = None
    elsewhere = ""
    if claim.compare is not None:
        found = claim.compare(family)
    elif claim.judge is not None and fitting:
        found = _worst([_judged(claim.judge, run, len(runs) > 1) for run in fitting])
    elif claim.judge is not None and same_mode:
        elsewhere = _elsewhere(_judged(claim.judge, same_mode[0], len(runs) > 1), same_mode[0])
    if found is not None and claim.also is not None:
        found = _both(found, claim.also(family))
    if found is None:
        needs = f"needs {claim.needs or _needed_run(claim)}"
        return ClaimResult(claim.id, claim.text, Outcome.UNTESTED, needs, elsewhere, claim.machine)
    return ClaimResult(
        claim.id, claim.text, found.outcome, found.evidence, "", claim.machine, found.others
    )


def is_usual(run: RunResult) -> bool:
    """Return whether the run's broker had its default flow profile."""
    return run.info.get("profile") in (None, USUAL_PROFILE)


def _judged(judge_run: Judge, run: RunResult, named: bool) -> Judgement:
    finding = judge_run(run)
    return Judgement(
        finding.outcome, f"{run.label}: {finding.evidence}" if named else finding.evidence
    )


LEAST_FAVOURABLE_FIRST: Final = (Outcome.FAILS, Outcome.HOLDS, Outcome.BETTER, Outcome.UNTESTED)


def _both(first: Judgement, second: Judgement | None) -> Judgement:
    """Return the finding about a claim from those about its halves; the second may be missing."""
    if second is None:
        return first
    outcome = min(first.outcome, second.outcome, key=LEAST_FAVOURABLE_FIRST.index)
    return Judgement(outcome, f"{first.evidence}; {second.evidence}", first.others)


def _worst(findings: Sequence[Judgement]) -> Judgement:
    """Return the least favourable of the findings of several fitting runs, with its evidence."""
    worst = min(findings, key=lambda finding: LEAST_FAVOURABLE_FIRST.index(finding.outcome))
    others = [finding.evidence for finding in findings if finding is not worst]
    return Judgement(worst.outcome, worst.evidence, "; ".join(others))


def _elsewhere(found: Judgement, run: RunResult) -> str:
    would = {
        Outcome.FAILS: "would not hold",
        Outcome.HOLDS: "would hold",
        Outcome.BETTER: "would be better",
    }[found.outcome]
    return f"On {run.info['queue_type']} queues it {would}: {found.evidence}"


def _needed_run(claim: Claim) -> str:
    numbers = [str(number) for number in claim.scenarios]
    scenarios = numbers[0] if len(numbers) == 1 else f"{', '.join(numbers[:-1])} or {numbers[-1]}"
    mode = {True: " with confirms", False: " without confirms", None: ""}[claim.confirms]
    queues = f" on {claim.queue_type} queues" if claim.queue_type else ""
    return f"a run of scenario {scenarios}{mode}{queues}"
