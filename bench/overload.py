"""Overload by the lab, broker beside broker: does what goes in come out?

    .venv/bin/python bench/overload.py [--seconds 10] [--scenarios 2 4 5] [--brokers REGEX]
                                       [--out out/overload]

Scenarios 2, 4 and 5 of `sluicemq lab` at full rate, each without confirms and with each of its
in-flight limits, on SluiceMQ, on SluiceMQ with `flow.profile=rabbitmq-3.8`, and on RabbitMQ, each
time a fresh broker. One report of all runs is left in `--out`. For SluiceMQ as it is by default
each step is held against what is wanted: the class of the step is 3 (steady); in each second after
its first fifth, out is at least 0.95 of in; the worst second brings half of what the median one
does; p99 latency from the socket of the publisher to that of the consumer is within 2 s; RSS is
within 300 MB. The exit code is 1 when something was missed.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from brokers import free_port, rabbitmq, sluicemq
from history import keep

NS: Final = 1_000_000_000
OUT_OF_IN_MIN: Final = 0.95
WORST_OF_MEDIAN_MIN: Final = 0.5
P99_MAX_MS: Final = 2000.0
RSS_MAX_BYTES: Final = 300_000_000
STEADY: Final = 3
RECORD_RATE: Final = 100_000
"""Every message is recorded: of a few in flight every fifth goes out in the same moment everywhere,
which shows as seconds that are not there."""

OURS: Final = "sluicemq"
PROFILE: Final = (
    "flow.profile=rabbitmq-3.8",
    "product.name=SluiceMQ with profile",
    "product.version=rabbitmq-3.8",
)
Broker = Callable[[int, Path], AbstractContextManager[int]]
BROKERS: Final[dict[str, Broker]] = {
    OURS: sluicemq,
    "profile": lambda port, home: sluicemq(port, home, *PROFILE),
    "rabbitmq": rabbitmq,
}
MODES: Final = ("--no-confirms", "--confirms")


@dataclass(frozen=True)
class StepFigures:
    """What one step brought; rates in messages a second."""

    name: str
    into: float
    out: float
    least_ratio: float
    """Of out to in, over the seconds."""
    worst: float
    """What the worst second brought, as a part of the median one."""
    p99_ms: float

    def missed(self) -> list[str]:
        """What is not as wanted."""
        wanted = {
            f"out {self.least_ratio:.2f} of in": self.least_ratio >= OUT_OF_IN_MIN,
            f"worst second {self.worst:.2f} of the median": self.worst >= WORST_OF_MEDIAN_MIN,
            f"p99 {self.p99_ms:,.0f} ms": self.p99_ms <= P99_MAX_MS,
        }
        return [words for words, holds in wanted.items() if not holds]


def measure(name: str, scenario: str, mode: str, seconds: int, out: Path) -> Path:
    """One run against a fresh broker; where its measurements are."""
    place = out / f"{name}-{scenario}{mode.removeprefix('-')}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    port = free_port()
    with BROKERS[name](port, place / "broker") as pid:
        command = [sys.executable, "-m", "sluicemq", "lab", "run", scenario, mode]
        command += ["--target", f"amqp://guest:guest@127.0.0.1:{port}", "--broker-pid", str(pid)]
        command += ["--record-rate", str(RECORD_RATE), "--step-seconds", str(seconds)]
        command += ["--out", str(place / "lab")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    shutil.rmtree(place / "broker")
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    return place / "lab"


def table(run: Path, name: str) -> pa.Table:
    """All parts of one table of a run."""
    return pa.concat_tables([pq.read_table(part) for part in sorted((run / name).glob("*"))])


def per_second(times_ns: Any, weights: Any, start_ns: int, seconds: int) -> list[float]:
    """Messages of each whole second from `start_ns` on."""
    edges = start_ns + NS * np.arange(seconds + 1)
    return [float(count) for count in np.histogram(times_ns, edges, weights=weights)[0]]


def steps(run: Path) -> Iterator[StepFigures]:
    """The figures of each step of a run."""
    published, delivered = table(run, "published"), table(run, "delivered")
    written_ns, weight = (published[key].to_numpy() for key in ("written_ns", "weight"))
    came_ns, came_weight = (delivered[key].to_numpy() for key in ("delivered_ns", "weight"))
    sent_ns = delivered["written_ns"].to_numpy()
    for step in json.loads((run / "run.json").read_text())["steps"]:
        start_ns = step["warm_ns"]
        seconds = (step["end_ns"] - start_ns) // NS
        into = per_second(written_ns, weight, start_ns, seconds)
        out = per_second(came_ns, came_weight, start_ns, seconds)
        chosen = (delivered["step"].to_numpy() == step["step"]) & (sent_ns >= start_ns)
        latency = (came_ns[chosen] - sent_ns[chosen]) / 1e6
        limit = step["in_flight_limit"]
        yield StepFigures(
            "none" if limit is None else str(limit),
            statistics.mean(into),
            statistics.mean(out),
            min(o / i for o, i in zip(out, into, strict=True) if i),
            min(out) / statistics.median(out),
            float(np.percentile(latency, 99)),
        )


def classes(report: Path) -> dict[str, list[tuple[int, str]]]:
    """By run: of each step its class on the post's scale, and why."""
    rows = json.loads((report / "results" / "per_step.json").read_text())
    found: dict[str, list[tuple[int, str]]] = {}
    for row in rows:
        found.setdefault(row["run"], []).append((row["scale"], row["class_reason"]))
    return found


def directories(report: Path) -> dict[str, Path]:
    """By run: where its measurements are."""
    rows = json.loads((report / "results" / "per_run.json").read_text())
    return {row["run"]: Path(row["directory"]) for row in rows}


def judge(report: Path) -> int:
    """Print a table of all runs; returns what was missed by SluiceMQ as it is by default."""
    print(
        "\n| run | in flight | in /s | out /s | least out of in | worst second of median |", end=""
    )
    print(" p99 ms | class | RSS MB | missed |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    missed = 0
    by_run = classes(report)
    for run, directory in directories(report).items():
        rss = max(row or 0 for row in table(directory, "broker")["rss_bytes"].to_pylist())
        for step, (scale, reason) in zip(steps(directory), by_run[run], strict=True):
            faults = step.missed()
            if scale != STEADY:
                faults.append(reason)
            if rss > RSS_MAX_BYTES:
                faults.append(f"RSS {rss / 1e6:.0f} MB")
            wanted = directory.parent.name.startswith(OURS)
            missed += len(faults) * wanted
            if wanted:
                case = f"{run}, in flight {step.name}"
                keep("overload", case, rate=step.out, p99_ms=step.p99_ms, step_class=scale)
            print(
                f"| {run} | {step.name} | {step.into:,.0f} | {step.out:,.0f} "
                f"| {step.least_ratio:.2f} | {step.worst:.2f} | {step.p99_ms:,.0f} "
                f"| {scale} | {rss / 1e6:.0f} | {'; '.join(faults) if wanted else ''} |"
            )
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=10, help="of each step")
    parser.add_argument("--scenarios", nargs="+", default=["2", "4", "5"])
    parser.add_argument("--brokers", default="", help="only those whose name is found by this")
    parser.add_argument("--out", type=Path, default=Path("out/overload"))
    options = parser.parse_args()
    runs = [
        measure(name, scenario, mode, options.seconds, options.out)
        for scenario in options.scenarios
        for mode in MODES
        for name in BROKERS
        if re.search(options.brokers, name)
    ]
    report = options.out / "report"
    command = [sys.executable, "-m", "sluicemq", "lab", "report", *map(str, runs)]
    subprocess.run([*command, "--out", str(report)], check=True, stdout=subprocess.DEVNULL)
    return 1 if judge(report) else 0


if __name__ == "__main__":
    sys.exit(main())
