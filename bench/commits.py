"""The broker of this checkout against the broker of another commit, in one run on one machine.

    .venv/bin/python bench/commits.py --amqpload PATH --base COMMIT
        [--seconds 5] [--repeats 5] [--cases REGEX]

For changes that are to cost nothing where they are not used. The other commit is checked out into a
temporary worktree; the two take turns run by run, and each case's figure is the median of the
ratios of neighbours, so that a machine that becomes slower in between does not count.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker import CASES
from brokers import faults, free_port, run, sluicemq
from history import keep

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent.parent


@contextmanager
def worktree(commit: str, directory: Path) -> Iterator[Path]:
    """The sources as of that commit."""
    subprocess.run(
        ["git", "worktree", "add", "--quiet", "--detach", directory, commit], cwd=HERE, check=True
    )
    try:
        yield directory
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", directory], cwd=HERE, check=True)


@contextmanager
def broker_of(sources: Path, home: Path) -> Iterator[tuple[int, int]]:
    """A broker of those sources: port and pid."""
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = str(sources / "src")
    try:
        port = free_port()
        with sluicemq(port, home) as pid:
            yield port, pid
    finally:
        os.environ["PYTHONPATH"] = before


def row(name: str, base: list[dict[str, Any]], here: list[dict[str, Any]]) -> str:
    """A line of a Markdown table; the history keeps its figures."""
    old = [each["broker"]["cpu_us_per_msg"] for each in base]
    new = [each["broker"]["cpu_us_per_msg"] for each in here]
    change = statistics.median(b / a for a, b in zip(old, new, strict=True)) - 1
    keep("commits", name, us=statistics.median(new), change=1 + change)
    return (
        f"| {name} | {statistics.median(old):.2f} | {statistics.median(new):.2f} "
        f"| {change:+.1%} | {faults(base)} / {faults(here)} |"
    )


def main() -> None:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--amqpload", type=Path, required=True, help="the compiled generator")
    parser.add_argument("--base", required=True, help="the other commit")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cases", default=".", help="a regular expression over the case names")
    options = parser.parse_args()
    cases = {name: args for name, args in CASES.items() if re.search(options.cases, name)}
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sources = stack.enter_context(worktree(options.base, home / "sources"))
        old = stack.enter_context(broker_of(sources, home / "base"))
        new = stack.enter_context(broker_of(HERE, home / "here"))
        print(f"| case | us/msg at {options.base} | us/msg here | change | faults |")
        print("|---|---|---|---|---|")
        for name, args in cases.items():
            base, here = [], []
            for _ in range(options.repeats):
                base.append(run(options.amqpload, *old, args, options.seconds))
                here.append(run(options.amqpload, *new, args, options.seconds))
            print(row(name, base, here), flush=True)


if __name__ == "__main__":
    main()
