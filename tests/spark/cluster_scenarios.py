"""Which scenarios tests on a standalone cluster try. `make torture-spark` tries all shuffles."""

from __future__ import annotations

from itertools import product

from spark.cluster_job import SCENARIOS, WAYS
from support.thorough import thorough

ATTEMPTS = thorough(
    ("source-fails", "sink_once-stalls", "stream_to_sink_once-fails"),
    tuple("-".join(each) for each in product(SCENARIOS, WAYS)),
)
"""Of `cluster_job.py`."""

SHUFFLES = thorough(
    ("join-python-batch-fixed",),
    (
        "join-python-batch-fixed",
        "aggregation-fails-batch-adaptive",
        "by-key-stalls-batch-adaptive",
        "repartition-executor-stream-fixed",
    ),
)
"""Of `shuffle_job.py`."""


def ways_of(*scenarios: str) -> list[str]:
    """Those of ATTEMPTS that are one of these."""
    return [each for each in ATTEMPTS if each.partition("-")[0] in scenarios]
