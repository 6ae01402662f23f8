"""Goal: what benchmarks measure is kept and can be seen. Method: the history in a folder of the
test's own; every benchmark is read for whether it keeps its figures.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
HELPERS = {"brokers", "duckdb_tables", "history"}
"""Modules that measure nothing by themselves."""


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("history", BENCH / "history.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "HISTORY", tmp_path / "history")
    return module


def test_figures_are_added_line_by_line(history: ModuleType, tmp_path: Path) -> None:
    history.keep("broker", "flat out", us=1.88349, ratio=8.0)
    history.keep("broker", "flat out", us=1.9, ratio=7.9)
    first, second = history.read(tmp_path / "history" / "broker.jsonl")
    assert first["case"] == second["case"] == "flat out"
    assert first["figures"] == {"us": 1.883, "ratio": 8.0}
    assert second["figures"]["ratio"] == 7.9
    assert len(first["commit"]) == 8
    assert first["cores"] >= 1


def test_the_history_is_drawn(history: ModuleType, tmp_path: Path) -> None:
    for name in ("broker", "topic", "stream"):
        history.keep(name, "one", us=2.0, ratio=9.0)
        history.keep(name, "another", us=4.0, ratio=3.0)
    history.keep("turns", "a case without a cost", longest_ms=3.0)
    out = tmp_path / "images" / "benchmarks.svg"
    history.plot(out)
    drawn = out.read_text()
    assert drawn.startswith("<?xml")
    assert drawn.count('id="axes_') == 3
    assert ">topic<" in drawn
    assert ">turns<" not in drawn


def test_without_a_history_there_is_nothing_to_draw(history: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="nothing has been measured"):
        history.plot(tmp_path / "benchmarks.svg")


@pytest.mark.parametrize("path", sorted(BENCH.glob("*.py")), ids=lambda path: path.stem)
def test_every_benchmark_keeps_its_figures(path: Path) -> None:
    text = "".join(path.read_text().split())
    assert path.stem in HELPERS or f'keep("{path.stem}"' in text


def test_what_is_kept_can_be_read(history: ModuleType) -> None:
    for path in sorted((BENCH / "history").glob("*.jsonl")):
        assert (BENCH / f"{path.stem}.py").exists()
        for row in history.read(path):
            assert {"at", "commit", "case", "figures"} <= row.keys()
            assert all(isinstance(value, float) for value in row["figures"].values())
