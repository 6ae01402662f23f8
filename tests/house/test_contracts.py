"""Goal: nobody imports what its layer must not know. Method: import-linter with our contracts."""

from __future__ import annotations

from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).resolve().parents[2]


def test_import_contracts_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    code = lint_imports(config_filename=str(ROOT / ".importlinter"), no_cache=True)
    assert code == 0, capsys.readouterr().out


def test_every_package_stands_in_the_layers() -> None:
    contracts = (ROOT / ".importlinter").read_text()
    folders = (path.parent for path in (ROOT / "src" / "sluicemq").glob("*/__init__.py"))
    assert [f.name for f in folders if f"sluicemq.{f.name}" not in contracts] == []
