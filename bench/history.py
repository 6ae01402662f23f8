"""What benchmarks have measured so far: each run adds its figures, and a plot shows them over time.

    .venv/bin/python bench/history.py [--out docs/images/benchmarks.svg]

`bench/history/NAME.jsonl` has a line for each case of each run of `bench/NAME.py`: when (UTC), of
which commit and whether files differed from it, whether the broker was compiled, on how many cores,
the case, and its figures by name. `us` is the broker's CPU time a message in microseconds, `ratio`
how many messages a CPU-second it passes on for each that RabbitMQ does; what other names mean says
the benchmark. Figures of one commit depend on the machine and on what else runs there: ratios are
worth more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
from collections import defaultdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE: Final = Path(__file__).resolve().parent
HISTORY: Final = HERE / "history"
DRAWN: Final = {
    "ratio": "messages a CPU-second, RabbitMQ = 1",
    "change": "CPU time a message, commit before = 1",
    "us": "us of CPU a message",
}
"""The figures that are drawn, the first one that a benchmark has, and the titles of their axes."""

COLORS: Final = 10
"""So many lines have colours of their own in matplotlib; the next ones have square points."""
PANEL_INCHES: Final = (10, 3)


@cache
def commit() -> tuple[str, bool]:
    """The commit that is measured, and whether tracked files differ from it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(HERE), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":!bench/history")
    return git("rev-parse", "--short=8", "HEAD"), bool(changed)


def keep(benchmark: str, case: str, *, build: str = "pure", **figures: float) -> None:
    """Add the figures of one case to the history of a benchmark; `build` says whether the broker
    was compiled."""
    name, is_changed = commit()
    line = {
        "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "commit": name,
        "changed": is_changed,
        "python": platform.python_version(),
        "build": build,
        "cores": len(os.sched_getaffinity(0)),
        "case": case,
        "figures": {key: float(f"{value:.4g}") for key, value in figures.items()},
    }
    HISTORY.mkdir(exist_ok=True)
    with (HISTORY / f"{benchmark}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of one benchmark, oldest first."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def draw(axes: Axes, benchmark: str, rows: list[dict[str, Any]]) -> None:
    """One panel: a line for each case, a point for each time it was measured."""
    from matplotlib.ticker import FormatStrFormatter, LogFormatter  # noqa: PLC0415  # as in `plot`

    name = next(name for name in DRAWN if any(name in row["figures"] for row in rows))
    cases: dict[str, list[tuple[datetime, float]]] = defaultdict(list)
    for row in rows:
        if name in row["figures"]:
            cases[row["case"]].append((datetime.fromisoformat(row["at"]), row["figures"][name]))
    for number, (case, points) in enumerate(cases.items()):
        marker = "os"[number // COLORS % 2]
        axes.plot(*zip(*points, strict=True), marker=marker, markersize=3, linewidth=1, label=case)
    axes.set_yscale("log" if name != "change" else "linear")
    axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    axes.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.2, 0.6)))
    axes.set_title(benchmark, loc="left", fontsize=10)
    axes.set_ylabel(DRAWN[name], fontsize=7)
    axes.tick_params(labelsize=7, which="both")
    axes.tick_params(axis="x", rotation=20)
    axes.grid(visible=True, which="both", alpha=0.2)
    axes.legend(fontsize=6.5, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def plot(out: Path) -> None:
    """Draw the benchmarks that have one of the figures that are drawn."""
    from matplotlib import pyplot  # noqa: PLC0415  # measuring needs no plots

    found = {path.stem: read(path) for path in sorted(HISTORY.glob("*.jsonl"))}
    drawn = {
        name: rows
        for name, rows in found.items()
        if any(figure in row["figures"] for row in rows for figure in DRAWN)
    }
    if not drawn:
        raise SystemExit(f"nothing has been measured yet: no figures in {HISTORY}")
    pyplot.rcParams["svg.fonttype"] = "none"  # text stays text
    size = (PANEL_INCHES[0], PANEL_INCHES[1] * len(drawn))
    figure, panels = pyplot.subplots(len(drawn), 1, figsize=size, squeeze=False)
    for axes, (name, rows) in zip(panels.flat, drawn.items(), strict=True):
        draw(axes, name, rows)
    figure.tight_layout()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)


def main() -> None:
    """Draw the history."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs/images/benchmarks.svg")
    plot(parser.parse_args().out)


if __name__ == "__main__":
    main()
