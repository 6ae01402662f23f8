"""What it costs to keep messages on disk: SluiceMQ beside RabbitMQ, in one run on one machine.

    .venv/bin/python bench/persistence.py --amqpload PATH [--seconds 8] [--repeats 3]
                                          [--count 1000000] [--cases REGEX]

    confirms  one durable queue, persistent 1 KiB, confirms with 1000 in flight, prefetch 1000
    flood     `count` durable persistent messages of 1 KiB, no consumer, memory limit 256 MiB;
              then the drain. RSS is sampled each 100 ms, until 10 s after the flood. RabbitMQ
              needs half of that limit for itself, so it is shown at its default limit, too
    restart   the same flood, `kill -9`, and the time from exec until a client has the message count
    idle      syncs and bytes written of a broker with nothing to do, for 10 s

The brokers take turns. Each case ends with what was to be reached and whether it was; the exit code
is 1 when something was not. `bench/brokers.py` has the load generator and how brokers are started.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from brokers import (
    faults,
    free_port,
    load,
    median,
    rabbitmq,
    resident_megabytes,
    run,
    sluicemq,
    start_sluicemq,
)
from history import keep

from sluicemq.client.blocking import connect
from sluicemq.client.session import BrokerError

LIMIT_MIB: Final = 256
OUR_LIMIT: Final = f"vm_memory_high_watermark.absolute={LIMIT_MIB}MiB"
THEIR_LIMIT: Final = f"vm_memory_high_watermark.absolute = {LIMIT_MIB}MiB"
CONFIRMS: Final = "-p 1 -c 1 -q 1 -s 1024 --durable --persistent -L 1000 -f 1000 -a 1 --drain-check"
FLOOD: Final = "--mode flood -s 1024 --durable --persistent -L 1000 --series"
DRAIN: Final = "--mode drain --durable -f 1000 -a 100 --idle-ms 5000"
QUEUE: Final = "lg-0"
"""As the generator names its first queue."""

SAMPLE_S: Final = 0.1
AFTER_S: Final = 10.0
IDLE_S: Final = 10.0
SETTLE_S: Final = 5.0
RESTART_MAX_S: Final = 120.0
DRAIN_MAX_S: Final = 600
SYNCS: Final = ("fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync")


class Verdicts:
    """What was to be reached, and whether it was."""

    def __init__(self) -> None:
        self.failed = 0

    def tell(self, reached: bool, words: str) -> None:
        self.failed += not reached
        print(f"- {'reached' if reached else 'NOT REACHED'}: {words}", flush=True)


class RssWatch:
    """Samples a process's RSS in the background; MiB."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.samples: list[float] = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def _watch(self) -> None:
        while not self.over.wait(SAMPLE_S):
            self.samples.append(resident_megabytes(self.pid))

    def stop(self) -> float:
        """The highest."""
        self.over.set()
        self.thread.join()
        return max(self.samples)


class Bench:
    """Options, a home for data directories, and the verdicts."""

    def __init__(self, options: argparse.Namespace, home: Path) -> None:
        self.options = options
        self.home = home
        self.verdicts = Verdicts()

    def fresh(self, name: str) -> Path:
        """An empty place for a data directory."""
        shutil.rmtree(self.home / name, ignore_errors=True)
        return self.home / name

    # -- confirms

    def confirms(self) -> None:
        """Rate and CPU time, medians; the brokers take turns."""
        ours_port, theirs_port = free_port(), free_port()
        ours: list[dict[str, Any]] = []
        theirs: list[dict[str, Any]] = []
        with (
            sluicemq(ours_port, self.fresh("ours")) as our_pid,
            rabbitmq(theirs_port, self.fresh("theirs")) as their_pid,
        ):
            for _ in range(self.options.repeats):
                for port, pid, results in (
                    (ours_port, our_pid, ours),
                    (theirs_port, their_pid, theirs),
                ):
                    results.append(
                        run(self.options.amqpload, port, pid, CONFIRMS, self.options.seconds)
                    )
        print("\n## persistent 1 KiB, confirms 1000, prefetch 1000\n")
        print("| broker | msg/s | us/msg | p50/p99 ms | confirm p50/p99 ms | faults |")
        print("|---|---|---|---|---|---|")
        for name, results in (("SluiceMQ", ours), ("RabbitMQ", theirs)):
            latency, confirm = (
                f"{median(results, key, 'p50'):.2f} / {median(results, key, 'p99'):.1f}"
                for key in ("latency_ms", "confirm_ms")
            )
            print(
                f"| {name} | {median(results, 'cons_rate'):,.0f} "
                f"| {median(results, 'broker', 'cpu_us_per_msg'):.2f} "
                f"| {latency} | {confirm} | {faults(results)} |"
            )
        cost = median(theirs, "broker", "cpu_us_per_msg") / median(ours, "broker", "cpu_us_per_msg")
        rate = median(ours, "cons_rate") / median(theirs, "cons_rate")
        us = median(ours, "broker", "cpu_us_per_msg")
        keep("persistence", "confirms 1000", us=us, ratio=cost, rate=median(ours, "cons_rate"))
        self.verdicts.tell(cost >= 5, f"messages a CPU-second, {cost:.1f} of 5 times RabbitMQ's")
        self.verdicts.tell(rate >= 2, f"throughput, {rate:.1f} of 2 times RabbitMQ's")
        self.verdicts.tell(faults(ours) == 0, "nothing lost, doubled or out of order")

    # -- flood

    def flood(self) -> None:
        """Flood and drain, one broker after the other."""
        print(f"\n## flood of {self.options.count:,}, limit {LIMIT_MIB} MiB, and drain\n")
        print(
            "| broker | published, s | published/s | us/msg | worst / median second "
            "| RSS max, at the end, 10 s after, MiB | drained/s | us/msg | lost |"
        )
        print("|---|---|---|---|---|---|---|---|---|", flush=True)
        port = free_port()
        with sluicemq(port, self.fresh("ours"), OUR_LIMIT) as pid:
            ours = self.flood_and_drain("SluiceMQ", port, pid)
        port = free_port()
        with rabbitmq(port, self.fresh("theirs"), THEIR_LIMIT) as pid:
            theirs = self.flood_and_drain("RabbitMQ", port, pid)
        port = free_port()
        with rabbitmq(port, self.fresh("theirs")) as pid:
            roomy = self.flood_and_drain("RabbitMQ, its default limit", port, pid)
        tell = self.verdicts.tell
        tell(bool(ours["whole"]), f"the whole flood of {self.options.count:,} is confirmed")
        rate = ours["rate"] / theirs["rate"]
        tell(rate >= 3, f"publish rate, {rate:.1f} of 3 times RabbitMQ's")
        print(f"  ({ours['rate'] / roomy['rate']:.1f} times RabbitMQ's at its default limit)")
        even = ours["worst"] / ours["median"]
        tell(even >= 1 / 3, f"worst second, {even:.2f} of 0.33 of the median second")
        over = ours["rss_max"] / LIMIT_MIB
        tell(over <= 1.15, f"RSS at most {over:.2f} of 1.15 times the limit")
        after = ours["rss_after"]
        tell(after <= LIMIT_MIB, f"RSS {after:.0f} MiB 10 s after, limit {LIMIT_MIB}")
        drain = ours["drain"] / theirs["drain"]
        tell(drain >= 3, f"drain rate, {drain:.1f} of 3 times RabbitMQ's")
        tell(ours["lost"] == 0, "nothing lost")
        for case, mine, theirs_us in (
            ("flood", ours["cost"], theirs["cost"]),
            ("drain", ours["drain_cost"], theirs["drain_cost"]),
        ):
            keep("persistence", case, us=mine, ratio=theirs_us / mine)

    def flood_and_drain(self, name: str, port: int, pid: int) -> dict[str, float]:
        """The figures of one broker, and its line of the table."""
        watch = RssWatch(pid)
        state = self.home / "state"
        sent = self.publish(port, pid, "--save-state", str(state))
        rss_end = resident_megabytes(pid)
        time.sleep(AFTER_S)
        rss_after = resident_megabytes(pid)
        rss_max = watch.stop()
        taken = self.drain(port, pid, sent["confirmed"], "--load-state", str(state))
        seconds = whole_seconds(sent)
        each = {
            "published": sent["published"],
            "whole": float(self.is_whole(sent)),
            "seconds": sent["seconds"],
            "rate": sent["pub_rate"],
            "cost": sent["broker"]["cpu_us_per_msg"],
            "worst": min(seconds),
            "median": statistics.median(seconds),
            "rss_max": rss_max,
            "rss_end": rss_end,
            "rss_after": rss_after,
            "drain": taken["cons_rate"],
            "drain_cost": taken["broker"]["cpu_us_per_msg"],
            "lost": float(taken["lost"]),
        }
        print(
            f"| {name} | {each['published']:,.0f} in {each['seconds']:.0f} "
            f"| {each['rate']:,.0f} | {each['cost']:.2f} "
            f"| {each['worst']:,.0f} / {each['median']:,.0f} "
            f"| {each['rss_max']:.0f}, {each['rss_end']:.0f}, {each['rss_after']:.0f} "
            f"| {each['drain']:,.0f} | {each['drain_cost']:.2f} | {each['lost']:.0f} |",
            flush=True,
        )
        return each

    def publish(self, port: int, pid: int, *more: str) -> dict[str, Any]:
        """The flood, for at most `patience` seconds: the generator's own limit is 10."""
        limits = ("--count", str(self.options.count), "-t", str(self.options.patience))
        options = (*FLOOD.split(), *limits, *more)
        return load(self.options.amqpload, port, "--broker-pid", f"{pid}+", *options)

    def drain(self, port: int, pid: int, count: int, *more: str) -> dict[str, Any]:
        """All of `count` messages; a rate of fewer would be one of something else."""
        options = (*DRAIN.split(), "--count", str(count), "-t", str(DRAIN_MAX_S), *more)
        result = load(self.options.amqpload, port, "--broker-pid", f"{pid}+", *options)
        if result["consumed"] < count:
            taken = f"{result['consumed']:,} of {count:,} (end: {result['end']})"
            raise SystemExit(f"the drain took {taken}")
        return result

    def is_whole(self, sent: dict[str, Any]) -> bool:
        """Was everything published and confirmed?"""
        return bool(sent["published"] == sent["confirmed"] == self.options.count)

    # -- restart

    def restart(self) -> None:
        """kill -9 with everything in the queue; then all of it must come."""
        port, data_dir = free_port(), self.fresh("ours")
        state = self.home / "state"
        with start_sluicemq(port, data_dir, OUR_LIMIT) as process:
            await_count(port, None)
            sent = self.publish(port, process.pid, "--save-state", str(state))
            process.kill()
        if not self.is_whole(sent):
            raise SystemExit(f"only {sent['confirmed']:,} were confirmed before the kill")
        began = time.monotonic()
        with start_sluicemq(port, data_dir, OUR_LIMIT) as process:
            waiting = await_count(port, QUEUE)
            seconds = time.monotonic() - began
            rss = resident_megabytes(process.pid)
            taken = self.drain(port, process.pid, waiting, "--load-state", str(state))
            process.terminate()
        print(f"\n## restart after kill -9 with {self.options.count:,} messages\n")
        print(
            f"accepting after {seconds:.2f} s with {waiting:,} messages, RSS {rss:.0f} MiB; ",
            end="",
        )
        print(f"drained at {taken['cons_rate']:,.0f}/s, lost {taken['lost']}\n")
        self.verdicts.tell(seconds <= 3, f"accepting within {seconds:.2f} of 3 s")
        whole = waiting == self.options.count and taken["lost"] == 0
        self.verdicts.tell(whole, "all messages are there")

    # -- idle

    def idle(self) -> None:
        """After some traffic, with messages left in the queue, and then nobody there."""
        print(f"\n## idle for {IDLE_S:.0f} s\n")
        print("| broker | syncs | bytes written | CPU ms |\n|---|---|---|---|")
        port = free_port()
        with sluicemq(port, self.fresh("ours")) as pid:
            syncs = self.idle_row("SluiceMQ", port, pid)
        port = free_port()
        with rabbitmq(port, self.fresh("theirs")) as pid:
            self.idle_row("RabbitMQ", port, pid)
        self.verdicts.tell(syncs == 0, f"{syncs} syncs while idle")

    def idle_row(self, name: str, port: int, pid: int) -> int:
        limit = ("-t", str(DRAIN_MAX_S))
        load(self.options.amqpload, port, *FLOOD.split(), "--count", "20000", *limit)
        load(self.options.amqpload, port, *DRAIN.split(), "--count", "10000", *limit)
        time.sleep(SETTLE_S)
        bytes_before, cpu_before = bytes_written(pid), cpu_ms(pid)
        syncs = count_syncs(pid, IDLE_S)
        written, cpu = bytes_written(pid) - bytes_before, cpu_ms(pid) - cpu_before
        print(f"| {name} | {syncs} | {written:,} | {cpu:,} |", flush=True)
        return syncs


def whole_seconds(flood: dict[str, Any]) -> list[float]:
    """Messages of each whole second; the average when it took no second."""
    return flood["s_pub"] or [flood["pub_rate"]]


def await_count(port: int, queue: str | None) -> int:
    """Until a client is let in; then how many messages the queue has (None: do not ask)."""
    deadline = time.monotonic() + RESTART_MAX_S
    while True:
        try:
            with connect(f"amqp://guest:guest@127.0.0.1:{port}/") as client:
                counts = client.count_queue(queue) if queue else None
                return counts.messages_ready if counts else 0
        except BrokerError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def count_syncs(pid: int, seconds: float) -> int:
    """How often the process makes its files durable, by strace."""
    if shutil.which("strace") is None:
        raise SystemExit("strace is missing: apt-get install strace")
    with tempfile.NamedTemporaryFile("r") as log:
        command = ["strace", "-f", "-qqq", "-e", "signal=none", "-e", f"trace={','.join(SYNCS)}"]
        with subprocess.Popen([*command, "-o", log.name, "-p", str(pid)]) as strace:
            time.sleep(seconds)
            strace.terminate()
        return sum(1 for line in log if "(" in line)


def bytes_written(pid: int) -> int:
    """To files, so far."""
    fields = Path(f"/proc/{pid}/io").read_text().split()
    return int(fields[fields.index("write_bytes:") + 1])


def cpu_ms(pid: int) -> int:
    """User and system so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 10


def main() -> int:
    """Run the cases; 1 when something was not reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--amqpload", type=Path, required=True, help="the compiled generator")
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--count", type=int, default=1_000_000, help="messages of the flood")
    parser.add_argument(
        "--patience",
        type=int,
        default=900,
        help="seconds after which a flood is cut off, and told so",
    )
    parser.add_argument("--cases", default=".", help="a regular expression over the case names")
    parser.add_argument("--home", type=Path, help="where data directories are made")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.home) as home:
        bench = Bench(options, Path(home))
        cases: tuple[Callable[[], None], ...] = (
            bench.confirms,
            bench.flood,
            bench.restart,
            bench.idle,
        )
        for case in cases:
            if re.search(options.cases, case.__name__):
                case()
    return 1 if bench.verdicts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
