"""What a Python worker of Spark does once, whatever tasks it gets, and knows of its task."""

from __future__ import annotations

import gc
from functools import cache

from pyspark import TaskContext


@cache
def spare_collections() -> None:
    """Keep the garbage collector from looking at the objects that are there now; only the first
    call in a process does anything.

    Spark collects garbage after each task. PySpark, pyarrow and numpy are some hundred thousand
    objects that stay as long as the worker does, and to look at them takes 30 ms: a third of a
    micro-batch.
    """
    gc.freeze()


def attempt_number() -> int:
    """Return which attempt the task that runs here is, from 0; 0 outside of tasks."""
    context = TaskContext.get()
    return context.attemptNumber() if context is not None else 0
