"""Seconds and steps put together from small tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.lab.measurements import NODES, StepInfo
from sluicemq.spark.pipeline.tables import (
    SmallTables,
    cross_check,
    make_node_seconds,
    make_seconds,
    make_steps,
    measured_range,
    step_of_second,
)

from .records import make_info

NS = 1_000_000_000


def step_info(start_s: float, end_s: float, warm_s: float, number: int = 0) -> StepInfo:
    """A step between two times."""
    return StepInfo(
        step=number,
        in_flight_limit=10,
        in_flight_percent=1,
        start_ns=round(start_s * NS),
        end_ns=round(end_s * NS),
        warm_ns=round(warm_s * NS),
        intended=0,
        abandoned=0,
    )


def counter_row(second: int, **values: int) -> dict[str, Any]:
    """One second, all workers together."""
    nothing = dict.fromkeys(
        (
            *("intended", "written", "confirmed", "delivered", "acked"),
            *("unconfirmed", "unacked", "blocked_ns"),
        ),
        0,
    )
    return {"second": second, **nothing, **values}


def small_tables(rows: list[dict[str, Any]], **others: Any) -> SmallTables:
    """Counters alone."""
    empty: dict[str, Any] = {"latencies": {}, "shares": [], "broker": {}}
    return SmallTables(counters=list(rows), **{**empty, **others})


def share_row(kind: str, by_client: int, messages: int, **others: Any) -> dict[str, Any]:
    """What a client or a queue had."""
    return {"kind": kind, "by_client": by_client, "messages": messages, **others}


def test_measured_seconds_lie_after_the_warm_up_and_within_the_step() -> None:
    assert measured_range(step_info(10, 20, 12)) == (range(12, 20), False)
    assert measured_range(step_info(10.5, 20.5, 12.2)) == (range(13, 20), False)


def test_a_step_of_one_second_is_taken_whole() -> None:
    assert measured_range(step_info(3, 4, 3.2)) == (range(3, 4), True)
    assert measured_range(step_info(3.3, 4.3, 3.5)) == (range(3, 4), True)


@given(st.lists(st.integers(min_value=600, max_value=9000), min_size=1, max_size=8), st.data())
def test_every_step_has_seconds_and_none_has_anothers(lengths: list[int], data: Any) -> None:
    start = 0
    seen: set[int] = set()
    for number, length in enumerate(lengths):
        warm = data.draw(st.integers(min_value=0, max_value=length))
        step = step_info(start / 1000, (start + length) / 1000, (start + warm) / 1000, number)
        seconds, _ = measured_range(step)
        if length >= 1000:
            assert seconds
        assert not seen.intersection(seconds)
        seen.update(seconds)
        start += length


def test_a_second_belongs_to_the_step_its_middle_lies_in() -> None:
    steps = [step_info(0, 1.6, 0, 0), step_info(1.6, 3, 1.6, 1)]
    assert [step_of_second(second, steps) for second in range(4)] == [0, 0, 1, None]


def test_backlog_is_what_was_written_and_not_delivered_so_far() -> None:
    rows = [counter_row(0, written=10, delivered=4), counter_row(1, written=10, delivered=12)]
    seconds = make_seconds(make_info(steps=[step_info(0, 2, 0)]), small_tables(rows))
    assert [second.backlog for second in seconds] == [6, 4]


def test_a_missing_second_is_filled_with_nothing() -> None:
    rows = [counter_row(0, written=5), counter_row(2, delivered=5)]
    seconds = make_seconds(make_info(steps=[step_info(0, 3, 0)]), small_tables(rows))
    assert [second.published_per_s for second in seconds] == [5, 0, 0]
    assert [second.backlog for second in seconds] == [5, 5, 0]


def test_cpu_is_the_difference_of_the_brokers_clock() -> None:
    broker = {
        0: {"second": 0, "cpu_ns": NS, "rss_bytes": 7, "messages_ready": 1},
        1: {"second": 1, "cpu_ns": 3 * NS // 2, "rss_bytes": None, "messages_ready": 0},
    }
    rows = [counter_row(second, delivered=1000) for second in range(3)]
    info = make_info(steps=[step_info(0, 3, 0)])
    tables = small_tables(rows, broker=broker)
    seconds = make_seconds(info, tables)
    assert [second.broker_cpu_cores for second in seconds] == [None, 0.5, None]
    assert [second.messages_ready for second in seconds] == [1, 0, None]
    assert make_steps(info, tables, seconds)[0].broker_cpu_us_per_message == 500


def test_blocked_time_is_a_share_of_all_publishers_time() -> None:
    rows = [counter_row(0, blocked_ns=5 * NS)]
    seconds = make_seconds(make_info(steps=[step_info(0, 1, 0)]), small_tables(rows))
    assert seconds[0].blocked_share == 0.25


def test_a_run_without_counters_has_no_seconds_and_collapsed_steps() -> None:
    info = make_info(steps=[step_info(0, 2, 0)])
    tables = small_tables([])
    assert make_seconds(info, tables) == []
    (step,) = make_steps(info, tables, [])
    assert step.class_reason == "nothing was delivered"
    assert step.measured_s == 0


def test_idle_clients_and_queues_count_in_the_balance() -> None:
    shares = [
        share_row(kind, by_client, 100, step=0, warm=True, response_sum_ns=1e9)
        for kind in ("published", "delivered")
        for by_client in (0, 1)
    ]
    info = make_info(steps=[step_info(0, 1, 0)], publishers=4, queues=2, consumers=5)
    tables = small_tables([counter_row(0, written=1, delivered=1)], shares=shares)
    balance = make_steps(info, tables, make_seconds(info, tables))[0].imbalance
    assert balance.publishers.max_over_mean == 4
    assert balance.queues.max_over_mean == 2
    assert balance.consumers.max_over_mean == 5
    assert balance.queue_latency.mean == 1e7


def test_counts_and_a_sample_may_differ_by_two_percent() -> None:
    counts = make_info()["verification"] | {"published": 1000, "delivered": 1000}
    info = make_info(verification=counts, sample_every=2)
    rows = [counter_row(0, written=1000, delivered=700)]
    shares = [share_row("published", 1, 985), share_row("delivered", 1, 900)]
    near, far = cross_check(info, small_tables(rows, shares=shares))
    assert near.agrees
    assert not far.agrees
    assert far.difference == 0.1
    assert not cross_check(info, small_tables(rows))[0].agrees


def test_a_single_row_too_few_is_noticed() -> None:
    counts = make_info()["verification"] | {"published": 1000, "delivered": 1000}
    shares = [share_row("published", 1, 1000), share_row("delivered", 1, 999)]
    checks = cross_check(make_info(verification=counts), small_tables([], shares=shares))
    assert [check.agrees for check in checks] == [True, False]


def test_what_was_delivered_after_the_last_whole_second_is_counted() -> None:
    counts = make_info()["verification"] | {"published": 1000, "delivered": 1000}
    rows = [counter_row(0, written=1000, delivered=900)]
    shares = [share_row("published", 1, 1000), share_row("delivered", 1, 1000)]
    checks = cross_check(make_info(verification=counts), small_tables(rows, shares=shares))
    assert [check.agrees for check in checks] == [True, True]


def test_node_seconds_have_the_cpu_time_of_their_own_second() -> None:
    def row(second: int, node: str, cpu_ns: int | None) -> dict[str, Any]:
        known = {"rss_bytes": 5, "flow_connections": 1, "leaders": None}
        return {"second": second, "node": node, "cpu_ns": cpu_ns, **known}

    rows = [row(0, "a", 1 * NS), row(0, "b", None), row(1, "a", 3 * NS), row(1, "b", 7)]
    seconds = make_node_seconds(pa.Table.from_pylist(rows, NODES))
    assert [each.cpu_cores for each in seconds] == [None, None, 2.0, None]
    assert (seconds[0].flow_connections, seconds[0].leaders, seconds[0].rss_bytes) == (1, None, 5)
    assert make_node_seconds(None) == []
