"""Appending to a stream and reading it: SluiceMQ beside RabbitMQ, in one run on one machine.

    .venv/bin/python bench/stream.py [--count 300000] [--repeats 3] [--cases REGEX]

    append    1 KiB messages with confirms, 1000 in flight a publisher
    read      the same stream from its first offset on, prefetch 1000, acknowledged 250 at a time

The brokers take turns. Publishers and readers are processes of this script: Python, and on the same
machine, so a rate is what both sides together reach; the broker's own CPU time a message is what it
costs. Every reader counts the offsets that come, each above the one before.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from brokers import build, free_port, rabbitmq, sluicemq
from history import keep

from sluicemq.amqp.events import Acks, MethodFrame
from sluicemq.amqp.frames import content_frames
from sluicemq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    ConfirmSelectOk,
)
from sluicemq.client.address import Address
from sluicemq.client.blocking import connect
from sluicemq.client.session import ClientSession, Opened

STREAM: Final = "bench"
BODY: Final = b"x" * 1024
IN_FLIGHT: Final = 1000
BURST: Final = 100
ACK_EVERY: Final = 250
TICKS: Final = os.sysconf("SC_CLK_TCK")
CASES: Final = {
    "append, 1 publisher": ("append", 1),
    "read, 1 reader": ("read", 1),
    "read, 5 readers at once": ("read", 5),
    "append, 5 publishers": ("append", 5),
}
OFFSET_FIELD: Final = b"\x0fx-stream-offsetl"
OFFSETS: Final = re.compile(OFFSET_FIELD + rb"(.{8})", re.DOTALL)


def append(url: str, count: int) -> None:
    """Publish so many messages; return when all are confirmed."""
    with connect(url, timeout_s=60) as client:
        client.call(ConfirmSelect(), ConfirmSelectOk)
        method = BasicPublish(exchange="", routing_key=STREAM).frame(1)
        burst = (method + content_frames(1, b"\x10\x00\x02", BODY, client.frame_max)) * BURST
        sent = confirmed = 0
        while confirmed < count:
            while sent < count and sent - confirmed <= IN_FLIGHT - BURST:
                client.send_bytes(burst)
                sent += BURST
            for event in client.poll(5.0):
                if isinstance(event, Acks):
                    confirmed = max(confirmed, *event.tags)
                elif isinstance(event, MethodFrame) and isinstance(event.method, BasicAck):
                    confirmed = max(confirmed, event.method.delivery_tag)


def read(url: str, count: int) -> None:
    """Read the first so many messages. Once it consumes, what comes is only searched for offsets:
    a client that takes frames apart would be slower than the brokers."""
    session = ClientSession(Address.parse(url), "reader")
    with socket.create_connection(url.rpartition("@")[2].split(":"), 60) as wire:
        consuming = False
        while not consuming:
            wire.sendall(session.data_to_send())
            session.receive_data(wire.recv(65_536))
            while (event := session.next_event()) is not None:
                if isinstance(event, Opened):
                    session.open_channel(1)
                    session.send(1, BasicQos(prefetch_count=IN_FLIGHT))
                    arguments = {"x-stream-offset": "first"}
                    session.send(1, BasicConsume(queue=STREAM, arguments=arguments))
                elif isinstance(event, MethodFrame):
                    consuming = isinstance(event.method, BasicConsumeOk)
                    if consuming:
                        break
        receive(wire, count)


def receive(wire: socket.socket, count: int) -> None:
    """Look for offsets in what comes, acknowledge now and then."""
    seen = acknowledged = 0
    last = -1
    data = b""
    while last < count - 1:
        data = data[-len(OFFSET_FIELD) - 7 :] + wire.recv(1 << 18)
        for found in OFFSETS.finditer(data):
            offset = int.from_bytes(found[1])
            if offset > last:  # the end of the piece before is looked at twice
                last = offset
                seen += 1
        if seen - acknowledged >= ACK_EVERY:
            acknowledged = seen
            wire.sendall(BasicAck(delivery_tag=acknowledged, multiple=True).frame(1))
    missed = last + 1 - seen  # some came with the answer to basic.consume
    assert missed < IN_FLIGHT, f"offset {last} is the {seen}th"


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(kind: str, workers: int, port: int, pid: int, count: int) -> dict[str, float]:
    """One case: messages a second over all workers, and the broker's CPU us a message."""
    url = f"amqp://guest:guest@127.0.0.1:{port}"
    each = count // workers if kind == "append" else count
    each -= each % BURST
    context = multiprocessing.get_context("fork")
    work = {"append": append, "read": read}[kind]
    processes = [context.Process(target=work, args=(url, each)) for _ in range(workers)]
    cpu, began = cpu_seconds(pid), time.monotonic()
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    took, cost = time.monotonic() - began, cpu_seconds(pid) - cpu
    return {"rate": each * workers / took, "us": cost * 1e6 / (each * workers)}


def fresh(port: int, count: int) -> None:
    """The stream anew, with `count` messages in it."""
    url = f"amqp://guest:guest@127.0.0.1:{port}"
    with connect(url, timeout_s=60) as client:
        client.delete_queue(STREAM)
        client.declare_queue(STREAM, arguments={"x-queue-type": "stream"})
    if count:
        append(url, count)


def row(case: str, ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> str:
    """Medians as a line of a Markdown table; the history keeps them."""

    def middle(results: list[dict[str, float]], key: str) -> float:
        return statistics.median(result[key] for result in results)

    us = middle(ours, "us")
    ratio = middle(theirs, "us") / us
    keep("stream", case, build=build(), us=us, ratio=ratio, rate=middle(ours, "rate"))
    return (
        f"| {case} | {middle(ours, 'rate'):,.0f} | {middle(ours, 'us'):.2f} "
        f"| {middle(theirs, 'rate'):,.0f} | {middle(theirs, 'us'):.2f} "
        f"| {middle(theirs, 'us') / middle(ours, 'us'):.1f} |"
    )


def main() -> None:
    """Run the cases and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", default=".", help="a regular expression over the case names")
    options: Any = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        ports = free_port(), free_port()
        with (
            sluicemq(ports[0], Path(home) / "sluicemq") as ours_pid,
            rabbitmq(ports[1], Path(home) / "rabbitmq") as theirs_pid,
        ):
            pids = ours_pid, theirs_pid
            print("| case | msg/s | us/msg | RabbitMQ msg/s | us/msg | CPU, ratio |")
            print("|---|---|---|---|---|---|")
            for name, (kind, workers) in CASES.items():
                if not re.search(options.cases, name):
                    continue
                results: tuple[list[dict[str, float]], ...] = ([], [])
                for _ in range(options.repeats):
                    for which in (0, 1):
                        fresh(ports[which], 0 if kind == "append" else options.count)
                        time.sleep(0.5)
                        one = measure(kind, workers, ports[which], pids[which], options.count)
                        results[which].append(one)
                print(row(name, *results), flush=True)


if __name__ == "__main__":
    main()
