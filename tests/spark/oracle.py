"""The same figures without Spark: exact, in numpy over the raw rows."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from sluicemq.spark.pipeline.results import Percentiles

Values = npt.NDArray[Any]


def read(directory: Path, table: str) -> dict[str, Values]:
    """A raw table as columns; nulls become nan."""
    columns = pq.read_table(directory / table).to_pydict()
    return {
        name: np.array([np.nan if value is None else value for value in values])
        for name, values in columns.items()
    }


def exact_percentile(values: Values, weights: Values, quantile: float) -> float:
    """Nearest rank: the smallest value with at least that share of the weight up to it."""
    order = np.argsort(values)
    up_to = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(up_to, ceil(quantile * up_to[-1]))])


def assert_percentiles(found: Percentiles, latency_ns: Values, weights: Values) -> None:
    """Within 1 % of the exact ones, the maximum exact."""
    known = ~np.isnan(latency_ns)
    latency_ms, weights = latency_ns[known] / 1e6, weights[known]
    assert found.messages == weights.sum()
    for name, quantile in (("p50_ms", 0.5), ("p75_ms", 0.75), ("p95_ms", 0.95), ("p99_ms", 0.99)):
        exact = exact_percentile(latency_ms, weights, quantile)
        assert abs(getattr(found, name) - exact) <= 0.01 * exact, name
    assert found.max_ms == latency_ms.max()
