"""Goal: who installs the wheel has all that the sources have. Method: one is built, and
the templates of the report are read from it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in the wheel."""
    here = tmp_path_factory.mktemp("wheel")
    sources = here / "sources"
    sources.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources / name)
    kept_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", sources / "src", ignore=kept_out)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(here)]
    subprocess.run([*pip, *options, str(sources)], check=True)
    (wheel,) = here.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(here / "unpacked")
    return here / "unpacked"


def names(folder: Path) -> set[str]:
    """All files of the package."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)) for path in found if path.suffix != ".pyc"}


def test_every_file_of_the_package_is_in_the_wheel(unpacked: Path) -> None:
    sources = names(ROOT / "src" / "sluicemq")
    assert "spark/pipeline/page/report.html" in sources
    assert names(unpacked / "sluicemq") == sources


def test_the_report_finds_its_templates_in_the_wheel(unpacked: Path) -> None:
    code = (
        "from sluicemq.spark.pipeline import report\n"
        "names = report.TEMPLATES.list_templates()\n"
        "print(report.__file__, *map(report.TEMPLATES.get_template, names))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    run = [sys.executable, "-c", code]
    out = subprocess.run(run, env=environment, cwd=unpacked, check=True, capture_output=True)
    assert out.stdout.decode().startswith(str(unpacked))
    assert "report.html" in out.stdout.decode()
