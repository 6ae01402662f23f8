"""Reports without drawings, for tests that look at their words: drawing takes most of the time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sluicemq.spark.pipeline import drawing


@contextmanager
def nothing_drawn() -> Iterator[None]:
    """All plots of reports are empty pictures meanwhile, with their descriptions."""

    def empty(_fill: object, _height: float, about: str, form: drawing.Format) -> object:
        return drawing.page_part('<svg viewBox="0 0 1 1"></svg>', about, form.name, (0, 0, 0, 0))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(drawing, "_drawn", empty)
        yield


@pytest.fixture
def undrawn() -> Iterator[None]:
    """The test's reports have no drawings."""
    with nothing_drawn():
        yield
