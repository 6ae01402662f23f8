"""The claims of RabbitMQ's post on quorum queues and flow control (May 2020), as one table."""

from __future__ import annotations

from typing import Final

from sluicemq.spark.pipeline import judges
from sluicemq.spark.pipeline.claims import Claim

FEW: Final = (1, 2)
ALL: Final = (1, 2, 3, 4, 5)

PROFILED: Final = (
    "two runs of one scenario with confirms on quorum queues that differ in the profile, "
    "rabbitmq-3.8.3 and rabbitmq-3.8.4 (--cluster --profile); of RabbitMQ these are versions"
)

CLAIMS: Final = (
    Claim(
        id="1.a",
        text="Mirrored, no confirms: the target is met smoothly, latency below 1 s",
        scenarios=(1,),
        queue_type="mirrored",
        confirms=False,
        judge=judges.meets_target_under(1000),
    ),
    Claim(
        id="1.b",
        text="Mirrored, confirms: every in-flight limit behaves alike",
        scenarios=(1,),
        queue_type="mirrored",
        confirms=True,
        judge=judges.limits_alike,
    ),
    Claim(
        id="1.c",
        text="Quorum, no confirms: the target is met, latency below 1 s",
        scenarios=(1,),
        queue_type="quorum",
        confirms=False,
        judge=judges.meets_target_under(1000),
    ),
    Claim(
        id="1.d",
        text="Quorum, confirms: slightly under the target below 200 ms at the lowest limit; higher "
        "limits reach it, latency rises but stays below 1 s",
        scenarios=(1,),
        queue_type="quorum",
        confirms=True,
        judge=judges.rises_to_target,
    ),
    Claim(
        id="2.a",
        text="Mirrored, no confirms: both rates settle under the target, queues fill, latency runs "
        "away",
        scenarios=(2,),
        queue_type="mirrored",
        confirms=False,
        judge=judges.runs_away,
    ),
    Claim(
        id="2.b",
        text="Mirrored, confirms: the lowest limit already carries the peak; p95 shoots up as the "
        "limit grows",
        scenarios=(2,),
        queue_type="mirrored",
        confirms=True,
        judge=judges.peak_at_once,
    ),
    Claim(
        id="2.c",
        text="The multiple flag narrows the gap between publish and consume rate a little at the "
        "high limit",
        scenarios=(2,),
        compare=judges.multiple_flag("mirrored", judges.gap_narrows),
        needs="two runs of scenario 2 with confirms on mirrored queues: single acks, multiple",
    ),
    Claim(
        id="2.d",
        text="Quorum, no confirms: the target is reached, no back pressure needed",
        scenarios=(2,),
        queue_type="quorum",
        confirms=False,
        judge=judges.no_back_pressure,
        machine="the post's cluster carried 40,000/s on 48 cores",
    ),
    Claim(
        id="2.e",
        text="Quorum, confirms: the target is reached at the 100 % limit; the multiple flag helps "
        "mildly",
        scenarios=(2,),
        queue_type="quorum",
        confirms=True,
        judge=judges.full_limit_reaches_target,
        also=judges.multiple_flag("quorum", judges.carries_more),
    ),
    Claim(
        id="3.a",
        text="All variants meet the target; a low limit shows a little jitter that goes away at "
        "higher limits",
        scenarios=(3,),
        confirms=True,
        judge=judges.little_jitter,
    ),
    Claim(
        id="3.b",
        text="Latency creeps up with the limit; mirrored passes 1 s, quorum stays below",
        scenarios=(3,),
        compare=judges.latency_creeps_up,
        needs="runs of scenario 3 with confirms on mirrored and on quorum queues",
    ),
    Claim(
        id="4.a",
        text="Mirrored, no confirms: the rate is wild, latency 1 to 3 min",
        scenarios=(4,),
        queue_type="mirrored",
        confirms=False,
        judge=judges.wild,
    ),
    Claim(
        id="4.b",
        text="Mirrored, confirms: stable, consumers keep up; the lowest limit is best; the "
        "multiple flag carries more",
        scenarios=(4,),
        queue_type="mirrored",
        confirms=True,
        judge=judges.stable_at_low_limits,
        also=judges.multiple_flag("mirrored", judges.carries_more),
        machine="the post's flag added up to 5,000/s",
    ),
    Claim(
        id="4.c",
        text="Quorum, no confirms: publishers meet the target, queues fill",
        scenarios=(4,),
        queue_type="quorum",
        confirms=False,
        judge=judges.queues_fill,
        machine="the post's publishers met 30,000/s on 48 cores",
    ),
    Claim(
        id="4.d",
        text="Quorum, confirms: fine up to 100 %; at 200 % more is published than consumed",
        scenarios=(4,),
        queue_type="quorum",
        confirms=True,
        judge=judges.trouble_above(judges.OVERFULL_LIMIT),
    ),
    Claim(
        id="5.a",
        text="No confirms: rates rise towards the target, then collapse (initial credit of each of "
        "1000 publishers is buffered before TCP back pressure bites)",
        scenarios=(5,),
        confirms=False,
        judge=judges.collapses,
        machine="in the post 400,000 messages were in readers alone",
    ),
    Claim(
        id="5.b",
        text="Mirrored, confirms: throttled well; 200 % is too much",
        scenarios=(5,),
        queue_type="mirrored",
        confirms=True,
        judge=judges.trouble_above(judges.OVERFULL_LIMIT),
        machine="the post's latency stayed below 25 s with the multiple flag",
    ),
    Claim(
        id="5.c",
        text="Quorum, confirms: gains from low to middle limits, trouble from 100 %",
        scenarios=(5,),
        queue_type="quorum",
        confirms=True,
        judge=judges.gains_to_the_middle,
        machine="the post's cluster carried 35,000/s with the multiple flag",
    ),
    Claim(
        id="5.d",
        text="Unconfirmed and unacknowledged counts follow the limit",
        scenarios=(5,),
        confirms=True,
        judge=judges.counts_follow_limit,
        machine="in the post up to 100,000 were unconfirmed, and as many unacknowledged",
    ),
    Claim(
        id="5.e",
        text="Without a low x-max-in-memory-length memory would spike and alarms toggle",
        scenarios=(5,),
        compare=judges.memory_spikes,
        needs="two runs of scenario 5 on quorum queues, with and without x-max-in-memory-length, "
        "and the broker's pid",
        machine="the post's nodes had memory for many seconds of 100,000/s",
    ),
    Claim(
        id="6.a",
        text="A single segment writer falls behind under many queues (3.8.3); parallel segment "
        "writing removes it",
        scenarios=(5,),
        compare=judges.writer_falls_behind,
        needs=PROFILED,
        of_profiles=True,
        machine="the post's publishers stopped at the alarm, and consumers drained at up to "
        "90,000/s, again and again",
    ),
    Claim(
        id="6.b",
        text="Smaller defaults (command window 32, WAL batch 4096) give steadier throughput",
        scenarios=ALL,
        compare=judges.smaller_batches_are_steadier,
        needs=PROFILED,
        of_profiles=True,
    ),
    Claim(
        id="7.a",
        text="Quorum beats mirrored at 1 to 2 queues per core; they converge with many",
        scenarios=FEW,
        compare=judges.quorum_beats_mirrored,
        needs="runs of scenario 1 or 2 with confirms on quorum and on mirrored queues",
        machine="the post had 10 queues for 48 cores; one or two a core are fewer on a small "
        "machine",
    ),
    Claim(
        id="7.b",
        text="Few publishers and queues: TCP back pressure is enough; many need confirms with an "
        "in-flight limit",
        scenarios=ALL,
        compare=judges.few_need_no_confirms,
        needs="runs without confirms of scenario 1 or 2 and of 3, 4 or 5, and one of those with",
    ),
    Claim(
        id="7.c",
        text="The best in-flight limit lies between 1 % and 10 % of the target rate",
        scenarios=ALL,
        confirms=True,
        judge=judges.best_limit_is_small,
    ),
    Claim(
        id="7.d",
        text="Fewer clients and queues give a higher total",
        scenarios=(2, 4, 5),
        compare=judges.fewer_carry_more,
        needs="runs of scenario 2 and of 4 or 5 on the same queue type",
    ),
)
