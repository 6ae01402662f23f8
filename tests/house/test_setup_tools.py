"""Goal: whoever lacks something is told what, before anything else fails. Method: the tools that
`make` runs first, in an environment that lacks it.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECK_JAVA = str(ROOT / "tools" / "check_java.py")


def check_java(java_home: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "JAVA_HOME": java_home}
    command = [sys.executable, CHECK_JAVA]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("what?", 0),
    ],
)
def test_the_version_of_java_is_read(said: str, version: int) -> None:
    assert runpy.run_path(CHECK_JAVA)["major_version"](said) == version


def test_a_missing_java_is_told(tmp_path: Path) -> None:
    run = check_java(str(tmp_path))
    assert run.returncode == 1
    assert run.stderr.startswith("sluicemq: Spark needs Java 17 or newer; ")
    assert "is not there" in run.stderr


def test_an_old_java_is_told(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    run = check_java(str(tmp_path))
    assert run.returncode == 1
    assert run.stderr.startswith("sluicemq: Spark needs Java 17 or newer; ")
    assert f"{java} is 11." in run.stderr


def test_an_old_python_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2, "final", 0))
    main = runpy.run_path(str(ROOT / "tools" / "prepare.py"))["main"]
    with pytest.raises(SystemExit, match=r"Python 3\.11 or newer is needed, this is 3\.9\.2"):
        main()


def test_pyspark_is_imported_from_its_files(tmp_path: Path) -> None:
    archive = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
    assert archive.exists()
    runpy.run_path(str(ROOT / "tools" / "prepare.py"))["import_from_files"](tmp_path)
    program = f"import site; site.addsitedir({str(tmp_path)!r}); import pyspark; print(pyspark)"
    found = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert pyspark.__file__ in found.stdout


def test_make_alone_lists_the_targets() -> None:
    run = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = {line.split()[0] for line in run.stdout.splitlines()}
    assert {"setup", "demo", "test", "check", "serve", "clean"} <= listed
