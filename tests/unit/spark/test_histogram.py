"""The bucket functions: ordered, close to the value, and the same when merged."""

from __future__ import annotations

from collections import Counter
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from sluicemq.spark.pipeline.latency_histograms import (
    NEGATIVE,
    RELATIVE_ERROR,
    SUBBUCKETS,
    bucket_of,
    lowest_of,
    value_of,
)
from sluicemq.spark.pipeline.percentiles import distribution

HOUR_NS = 3_600_000_000_000

latencies = st.integers(min_value=0, max_value=HOUR_NS) | st.integers(0, 46).map(
    lambda power: 1 << power
)


def percentile(buckets: Counter[int], quantile: float) -> float:
    """What the pipeline computes, in plain Python."""
    rank = ceil(quantile * buckets.total())
    for bucket in sorted(buckets):
        rank -= buckets[bucket]
        if rank <= 0:
            return value_of(bucket)
    raise AssertionError("no values")


@given(latencies)
def test_a_bucket_stands_for_its_values_within_the_stated_error(value: int) -> None:
    assert abs(value_of(bucket_of(value)) - value) <= RELATIVE_ERROR * value


@given(latencies)
def test_the_error_is_below_one_percent(value: int) -> None:
    assert RELATIVE_ERROR <= 0.01
    assert abs(value_of(bucket_of(value)) - value) <= 0.01 * value


@given(latencies, latencies)
def test_buckets_are_in_the_order_of_values(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert bucket_of(low) <= bucket_of(high)
    assert value_of(bucket_of(low)) <= value_of(bucket_of(high))


@given(st.integers(min_value=0, max_value=2 * SUBBUCKETS - 1))
def test_small_values_are_exact(value: int) -> None:
    assert value_of(bucket_of(value)) == value


@given(latencies)
def test_the_lowest_of_a_bucket_is_the_first_in_it(value: int) -> None:
    lowest = lowest_of(bucket_of(value))
    assert lowest <= value
    assert bucket_of(lowest) == bucket_of(value)
    assert lowest == 0 or bucket_of(lowest - 1) == bucket_of(value) - 1


@given(st.lists(latencies, min_size=1, max_size=300))
def test_a_distribution_ends_with_the_largest_and_never_falls(values: list[int]) -> None:
    counts = Counter(map(bucket_of, values))
    points = [*distribution([(bucket, counts[bucket], max(values)) for bucket in sorted(counts)])]
    shares, found = zip(*points, strict=True)
    assert shares[-1] == 1.0
    assert found[-1] == max(values) / 1e6
    assert list(shares) == sorted(shares)
    assert list(found) == sorted(found)
    assert shares[0] == 0.0 or len(values) == 1
    exact = sorted(values)
    for share, latency_ms in points:
        nearest = exact[max(ceil(share * len(values)), 1) - 1]
        assert abs(latency_ms * 1e6 - nearest) <= 0.01 * nearest + 1e-6


def test_without_a_latency_there_is_no_distribution() -> None:
    assert [*distribution([(NEGATIVE, 3, None)])] == []


def test_neighbouring_buckets_have_no_gap_and_no_overlap() -> None:
    """Goal: no number is skipped. Method: around each power of two, buckets step by 0 or 1."""
    for power in range(1, 42):
        for value in range((1 << power) - 3, (1 << power) + 3):
            if value >= 0:
                assert bucket_of(value + 1) - bucket_of(value) in (0, 1)


@given(st.integers(max_value=-1))
def test_negative_latencies_have_a_bucket_of_their_own(value: int) -> None:
    assert bucket_of(value) == NEGATIVE


@given(st.lists(latencies, min_size=1, max_size=60), st.floats(min_value=0.01, max_value=1.0))
def test_percentiles_are_within_the_error_of_the_exact_ones(
    values: list[int], quantile: float
) -> None:
    exact = sorted(values)[ceil(quantile * len(values)) - 1]
    found = percentile(Counter(bucket_of(value) for value in values), quantile)
    assert abs(found - exact) <= RELATIVE_ERROR * exact


@given(st.lists(latencies, max_size=40), st.lists(latencies, max_size=40))
def test_merged_histograms_equal_the_histogram_of_all(left: list[int], right: list[int]) -> None:
    merged = Counter(map(bucket_of, left)) + Counter(map(bucket_of, right))
    assert merged == Counter(map(bucket_of, left + right))
