"""How much of everything the tests try.

The test run tries a part that two cores do in minutes, the same each time; `make thorough` tries
all, and examples that nobody has tried before.
"""

from __future__ import annotations

import os
from typing import Any, Final, TypeVar

import pytest
from hypothesis import HealthCheck, settings

THOROUGH: Final = os.environ.get("THOROUGH_TESTS") == "yes"
"""Is this `make thorough`?"""

EXAMPLES_TIMES: Final = 20
"""So many times the examples are tried then."""

Amount = TypeVar("Amount")

only_thorough: Final = pytest.mark.skipif(not THOROUGH, reason="`make thorough` tries it")
"""Of a test whose promise others keep in the run, in another form, for less."""


def thorough(in_run: Amount, in_full: Amount) -> Amount:
    """`in_run` in the test run, `in_full` when all is tried."""
    return in_full if THOROUGH else in_run


def examples(count: int, **more: Any) -> settings:
    """So many examples in the test run; `more` is as Hypothesis's settings have it."""
    return settings(max_examples=count * thorough(1, EXAMPLES_TIMES), **more)


def set_up_hypothesis() -> None:
    """For tests that do not say how many examples they need. How long one takes says how busy the
    machine is, and is nobody's fault."""
    usual = examples(
        30,
        deadline=None,
        derandomize=not THOROUGH,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.register_profile("sluicemq", usual)
    settings.load_profile("sluicemq")
