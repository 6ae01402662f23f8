"""What a Python worker of Spark does once, whatever tasks it gets."""

from __future__ import annotations

import gc
from functools import cache


@cache
def spare_collections() -> None:
    """Have the collector pass over what is there now.

    Spark collects garbage after each task. PySpark, pyarrow and numpy are some hundred thousand
    objects that stay as long as the worker does, and to look at them takes 30 ms: a third of a
    micro-batch.
    """
    gc.freeze()
