"""The setup of a Python worker of Spark, and the attempt number of its task."""

from __future__ import annotations

import gc
from functools import cache

from pyspark import TaskContext


@cache
def spare_collections() -> None:
    """Exempt the present objects from garbage collections; only the first call in a process does
    anything.

    Spark collects garbage after each task. PySpark, pyarrow and numpy are some hundred thousand
    objects that stay as long as the worker does, and a search of them takes 30 ms: a third of a
    micro-batch.
    """
    gc.freeze()


def attempt_number() -> int:
    """Return the attempt number of the task in this process, from 0; 0 outside of tasks."""
    context = TaskContext.get()
    return context.attemptNumber() if context is not None else 0
