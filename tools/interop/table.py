"""What `make interop` prints."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from suite import FAILED, PASSED, SKIPPED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from suite import Verdict

OWN, ORACLE = "SluiceMQ", "RabbitMQ"
COLUMNS = (PASSED, FAILED, SKIPPED)
UNEXPLAINED_MAX = 40
BEGIN = "<!-- table: written by make interop -->"
END = "<!-- end of table -->"


def cells(verdict: Verdict) -> list[str]:
    """Client, version, then three figures a broker."""
    row = [verdict.suite.client, verdict.suite.version]
    for broker in (OWN, ORACLE):
        if broker in verdict.outcomes:
            row += [str(verdict.count(broker, status)) for status in COLUMNS]
        else:
            row += ["-"] * len(COLUMNS)
    if not verdict.missing:
        different = verdict.differences(OWN, ORACLE)
        known = sum(verdict.suite.reason(outcome.name) is not None for outcome in different)
        row.append(f"{len(different) - known} new, {known} known")
    else:
        row.append("NOT RUN")
    return row


def table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Aligned, with a head of two lines."""
    rows = [["", "", OWN, "", "", ORACLE, "", "", ""]]
    rows.append(["client", "version", *COLUMNS, *COLUMNS, "differences"])
    rows += [cells(verdict) for verdict in verdicts]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        parts = [
            cell.rjust(width) if cell.isdigit() or cell == "-" else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        yield "  ".join(parts).rstrip()


def remarks(verdict: Verdict) -> Iterator[str]:
    """Under the table: why something did not run, what differs and why, what may be removed."""
    client = verdict.suite.client
    if verdict.missing:
        yield f"{client}: NOT RUN: {verdict.missing}"
        return
    for broker in sorted(verdict.cut_short):
        yield f"{client}: its time was over before it was through on {broker}"
    reasons: Counter[str] = Counter()
    new = []
    for outcome in verdict.differences(OWN, ORACLE):
        reason = verdict.suite.reason(outcome.name)
        if reason is None:
            new.append(f"{client}: NEW difference: {outcome.name}: {outcome.text[:200]}")
        else:
            reasons[reason] += 1
    yield from new[:UNEXPLAINED_MAX]
    if len(new) > UNEXPLAINED_MAX:
        yield f"{client}: ... and {len(new) - UNEXPLAINED_MAX} more"
    for reason, count in reasons.items():
        yield f"{client}: {count} known: {reason}"
    for pattern in verdict.outdated(OWN, ORACLE):
        yield f"{client}: {pattern} passes now: remove it from the suite's known differences"


def page_table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The table of docs/clients.md, with what differs and why under it."""
    ordered = sorted(verdicts, key=lambda verdict: verdict.suite.client)
    yield "| client | version | tests | SluiceMQ | RabbitMQ | differences |"
    yield "|---|---|---|---|---|---|"
    for verdict in ordered:
        suite = verdict.suite
        row = [suite.client, suite.version, suite.what]
        for broker in (OWN, ORACLE):
            counts = " / ".join(str(verdict.count(broker, status)) for status in COLUMNS)
            cut = " (cut short)" if broker in verdict.cut_short else ""
            row.append(counts + cut if broker in verdict.outcomes else "not run")
        yield f"| {' | '.join([*row, cells(verdict)[-1]])} |"
    notes = [line for verdict in ordered for line in remarks(verdict)]
    if notes:
        yield ""
        yield from (f"- {line}" for line in notes)


def write(page: Path, verdicts: Sequence[Verdict]) -> None:
    """Put the table into the page, between its marks."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    text = "\n".join(page_table(verdicts))
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def is_fine(verdict: Verdict) -> bool:
    """Nothing differs that is not listed. What could not be run is told, and does not fail."""
    different = verdict.differences(OWN, ORACLE)
    return all(verdict.suite.reason(outcome.name) is not None for outcome in different)
