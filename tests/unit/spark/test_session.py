"""Java is looked for before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicemq.errors import Refused
from sluicemq.spark.session import java_version, parse_java_version, shuffle_partitions


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("no such thing", None),
    ],
)
def test_java_versions_are_recognised(text: str, version: int | None) -> None:
    assert parse_java_version(text) == version


def make_java(folder: Path, answer: str) -> None:
    """A java that gives this answer."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\n{answer}\n")
    command.chmod(0o755)


def test_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match=r"needs Java 17\+: no java found"):
        java_version()


def test_old_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path, "echo 'openjdk version \"11.0.2\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Refused, match=r"needs Java 17\+: .*/bin/java is Java 11"):
        java_version()


def test_java_that_does_not_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path, "exit 3")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Refused, match=r"needs Java 17\+: .* -version failed"):
        java_version()


def test_new_java_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path, "echo 'openjdk version \"21.0.1\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java_version() == 21


def test_a_shuffle_partition_a_core() -> None:
    assert shuffle_partitions("local[2]") == 2
    assert shuffle_partitions("local[8,3]") == 8
    assert shuffle_partitions("local") == 1
    assert shuffle_partitions("local[*]") >= 1
