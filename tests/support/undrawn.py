"""Reports without drawings, for tests that look at their words: drawing takes most of the time."""

from __future__ import annotations

import pytest

from sluicemq.spark.pipeline import drawing


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """All plots of the test's reports are empty pictures, with their descriptions."""

    def empty(_fill: object, _height: float, about: str, form: drawing.Format) -> object:
        return drawing.page_part('<svg viewBox="0 0 1 1"></svg>', about, form.name, (0, 0, 0, 0))

    monkeypatch.setattr(drawing, "_drawn", empty)
