"""Goal: what `make` installs is pinned, by names and versions only, and complete.

Method: requirements.lock is read against what pyproject.toml asks for and, transitively, against
what the installed packages ask for.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sluicemq import __version__

ROOT = Path(__file__).resolve().parents[2]
LINE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*==[0-9][0-9a-z.+]*")


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return dict(line.split("==") for line in lines)


def wanted() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    texts = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(text for extra in project["project"]["optional-dependencies"].values() for text in extra),
        *project["dependency-groups"]["dev"],
    ]
    requirements = [Requirement(text) for text in texts]
    return [requirement for requirement in requirements if requirement.name != "sluicemq"]


def test_lines_are_names_and_versions_in_order() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert lines == sorted(lines)


def test_everything_pyproject_asks_for_is_locked_in_a_version_that_serves() -> None:
    versions = locked()
    for requirement in wanted():
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not locked"
        assert requirement.specifier.contains(version), requirement


def test_what_the_locked_packages_need_is_locked_too() -> None:
    versions = locked()
    missing = []
    for name in versions:
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        for requirement in map(Requirement, needs):
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if applies and canonicalize_name(requirement.name) not in versions:
                missing.append(f"{name} needs {requirement}")
    assert missing == []


def test_the_version_is_the_same_everywhere() -> None:
    """It is written in one place, which the packages read."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "sluicemq.__version__"}
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", __version__)
