"""Messages per CPU-second of the broker against RabbitMQ's, in one run on one machine.

    .venv/bin/python bench/broker.py --amqpload PATH [--seconds 8] [--repeats 3] [--cases REGEX]

The load generator prints the broker's CPU time, its memory, and what was lost (`bench/brokers.py`).
The brokers take turns case by case, so that both see the same machine.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path
from typing import Any

from brokers import build, faults, free_port, median, rabbitmq, resident_megabytes, run, sluicemq
from history import keep

CASES = {
    "flat out, no confirms, no-ack": "-p 1 -c 1 -q 1 -s 1024 --no-ack",
    "confirms 1000, prefetch 1000, transient": (
        "-p 1 -c 1 -q 1 -s 1024 -L 1000 -f 1000 -a 1 --drain-check"
    ),
    "confirms 1000, prefetch 1000, durable queue, persistent": (
        "-p 1 -c 1 -q 1 -s 1024 --durable --persistent -L 1000 -f 1000 -a 1 --drain-check"
    ),
    "20 publishers, 10 queues, 20 consumers, no confirms, no-ack": "-p 20 -c 20 -q 10 --no-ack",
    "20 publishers, 10 queues, 20 consumers, confirms 100, ack 1": (
        "-p 20 -c 20 -q 10 -L 100 -f 1000 -a 1 --drain-check"
    ),
    "20 publishers, 10 queues, 20 consumers, durable, confirms 100, ack 100": (
        "-p 20 -c 20 -q 10 --durable --persistent -L 100 -f 1000 -a 100 --drain-check"
    ),
    "500 publishers x 30/s, 100 queues, 500 consumers, confirms 30": (
        "-p 500 -r 30 -q 100 -c 500 -L 30 -f 30 -a 1 --drain-check"
    ),
    "quorum queue, confirms 1000": (
        "-p 1 -c 1 -q 1 -s 1024 --durable --persistent --queue-type quorum"
        " -L 1000 -f 1000 -a 1 --drain-check"
    ),
    "quorum queue, confirms 100": (
        "-p 1 -c 1 -q 1 -s 1024 --durable --persistent --queue-type quorum"
        " -L 100 -f 1000 -a 1 --drain-check"
    ),
    "durable queue, confirms 100": (
        "-p 1 -c 1 -q 1 -s 1024 --durable --persistent -L 100 -f 1000 -a 1 --drain-check"
    ),
    "20 publishers x 1000/s, 10 queues, 20 consumers, durable, confirms 100, ack 100": (
        "-p 20 -r 1000 -q 10 -c 20 --durable --persistent -L 100 -f 1000 -a 100 --drain-check"
    ),
    "one in flight": "-p 1 -c 1 -q 1 -L 1 -f 1 -a 1 --drain-check",
    "16-byte bodies, confirms 1000": "-p 1 -c 1 -q 1 -s 16 -L 1000 -f 1000 -a 1 --drain-check",
    "16 KiB bodies, confirms 1000": "-p 1 -c 1 -q 1 -s 16384 -L 1000 -f 1000 -a 1 --drain-check",
    "16 KiB bodies, confirms 1000, ack 100": "-s 16384 -L 1000 -f 1000 -a 100 --drain-check",
    "64 KiB bodies, confirms 100, ack 10": "-s 65536 -L 100 -f 100 -a 10 --drain-check",
    "1 MiB bodies, confirms 10": "-s 1048576 -L 10 -f 10 -a 1 --drain-check",
}


def row(case: str, ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> str:
    """Medians and their ratio as a line of a Markdown table; the history keeps them."""
    our_cost = median(ours, "broker", "cpu_us_per_msg")
    their_cost = median(theirs, "broker", "cpu_us_per_msg")
    keep(
        "broker",
        case,
        build=build(),
        us=our_cost,
        ratio=their_cost / our_cost,
        rate=median(ours, "cons_rate"),
        p50_ms=median(ours, "latency_ms", "p50"),
        p99_ms=median(ours, "latency_ms", "p99"),
    )
    return (
        f"| {case} | {median(ours, 'cons_rate'):,.0f} | {our_cost:.2f} "
        f"| {median(ours, 'latency_ms', 'p50'):.2f} / {median(ours, 'latency_ms', 'p99'):.1f} "
        f"| {median(theirs, 'cons_rate'):,.0f} | {their_cost:.2f} "
        f"| {median(theirs, 'latency_ms', 'p50'):.2f} / {median(theirs, 'latency_ms', 'p99'):.1f} "
        f"| {their_cost / our_cost:.1f} | {faults(ours)} / {faults(theirs)} |"
    )


def main() -> None:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--amqpload", type=Path, required=True, help="the compiled generator")
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", default=".", help="a regular expression over the case names")
    options = parser.parse_args()
    cases = {name: args for name, args in CASES.items() if re.search(options.cases, name)}
    with tempfile.TemporaryDirectory() as home:
        ours_port, theirs_port = free_port(), free_port()
        with (
            sluicemq(ours_port, Path(home) / "sluicemq") as ours_pid,
            rabbitmq(theirs_port, Path(home) / "rabbitmq") as theirs_pid,
        ):
            print(f"idle RSS: SluiceMQ {resident_megabytes(ours_pid):.1f} MB, ", end="")
            print(f"RabbitMQ {resident_megabytes(theirs_pid):.1f} MB\n")
            print(
                "| case | msg/s | us/msg | p50/p99 ms | RabbitMQ msg/s | us/msg | p50/p99 ms ",
                end="",
            )
            print(
                "| messages per CPU-second, ratio | faults |\n|---|---|---|---|---|---|---|---|---|"
            )
            for name, args in cases.items():
                ours, theirs = [], []
                for _ in range(options.repeats):
                    ours.append(run(options.amqpload, ours_port, ours_pid, args, options.seconds))
                    theirs.append(
                        run(options.amqpload, theirs_port, theirs_pid, args, options.seconds)
                    )
                print(row(name, ours, theirs), flush=True)


if __name__ == "__main__":
    main()
