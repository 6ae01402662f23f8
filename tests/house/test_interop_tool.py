"""What `make interop` makes of the reports of suites."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "interop"
sys.path.append(str(TOOL))

import running  # noqa: E402
import sources  # noqa: E402
import table  # noqa: E402
from suite import (  # noqa: E402
    FAILED,
    PASSED,
    SKIPPED,
    Missing,
    Outcome,
    Suite,
    Verdict,
    Workplace,
)

PYTEST = """<testsuites><testsuite name="pytest">
<testcase classname="t.test_a" name="test_one" />
<testcase classname="t.test_a" name="test_two"><failure message="assert 1&#10;more" /></testcase>
<testcase classname="t.test_a" name="test_three"><skipped message="no TLS" /></testcase>
<testcase classname="t.test_a" name="test_four"><error message="setup" /></testcase>
</testsuite></testsuites>"""

NODE = """<testsuites><testcase name="/a/b/x.test.js" classname="test" />
<testsuite name="API"><testsuite name="open"><testcase name="at all" classname="test" />
</testsuite></testsuite></testsuites>"""


def verdict(ours: list[Outcome], theirs: list[Outcome] | None, *known: tuple[str, str]) -> Verdict:
    suite = Suite("client", "1.0", sources.Here(), lambda _: [], known)
    outcomes = {table.OWN: ours}
    if theirs is not None:
        outcomes[table.ORACLE] = theirs
    return Verdict(suite, outcomes)


def outcomes(**statuses: str) -> list[Outcome]:
    return [Outcome(name, status) for name, status in statuses.items()]


def test_a_report_of_pytest_is_read(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text(PYTEST)
    assert running.junit(report) == [
        Outcome("t.test_a::test_one", PASSED),
        Outcome("t.test_a::test_two", FAILED, "assert 1"),
        Outcome("t.test_a::test_three", SKIPPED, "no TLS"),
        Outcome("t.test_a::test_four", FAILED, "setup"),
    ]


def test_a_report_of_node_is_read(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text(NODE)
    names = [outcome.name for outcome in running.junit(report)]
    assert names == ["file::x.test.js", "API > open::at all"]


def test_a_suite_that_did_not_start_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="could not be started"):
        running.junit(tmp_path / "junit.xml")


def test_what_only_ours_fails_or_leaves_out_is_a_difference() -> None:
    theirs = outcomes(a=PASSED, b=PASSED, c=FAILED, d=PASSED, e=PASSED)
    ours = outcomes(a=PASSED, b=FAILED, c=FAILED, d=SKIPPED)
    found = verdict(ours, theirs).differences(table.OWN, table.ORACLE)
    assert [outcome.name for outcome in found] == ["b", "d", "e"]


def test_without_an_oracle_every_failure_counts() -> None:
    found = verdict(outcomes(a=PASSED, b=FAILED), None).differences(table.OWN, table.ORACLE)
    assert [outcome.name for outcome in found] == ["b"]


def test_a_difference_with_a_reason_is_fine_and_shown() -> None:
    ours, theirs = outcomes(x_a=FAILED, x_b=FAILED), outcomes(x_a=PASSED, x_b=PASSED)
    explained = verdict(ours, theirs, ("x_*", "not there yet"))
    assert table.is_fine(explained)
    assert list(table.remarks(explained)) == ["client: 2 known: not there yet"]
    assert not table.is_fine(verdict(ours, theirs))


def test_a_reason_that_explains_nothing_any_more_is_told() -> None:
    passing = verdict(outcomes(a=PASSED), outcomes(a=PASSED), ("a", "not there yet"))
    assert table.is_fine(passing)
    assert "remove it" in "".join(table.remarks(passing))


def test_a_suite_that_was_not_run_stands_in_the_table() -> None:
    missing = verdict([], None)
    missing.outcomes.clear()
    missing.missing = "nobody delivers it"
    assert "NOT RUN" in "".join(table.table([missing]))
    assert list(table.remarks(missing)) == ["client: NOT RUN: nobody delivers it"]


GO = """{"Action":"run","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"output","Test":"TestB","Output":"=== RUN TestB\\n"}
{"Action":"output","Test":"TestB","Output":"    x_test.go:7: 1 != 2\\n"}
{"Action":"fail","Test":"TestB","Elapsed":0}
{"Action":"skip","Test":"TestC","Elapsed":0}
not of the report
{"Action":"fail","Package":"p","Elapsed":0}
"""


def test_a_report_of_go_is_read(tmp_path: Path) -> None:
    assert running.go_outcomes(GO, tmp_path) == [
        Outcome("TestA", PASSED),
        Outcome("TestB", FAILED, "x_test.go:7: 1 != 2"),
        Outcome("TestC", SKIPPED),
    ]
    with pytest.raises(Missing, match="no test to run"):
        running.go_outcomes("no such package", tmp_path)


def test_of_a_suite_that_was_cut_short_only_what_ran_on_both_counts() -> None:
    found = verdict(outcomes(a=PASSED, b=FAILED), outcomes(a=PASSED, b=PASSED, c=PASSED))
    found.cut_short = frozenset([table.OWN])
    assert [each.name for each in found.differences(table.OWN, table.ORACLE)] == ["b"]
    assert "client: its time was over before it was through on SluiceMQ" in table.remarks(found)


def test_what_takes_too_long_reports_what_it_has(tmp_path: Path) -> None:
    place = Workplace("b", 1, tmp_path, Path(sys.executable), tmp_path, deadline=0)
    stubborn = "import sys, time\ntry: time.sleep(600)\nexcept KeyboardInterrupt: print('told')"
    running.execute(place, [sys.executable, "-c", stubborn], {})
    assert (tmp_path / running.CUT_SHORT).exists()


def test_the_figures_are_written_into_their_page(tmp_path: Path) -> None:
    page = tmp_path / "clients.md"
    page.write_text(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n")
    explained = verdict(outcomes(a=FAILED), outcomes(a=PASSED), ("a", "not there yet"))
    table.write(page, [explained])
    text = page.read_text()
    row = "| client | 1.0 | its own tests | 0 / 1 / 0 | 1 / 0 / 0 | 0 new, 1 known |"
    assert row in text.splitlines()
    assert "- client: 1 known: not there yet" in text.splitlines()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    real = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
    assert table.BEGIN in real.read_text() and table.END in real.read_text()
