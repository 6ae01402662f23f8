"""The judges of the post's claims: each looks at one run, or compares several.

Rates are compared with the run's own target, so that a scaled run is judged like the post's.
Latency is end-to-end service latency at p99 unless stated otherwise: the post's clients stamped a
message when they sent it. A claim about trouble "holds" when the trouble is there; otherwise the
outcome is "better".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sluicemq.spark.pipeline.claims import Compare, Judge, Judgement
from sluicemq.spark.pipeline.formats import SPACE, duration, limit, share
from sluicemq.spark.pipeline.results import Outcome, RunResult, Step, StepClass
from sluicemq.spark.pipeline.spread import mean

MET: Final = 0.97
"""The share of the target that counts as reaching it."""

CARRIED: Final = 0.5
"""A run that carries less than this share of its target at every limit tells nothing about
limits."""

ALIKE: Final = 0.05
"""Rates that differ by less than this share count as equal."""

MUCH: Final = 5.0
"""A latency that grew by this factor has shot up."""

SLIGHTLY_UNDER: Final = 0.85
FULL_LIMIT: Final = 100
OVERFULL_LIMIT: Final = 200
EVEN_CV: Final = 0.02
"""A coefficient of variation below this is that of an even rate."""

BEFORE_AND_AFTER: Final = ("rabbitmq-3.8.3", "rabbitmq-3.8.4")
ACCEPTABLE: Final = (3, 4)
"""The grades of the post's scale that are acceptable."""


def decide(holds: bool, better: bool, evidence: str) -> Judgement:
    """Return a finding with this evidence: better when `better` is true, else holds or fails by
    `holds`."""
    outcome = Outcome.BETTER if better else Outcome.HOLDS if holds else Outcome.FAILS
    return Judgement(outcome, evidence)


def p95(step: Step) -> float:
    """Return the step's p95 end-to-end service latency in ms; 0 when nothing was delivered."""
    return step.latencies.end_to_end_service.p95_ms or 0.0


def p99(step: Step) -> float:
    """Return the step's p99 end-to-end service latency in ms; 0 when nothing was delivered."""
    return step.latencies.end_to_end_service.p99_ms or 0.0


def met(step: Step) -> bool:
    """Return whether both the published and the delivered rate reach the target."""
    return step.sustained_per_s >= MET * step.target_per_s


def calm(step: Step) -> bool:
    """Return whether the step has 3 or 4 on the post's scale."""
    return step.scale in ACCEPTABLE


def by_limit(run: RunResult) -> list[Step]:
    """Return the steps with an in-flight limit, smallest limit first; all steps of a run without
    limits."""
    return run.limited_steps or run.steps


def peak(run: RunResult) -> float:
    """Return the best rate that a step sustained, in messages per second."""
    return max(step.sustained_per_s for step in run.steps)


def figures(step: Step) -> str:
    """Return a step's rates, p99 and class as a line of evidence."""
    if step.in_flight_limit is None:
        name = ""
    else:
        name = f"limit {limit(step.in_flight_limit, step.in_flight_percent)}: "
    latency = duration(step.latencies.end_to_end_service.p99_ms)
    return (
        f"{name}{step.published_per_s:,.0f}/s in, {step.delivered_per_s:,.0f}/s out of "
        f"{step.target_per_s:,.0f}/s wanted, p99{SPACE}{latency}, {step.step_class}"
    )


def ends(run: RunResult) -> str:
    """Return the figures of the steps with the smallest and the largest limit as a line of
    evidence."""
    steps = by_limit(run)
    return "; ".join(figures(step) for step in (steps[:1] + steps[1:][-1:]))


def meets_target_under(limit_ms: float) -> Judge:
    """Make a judge of whether every step meets the target, is steady, and has a p99 below
    `limit_ms`; better means below a tenth of that."""

    def judge(run: RunResult) -> Judgement:
        even = all(met(step) and step.step_class is StepClass.STEADY for step in run.steps)
        slowest = max(p99(step) for step in run.steps)
        return decide(even and slowest < limit_ms, even and slowest < limit_ms / 10, ends(run))

    return judge


def limits_alike(run: RunResult) -> Judgement:
    """Judge whether the rate does not depend on the limit, and all steps are acceptable."""
    rates = [step.sustained_per_s for step in run.steps]
    alike = min(rates) >= (1 - ALIKE) * max(rates)
    return decide(
        alike and all(calm(step) for step in run.steps),
        False,
        f"{min(rates):,.0f} to {max(rates):,.0f}/s over {len(rates)} limits; {ends(run)}",
    )


def rises_to_target(run: RunResult) -> Judgement:
    """Judge whether the smallest limit is slightly under the target, the largest meets it, and p99
    rises but stays below 1 s. Better means that all limits meet it below 200 ms."""
    first, last = by_limit(run)[0], by_limit(run)[-1]
    low = first.sustained_per_s >= SLIGHTLY_UNDER * first.target_per_s and p99(first) < 200
    under = all(p99(step) < 1000 for step in run.steps)
    at_once = all(met(step) and p99(step) < 200 for step in run.steps)
    return decide(low and met(last) and under and p99(last) > p99(first), at_once, ends(run))


def runs_away(run: RunResult) -> Judgement:
    """Judge whether the rate stays under the target while more is published than delivered, so that
    queues fill. Better means an acceptable step with a p99 below 1 s."""
    step = run.steps[0]
    fills = step.published_per_s > step.delivered_per_s
    holds = not met(step) and fills and step.step_class is StepClass.BACKLOG_GROWING
    return decide(holds, calm(step) and p99(step) < 1000, figures(step))


def peak_at_once(run: RunResult) -> Judgement:
    """Judge whether the smallest limit carries the peak and p95 shoots up with the limit. Better
    means that p95 does not."""
    first, last = by_limit(run)[0], by_limit(run)[-1]
    at_once = first.sustained_per_s >= (1 - ALIKE) * peak(run)
    shoots = 0 < MUCH * p95(first) < p95(last)
    shown = [duration(step.latencies.end_to_end_service.p95_ms) for step in (first, last)]
    evidence = f"p95 {' to '.join(shown)}; {ends(run)}"
    return decide(at_once and shoots, at_once and not shoots and calm(last), evidence)


def no_back_pressure(run: RunResult) -> Judgement:
    """Judge whether the target is met and no publisher was ever blocked."""
    step = run.steps[0]
    evidence = f"{figures(step)}, publishers blocked {share(step.blocked_share)} of the time"
    return decide(met(step) and step.blocked_share == 0, False, evidence)


def full_limit_reaches_target(run: RunResult) -> Judgement:
    """Judge whether the limit of 100 % of the rate is the smallest that meets the target. Better
    means that a smaller one does."""
    reaching = [step for step in by_limit(run) if met(step)]
    percent = min((step.in_flight_percent or 0 for step in reaching), default=0)
    return decide(percent == FULL_LIMIT, 0 < percent < FULL_LIMIT, ends(run))


def little_jitter(run: RunResult) -> Judgement:
    """Judge whether all steps meet the target, with no more jitter at the largest limit than at the
    smallest. Better means that there is next to none at the smallest, either."""
    first, last = by_limit(run)[0], by_limit(run)[-1]
    jitter = [step.delivered_cv or 0.0 for step in (first, last)]
    all_met = all(met(step) for step in run.steps)
    evidence = f"cv {jitter[0]:.3f} at the smallest limit, {jitter[1]:.3f} at the largest; "
    return decide(
        all_met and jitter[0] >= jitter[1], all_met and jitter[0] < 0.01, evidence + ends(run)
    )


def wild(run: RunResult) -> Judgement:
    """Judge whether throughput swings or collapses, or p99 is over a minute. Better means 3 on the
    post's scale."""
    step = run.steps[0]
    return decide(not calm(step) or p99(step) > 60_000, step.scale == 3, figures(step))


def stable_at_low_limits(run: RunResult) -> Judgement:
    """Judge whether all steps are acceptable, consumers keep up, and the smallest limit is the
    recommended one."""
    steps = by_limit(run)
    keeps_up = all(step.delivered_per_s >= MET * step.published_per_s for step in steps)
    lowest = run.knee is not None and run.knee.in_flight_limit == steps[0].in_flight_limit
    return decide(all(calm(step) for step in steps) and keeps_up and lowest, False, ends(run))


def queues_fill(run: RunResult) -> Judgement:
    """Judge whether publishers reach the target and the backlog grows. Better means that consumers
    reach it, too."""
    step = run.steps[0]
    published = step.published_per_s >= MET * step.target_per_s
    growing = step.step_class is StepClass.BACKLOG_GROWING
    return decide(published and growing, met(step) and not growing, figures(step))


def trouble_above(percent: int) -> Judge:
    """Make a judge of whether all steps are steady below the limit of `percent`, and some are not
    from there on. Better means that all are."""

    def judge(run: RunResult) -> Judgement:
        steps = by_limit(run)
        above = [step for step in steps if (step.in_flight_percent or 0) >= percent]
        below = [step for step in steps if step not in above]
        fine = all(step.step_class is StepClass.STEADY for step in below)
        trouble = any(step.step_class is not StepClass.STEADY for step in above)
        return decide(fine and trouble, fine and bool(above) and not trouble, ends(run))

    return judge


def collapses(run: RunResult) -> Judgement:
    """Judge whether the step is not acceptable. Better means that it is."""
    step = run.steps[0]
    return decide(not calm(step), calm(step), f"{figures(step)}: {step.class_reason}")


def gains_to_the_middle(run: RunResult) -> Judgement:
    """Judge whether throughput rises from the smallest to the middle limit, with trouble from 100 %
    on. Better means no trouble at all."""
    low, middle = by_limit(run)[0], by_limit(run)[len(by_limit(run)) // 2]
    gains = middle.sustained_per_s > (1 + ALIKE) * low.sustained_per_s
    later = trouble_above(FULL_LIMIT)(run)
    return decide(
        gains and later.outcome is Outcome.HOLDS,
        later.outcome is Outcome.BETTER,
        f"{figures(low)}; {figures(middle)}; {figures(by_limit(run)[-1])}",
    )


def counts_follow_limit(run: RunResult) -> Judgement:
    """Judge whether unconfirmed messages reach at least half of what the limit allows at every
    step, and never more than it. Better means fewer at the largest limit, in an acceptable step."""
    publishers = run.info["publishers"]
    rows = [(step, step.unconfirmed_max, (step.in_flight_limit or 0) * publishers)
            for step in by_limit(run)]  # fmt: skip
    follows = all(0.5 * most <= seen <= most for _, seen, most in rows)
    last, seen, most = rows[-1]
    evidence = (
        f"at limit {last.in_flight_limit or 0:,} at most {seen:,} unconfirmed of {most:,} allowed, "
        f"{last.unacked_max:,} unacknowledged"
    )
    return decide(follows, seen < 0.5 * most and calm(last), evidence)


def best_limit_is_small(run: RunResult) -> Judgement:
    """Judge whether the recommended limit lies between 1 % and 10 % of the rate, inclusive."""
    if peak(run) < CARRIED * run.target_per_s:
        carried = f"{peak(run):,.0f}/s of {run.target_per_s:,.0f}/s wanted at the most"
        return Judgement(Outcome.UNTESTED, f"{carried}: too little for a limit to be the best")
    if run.knee is None or run.knee.in_flight_percent is None:
        return Judgement(Outcome.FAILS, f"no knee: {run.no_knee_reason}")
    percent = run.knee.in_flight_percent
    evidence = (
        f"the knee is a limit of {limit(run.knee.in_flight_limit, percent)}: "
        f"{run.knee.sustained_per_s:,.0f}/s of {run.knee.peak_per_s:,.0f}/s"
    )
    return decide(1 <= percent <= 10, False, evidence)


def pick(
    runs: Sequence[RunResult],
    *,
    queue_type: str | None = None,
    confirms: bool | None = None,
    multiple: bool | None = None,
    scenarios: Sequence[int] | None = None,
) -> RunResult | None:
    """Return the first run that matches all arguments; None when there is none. An argument of None
    matches any run."""
    for run in runs:
        info = run.info
        if (
            queue_type in (None, info["queue_type"])
            and confirms in (None, info["confirms"])
            and multiple in (None, info["ack_interval"] > 1)
            and (scenarios is None or info["scenario"] in scenarios)
        ):
            return run
    return None


def multiple_flag(queue_type: str, gains: Callable[[RunResult, RunResult], Judgement]) -> Compare:
    """Make a comparison of a run with single acks against one that acknowledges by multiple, both
    with confirms on that queue type. `gains` decides; the result is None when one of them is
    missing."""

    def compare(runs: Sequence[RunResult]) -> Judgement | None:
        single = pick(runs, queue_type=queue_type, confirms=True, multiple=False)
        several = pick(runs, queue_type=queue_type, confirms=True, multiple=True)
        return gains(single, several) if single and several else None

    return compare


def gap_narrows(single: RunResult, several: RunResult) -> Judgement:
    """Judge whether the gap between publish and consume rate at the largest limit is smaller with
    multiple acks, whichever rate is higher: the consume rate can be, while queues empty that filled
    before. Better means that there is next to none with either."""
    gaps = []
    for run in (single, several):
        last = by_limit(run)[-1]
        gap = abs(last.published_per_s - last.delivered_per_s)
        gaps.append(gap / max(last.published_per_s, last.delivered_per_s, 1))
    evidence = f"gap {share(gaps[0])} with single acks, {share(gaps[1])} with multiple"
    return decide(gaps[1] < gaps[0], max(gaps) < 0.01, evidence)


def carries_more(single: RunResult, several: RunResult) -> Judgement:
    """Judge whether the best rate is higher with multiple acks. Better means that both runs meet
    their targets, so that there is nothing to gain."""
    evidence = (
        f"at best {peak(single):,.0f}/s with single acks, {peak(several):,.0f}/s with multiple"
    )
    met_by_both = all(any(met(step) for step in run.steps) for run in (single, several))
    return decide(peak(several) > peak(single), met_by_both, evidence)


def quorum_beats_mirrored(runs: Sequence[RunResult]) -> Judgement | None:
    """Compare the best rates of quorum and mirrored queues, both with confirms; None when one of
    the runs is missing."""
    quorum = pick(runs, queue_type="quorum", confirms=True)
    mirrored = pick(runs, queue_type="mirrored", confirms=True)
    if quorum is None or mirrored is None:
        return None
    evidence = f"quorum {peak(quorum):,.0f}/s, mirrored {peak(mirrored):,.0f}/s"
    return decide(peak(quorum) > peak(mirrored), False, evidence)


def latency_creeps_up(runs: Sequence[RunResult]) -> Judgement | None:
    """Judge whether, at the largest limit, mirrored queues pass 1 s at p99 and quorum queues stay
    below; None when one of the runs is missing. Better means that both stay below."""
    quorum = pick(runs, queue_type="quorum", confirms=True)
    mirrored = pick(runs, queue_type="mirrored", confirms=True)
    if quorum is None or mirrored is None:
        return None
    most = {run.info["queue_type"]: p99(by_limit(run)[-1]) for run in (quorum, mirrored)}
    evidence = ", ".join(f"{name} {duration(value)}" for name, value in most.items())
    return decide(most["quorum"] < 1000 <= most["mirrored"], max(most.values()) < 1000, evidence)


def few_need_no_confirms(runs: Sequence[RunResult]) -> Judgement | None:
    """Judge whether, without confirms, few publishers are fine and many are not, and confirms help
    the many; None when one of the runs is missing. All runs count, and the worst gives the figures.
    Better means that many are fine without."""
    free = [run for run in runs if not run.info["confirms"]]
    few = [run.steps[0] for run in free if run.info["scenario"] in (1, 2)]
    many = [run.steps[0] for run in free if run.info["scenario"] in (3, 4, 5)]
    many_limited = pick(runs, confirms=True, scenarios=(3, 4, 5))
    if not few or not many or many_limited is None:
        return None
    calm_few, calm_many = all(map(calm, few)), all(map(calm, many))
    helped = any(calm(step) for step in many_limited.steps)
    worst = (min(steps, key=lambda step: (calm(step), step.scale == 3)) for steps in (few, many))
    evidence = "; ".join(
        f"{name}: {figures(step)}" for name, step in zip(("few", "many"), worst, strict=True)
    )
    return decide(calm_few and not calm_many and helped, calm_few and calm_many, evidence)


def fewer_carry_more(runs: Sequence[RunResult]) -> Judgement | None:
    """Judge whether the best rate of scenario 2 is above that of scenario 4 or 5 on the same queue
    type; None when one of the runs is missing."""
    few = pick(runs, scenarios=(2,))
    many = pick(runs, scenarios=(4, 5), queue_type=few.info["queue_type"]) if few else None
    if few is None or many is None:
        return None
    evidence = (
        f"{few.info['publishers']} publishers {peak(few):,.0f}/s, "
        f"{many.info['publishers']} publishers {peak(many):,.0f}/s"
    )
    return decide(peak(few) > peak(many), False, evidence)


def memory_spikes(runs: Sequence[RunResult]) -> Judgement | None:
    """Judge whether quorum queues without x-max-in-memory-length need over 1.5 times the memory;
    None when one of the runs is missing. Better means at most 1.1 times."""
    quorum = [run for run in runs if run.info["queue_type"] == "quorum" and _rss(run)]
    bounded = [run for run in quorum if "x-max-in-memory-length" in run.info["queue_arguments"]]
    unbounded = [run for run in quorum if run not in bounded]
    if not bounded or not unbounded:
        return None
    low, high = _rss(bounded[0]), _rss(unbounded[0])
    evidence = f"{low / 2**20:,.0f} MiB with the argument, {high / 2**20:,.0f} MiB without"
    return decide(high > 1.5 * low, high <= 1.1 * low, evidence)


def by_profile(runs: Sequence[RunResult]) -> tuple[RunResult, RunResult] | None:
    """Return two runs of one scenario with confirms on quorum queues, with the profiles of before
    and after RabbitMQ's steadier logs; None when one of them is missing."""
    quorum = [run for run in runs if run.info["queue_type"] == "quorum" and run.info["confirms"]]
    for before in quorum:
        for after in quorum:
            profiles = (before.info.get("profile"), after.info.get("profile"))
            if profiles == BEFORE_AND_AFTER and before.info["scenario"] == after.info["scenario"]:
                return before, after
    return None


def writer_falls_behind(runs: Sequence[RunResult]) -> Judgement | None:
    """Judge whether the older profile needs over 1.5 times the memory of the newer one, or swings
    where the newer does not; None when one of the runs is missing. Better means that both are
    acceptable at every step, with memory at most 1.1 times that of the newer one."""
    pair = by_profile(runs)
    if pair is None:
        return None
    fine = [all(calm(step) for step in run.steps) for run in pair]
    memory = [_rss(run) for run in pair]
    classes = ["every step acceptable" if each else "swings or collapses" for each in fine]
    evidence = "; ".join(
        f"{run.info.get('profile')} {size / 2**20:,.0f} MiB at most, {words}"
        for run, size, words in zip(pair, memory, classes, strict=True)
    )
    holds = memory[0] > 1.5 * memory[1] or (fine[1] and not fine[0])
    return decide(holds, all(fine) and memory[0] <= 1.1 * memory[1], evidence)


def smaller_batches_are_steadier(runs: Sequence[RunResult]) -> Judgement | None:
    """Judge whether deliveries vary less with the newer profile, on the mean of all steps; None
    when one of the runs is missing. Better means that there is next to no variation with either."""
    pair = by_profile(runs)
    if pair is None:
        return None
    before, after = (mean([step.delivered_cv or 0.0 for step in run.steps]) for run in pair)
    evidence = f"cv of deliveries {before:.3f} with rabbitmq-3.8.3, {after:.3f} with rabbitmq-3.8.4"
    return decide(after < before, max(before, after) < EVEN_CV, evidence)


def _rss(run: RunResult) -> int:
    return max((step.broker_rss_max_bytes or 0 for step in run.steps), default=0)
