"""What other clients notice of a client that means harm.

    .venv/bin/python bench/attacks.py [--only REGEX] [--seconds 8] [--json FILE] [--before FILE]
                                      [--program "CMD"] [--list]

Each attack (`bench/hostile`) has a fresh broker, and these processes beside it: the attacker, at
nice 5; a victim that publishes a message to its own queue and gets it back every 10 ms on a fixed
plan, so that a stall of a second makes a hundred slow rounds; and newcomers that log in twice a
second. At the end the broker gets SIGTERM while the attack goes on.

`--program "env PYTHONPATH=/other/checkout/src python -m sluicemq"` attacks another checkout;
`--json` keeps the rows; `--before` puts the rows of such a file beside those that are measured.
With `--print` nothing is measured: the table is made of the file of `--json`.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import signal
import sys
import tempfile
from pathlib import Path

from history import keep
from hostile.attack import Attack, load
from hostile.trial import Row, trial

OURS = f"{sys.executable} -m sluicemq"
KEPT = ("p50_ms", "p99_ms", "worst_ms", "login_worst_s", "stop_s", "rss_mib")
"""Of a row, in the history."""

HEAD = (
    "| attack | p50 / p99 / worst ms | log-ins, slowest s | SIGTERM s"
    " | RSS / limit MiB | managed | missed |"
)
BEFORE_HEAD = (
    "| attack | before: p99 / worst ms | log-ins failed | SIGTERM s | RSS MiB"
    " | after: p50 / p99 / worst ms | log-ins, slowest s | SIGTERM s | RSS / limit MiB"
    " | managed | missed |"
)


def milliseconds(value: float | None) -> str:
    """Three digits are enough."""
    if value is None:
        return "?"
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def rounds(row: Row, keys: tuple[str, ...]) -> str:
    """The victim's figures."""
    text = " / ".join(milliseconds(row.get(key)) for key in keys)
    if row.get("blocked_s"):
        text += f" (gets; blocked {row['blocked_s']:.1f} s)"
    return text


def log_ins(row: Row) -> str:
    """Those done, those failed, the slowest."""
    if "logins" not in row:
        return "?"
    total = row["logins"] + row["logins_failed"]
    return f"{row['logins']} of {total}, {row['login_worst_s']:.2f}"


def stopped(row: Row) -> str:
    """How the broker ended."""
    if row.get("died"):
        return f"died with {row['exit_code']}"
    if row.get("stop_s") is None:
        return "?"
    if row["exit_code"] is None:
        return f"not in {row['stop_s']:.0f}"
    return f"{row['stop_s']:.1f}" + (f", code {row['exit_code']}" if row["exit_code"] else "")


def managed(row: Row) -> str:
    """What the attacker did."""
    counts = [f"{count:,} {what}" for what, count in row.get("counts", {}).items()]
    return ", ".join(counts) or "-"


def line(row: Row, before: Row | None) -> str:
    """Of the table."""
    cells = [row["attack"]]
    if before is not None:
        cells += [
            rounds(before, ("p99_ms", "worst_ms")),
            f"{before.get('logins_failed', '?')}",
            stopped(before),
            f"{before['rss_mib']:.0f}",
        ]
    cells += [
        rounds(row, ("p50_ms", "p99_ms", "worst_ms")),
        log_ins(row),
        stopped(row),
        f"{row['rss_mib']:.0f} / {row['limit_mib']}",
        managed(row),
        ", ".join(row["missed"]) or "-",
    ]
    return f"| {' | '.join(cells)} |"


def table(rows: list[Row], before: dict[str, Row]) -> str:
    """All of it."""
    head = BEFORE_HEAD if before else HEAD
    nothing: Row = {"rss_mib": 0}
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    lines += [line(row, before.get(row["attack"], nothing) if before else None) for row in rows]
    return "\n".join(lines)


def read(path: Path | None) -> list[Row]:
    """The rows of an earlier run, the last of each attack."""
    if path is None or not path.exists():
        return []
    rows = [json.loads(text) for text in path.read_text().splitlines()]
    return list({row["attack"]: row for row in rows}.values())


def measure(attacks: list[Attack], options: argparse.Namespace, home: Path) -> list[Row]:
    """One row after the other, kept as they come."""
    rows = []
    for attack in attacks:
        row = trial(shlex.split(options.program), home, attack, options.seconds)
        rows.append(row)
        if options.program == OURS:
            figures = {name: row[name] for name in KEPT if row.get(name) is not None}
            keep("attacks", row["attack"], missed=len(row["missed"]), **figures)
        print(line(row, None), row.get("remark", ""), file=sys.stderr, flush=True)
        if options.json:
            with options.json.open("a") as kept:
                kept.write(json.dumps(row) + "\n")
    return rows


def main() -> None:
    """Run the attacks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=".", help="a regular expression over the names")
    parser.add_argument("--seconds", type=float, default=8.0, help="an attack takes so long")
    parser.add_argument("--program", default=OURS, help="what stands before `serve`")
    parser.add_argument("--json", type=Path, help="add the rows to this file, one a line")
    parser.add_argument("--before", type=Path, help="a file of --json, for the columns before")
    parser.add_argument("--print", action="store_true", help="only print the file of --json")
    parser.add_argument("--list", action="store_true", help="only list the attacks")
    parser.add_argument("--home", type=Path, help="where the brokers' files and logs stay")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # ends what it has started
    attacks = [each for name, each in load().items() if re.search(options.only, name)]
    if options.list:
        print("\n".join(f"{each.name}: {each.what}" for each in attacks))
        return
    before = {row["attack"]: row for row in read(options.before)}
    if options.print:
        print(table(read(options.json), before))
        return
    with tempfile.TemporaryDirectory() as temporary:
        home = options.home or Path(temporary)
        home.mkdir(parents=True, exist_ok=True)
        print(table(measure(attacks, options, home), before))


if __name__ == "__main__":
    main()
