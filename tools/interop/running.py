"""Runs pytest, or the test runner of node or Go, in a suite's sources and reads what came of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from suite import FAILED, PASSED, SKIPPED, Missing, Outcome, Workplace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SUITE_SECONDS = 1800
TEST_SECONDS = 60
REPORT_SECONDS = 60
CUT_SHORT = "cut-short"
"""A file in the results of a suite whose time was over."""
HEEDING_INTERRUPTS = ("env", "--default-signal=INT")
"""What stands before a command: from the background it would inherit that SIGINT is ignored."""
PLUGINS = Path(__file__).parent / "plugins"
NO_PLUGINS = ("anyio", "asyncio", "celery", "aiomisc", "rerunfailures")


def variables(workplace: Workplace, extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a suite: where the broker is, and its own sources first."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    return clean | {
        "PYTHONPATH": str(PLUGINS),
        "INTEROP_PORT": str(workplace.port),
        "RABBITMQ_URL": workplace.url,
        **extra,
    }


def execute(workplace: Workplace, command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Runs it in the sources, until it ends or its time is over; what it prints goes to
    `output.txt`."""
    with (workplace.results / "output.txt").open("wb") as output:
        left = max(1.0, min(SUITE_SECONDS, workplace.deadline - time.monotonic()))
        process = subprocess.Popen(
            [*HEEDING_INTERRUPTS, *command],
            cwd=workplace.sources,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            process.wait(left)
        except subprocess.TimeoutExpired:
            (workplace.results / CUT_SHORT).touch()
            process.send_signal(signal.SIGINT)  # pytest reports what has run until then
            try:
                process.wait(REPORT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def pytest(
    workplace: Workplace,
    *arguments: str,
    plugins: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> list[Outcome]:
    """pytest with only these plugins besides pytest-timeout."""
    report = workplace.results / "junit.xml"
    isolate(workplace.sources)
    command = [str(workplace.python), "-m", "pytest", "-q", "-W", "ignore"]
    command += ["-p", "no:cacheprovider", "--timeout", str(TEST_SECONDS)]
    if workplace.over_quorum:
        command += ["-p", "quorum_by_force"]
    for plugin in NO_PLUGINS:
        if plugin not in plugins:
            command += ["-p", f"no:{plugin}"]
    for plugin in plugins:
        if plugin not in NO_PLUGINS:
            command += ["-p", plugin]
    command += [f"--junitxml={report}", *arguments]
    execute(workplace, command, variables(workplace, environment or {}))
    return junit(report)


def isolate(sources: Path) -> None:
    """A suite without a configuration of its own must not find this project's above it."""
    for name, section in (("pyproject.toml", "[tool.pytest"), ("setup.cfg", "[tool:pytest]")):
        file = sources / name
        if file.exists() and section in file.read_text():
            return
    if not (sources / "tox.ini").exists():
        (sources / "pytest.ini").write_text("[pytest]\n")


def project_pytest(workplace: Workplace, *files: str) -> list[Outcome]:
    """Tests of this project, with its own environment."""
    report = workplace.results / "junit.xml"
    command = [sys.executable, "-m", "pytest", "--broker-url", workplace.url]
    execute(workplace, [*command, f"--junitxml={report}", *files], dict(os.environ))
    return junit(report)


def node(workplace: Workplace, *arguments: str, **environment: str) -> list[Outcome]:
    """node's own test runner."""
    if not shutil.which("node"):
        raise Missing("node is not installed")
    report = workplace.results / "junit.xml"
    reporter = ["--test-reporter=junit", f"--test-reporter-destination={report}"]
    execute(workplace, ["node", "--test", *reporter, *arguments], variables(workplace, environment))
    return junit(report)


def go(workplace: Workplace, package: str, *arguments: str, **environment: str) -> list[Outcome]:
    """Go's own test runner, on sources as they lie below a GOPATH."""
    if not shutil.which("go"):
        raise Missing("go is not installed: apt-get install golang-go")
    path = workplace.results / "gopath"
    place = path / "src" / package
    place.parent.mkdir(parents=True)
    workplace.sources.rename(place)
    where = {
        "GO111MODULE": "off",
        "GOPATH": f"{path}:/usr/share/gocode",
        "GOCACHE": str(workplace.results.parents[2] / "cache" / "go"),
        "GOFLAGS": "",
    }
    report = workplace.results / "output.txt"
    command = ["go", "test", "-json", "-timeout", f"{SUITE_SECONDS}s", *arguments]
    execute(replace(workplace, sources=place), command, {**os.environ, **where, **environment})
    return go_outcomes(report.read_text(errors="replace"), report)


def go_outcomes(text: str, report: Path) -> list[Outcome]:
    """Every test that `go test -json` tells of. Missing when there is none."""
    ends = {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}
    said: dict[str, list[str]] = {}
    found = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        name = event.get("Test")
        if name is None:
            continue
        if event["Action"] == "output":
            said.setdefault(name, []).append(event["Output"].strip())
        elif event["Action"] in ends:
            words = [each for each in said.get(name, ()) if each and each[:3] not in ("===", "---")]
            status = ends[event["Action"]]
            found.append(Outcome(name, status, words[0] if words and status != PASSED else ""))
    if not found:
        raise Missing(f"it has no test to run; see {report}")
    return found


def junit(report: Path) -> list[Outcome]:
    """Every test in a report. Missing when there is none: the suite did not even start."""
    if not report.exists():
        raise Missing(f"its tests could not be started; see {report.with_name('output.txt')}")
    outcomes = list(cases(ElementTree.parse(report).getroot(), ""))
    if not outcomes:
        raise Missing(f"it has no test to run; see {report.with_name('output.txt')}")
    return outcomes


def cases(element: ElementTree.Element, group: str) -> Iterator[Outcome]:
    """Depth first. pytest has the group in the name of a class, node in nested suites."""
    for child in element:
        name = child.get("name", "")
        if child.tag == "testcase":
            within = group or child.get("classname", "")
            if name.startswith("/"):  # node tells of a whole file by its path, which is our copy's
                within, name = "file", Path(name).name
            yield outcome_of(f"{within}::{name}", child)
        else:
            inner = "" if name == "pytest" else f"{group} > {name}" if group else name
            yield from cases(child, inner)


def outcome_of(name: str, case: ElementTree.Element) -> Outcome:
    """Of one testcase."""
    for tag, status in (("failure", FAILED), ("error", FAILED), ("skipped", SKIPPED)):
        found = case.find(tag)
        if found is not None:
            said = (found.get("message") or found.text or "").strip().splitlines()
            return Outcome(name, status, said[0] if said else "")
    return Outcome(name, PASSED)
