"""What quorum queues of one member keep, and how soon they are back: disk, restart, idle groups.

.venv/bin/python bench/quorum.py [--cases REGEX] [--messages 10000000] [--groups 2000]

kept      one message of each hundred stays unacknowledged while the others pass: the data
          directory's size beside the bytes of what is in the queue
restart   a million messages of 1 KiB, kill -9, and the time until the broker accepts and until
          all are counted
groups    many queues with a message each: CPU while nothing happens, and syncs of the disk
          while a message goes to each
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from brokers import free_port, start_sluicemq, wait_for
from history import keep

from sluicemq.amqp.events import Acks, Deliveries, MethodFrame
from sluicemq.amqp.frames import content_frames
from sluicemq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
)
from sluicemq.amqp.types import Table
from sluicemq.client.blocking import connect

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

    from sluicemq.client.blocking import BlockingClient

QUEUE: Final = "bench"
BODY: Final = b"x" * 1024
PERSISTENT: Final = b"\x10\x00\x02"
IN_FLIGHT: Final = 2000
BURST: Final = 100
CONSUMERS: Final = 50
HELD_MAX: Final = 2000
"""Messages that a consumer keeps: the prefetch that quorum queues give at most."""
HEARTBEATS_S: Final = 10
QUORUM: Final[Table] = {"x-queue-type": "quorum"}
IDLE_SECONDS: Final = 20
SETTLE_SECONDS: Final = 120
TICKS: Final = os.sysconf("SC_CLK_TCK")


def publish(client: BlockingClient, names: list[str], count: int) -> None:
    """Publish so many messages, in bursts to one queue after the other; return when all are
    confirmed."""
    client.call(ConfirmSelect(), ConfirmSelectOk)
    content = content_frames(1, PERSISTENT, BODY, client.frame_max)
    burst = min(BURST, count // len(names))
    bursts = [(BasicPublish("", name).frame(1) + content) * burst for name in names]
    sent = confirmed = 0
    while confirmed < count:
        while sent < count and sent - confirmed <= IN_FLIGHT - burst:
            client.send_bytes(bursts[sent // burst % len(bursts)])
            sent += burst
        for event in client.poll(5.0):
            if isinstance(event, Acks):
                confirmed = max(confirmed, *event.tags)
            elif isinstance(event, MethodFrame) and isinstance(event.method, BasicAck):
                confirmed = max(confirmed, event.method.delivery_tag)


def consume(url: str, held_each: int, done: Event) -> None:
    """Acknowledge what comes, all but one in `held_each`, until told that it is enough. One
    consumer after the other does so, and keeps all that comes when there is little room for more;
    the last one keeps nothing."""
    wires: list[BlockingClient] = []
    heartbeats_at = time.monotonic() + HEARTBEATS_S
    for number in range(CONSUMERS + 1):
        wire = connect(url, timeout_s=60)
        wires.append(wire)
        wire.call(BasicQos(prefetch_count=HELD_MAX), BasicQosOk)
        wire.call(BasicConsume(queue=QUEUE), BasicConsumeOk)
        held = 0
        while held < HELD_MAX and not done.is_set():
            if time.monotonic() >= heartbeats_at:
                heartbeats_at = time.monotonic() + HEARTBEATS_S
                for holder in wires[:-1]:
                    assert not [*holder.poll(0.0)], "a consumer that may hold no more got something"
            acks = bytearray()
            for event in wire.poll(0.1):
                if not isinstance(event, Deliveries):
                    continue
                for tag in event.tags:
                    is_kept = tag % held_each == 0 or held >= HELD_MAX - BURST
                    if is_kept and number < CONSUMERS:
                        held += 1
                    else:
                        acks += BasicAck(delivery_tag=tag).frame(1)
            if acks:
                wire.send_bytes(bytes(acks))


def disk_bytes(folder: Path) -> int:
    """Return the bytes that the files below a folder take on the disk."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def groups_synced(port: int) -> int:
    """Return how often the journal was synced, as `sluicemq ctl status` has it."""
    command = [sys.executable, "-m", "sluicemq", "ctl", "status", "--port", str(port)]
    command += ["--formatter", "json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(json.loads(done.stdout)[0]["Journal"]["groups_synced"])


def kept(port: int, pid: int, folder: Path, options: Any) -> None:
    """One message of each batch of a hundred stays, the others pass."""
    url = f"amqp://guest:guest@127.0.0.1:{port}"
    with connect(url, timeout_s=600) as client:
        client.declare_queue(QUEUE, arguments=QUORUM)
        context = get_context("fork")
        done = context.Event()
        consumer = context.Process(
            target=consume, args=(url, max(1, options.messages // (CONSUMERS * HELD_MAX)), done)
        )
        consumer.start()
        cpu = cpu_seconds(pid)
        publish(client, [QUEUE], options.messages)
        cost = (cpu_seconds(pid) - cpu) * 1e6 / options.messages
        live = CONSUMERS * HELD_MAX * len(BODY)
        deadline = time.monotonic() + SETTLE_SECONDS
        while disk_bytes(folder) > 2 * live and time.monotonic() < deadline:
            time.sleep(1)
        disk = disk_bytes(folder)
        done.set()
        consumer.join()
    print(
        f"kept: {options.messages} messages, {live >> 20} MiB unacknowledged,"
        f" {disk >> 20} MiB on the disk ({disk / live:.2f} times as much), {cost:.1f} us a message",
        flush=True,
    )
    keep("quorum", "kept", disk_times_live=disk / live, us=cost)


def restart(folder: Path) -> None:
    """Kill a broker with a million messages, and start it again."""
    port = free_port()
    url = f"amqp://guest:guest@127.0.0.1:{port}"
    count = 1_000_000
    with start_sluicemq(port, folder) as process:
        wait_for(port, process)
        with connect(url, timeout_s=600) as client:
            client.declare_queue(QUEUE, arguments=QUORUM)
            publish(client, [QUEUE], count)
            process.send_signal(signal.SIGKILL)
    began = time.monotonic()
    with start_sluicemq(port, folder) as process:
        wait_for(port, process)
        accepts = time.monotonic() - began
        with connect(url, timeout_s=600) as client:
            counts = client.count_queue(QUEUE)
        counted = time.monotonic() - began
        assert counts is not None
        assert counts.messages_ready == count, counts.messages_ready
        cost = cpu_seconds(process.pid)
        process.terminate()
    print(f"restart: accepts after {accepts:.2f} s, all {count} counted after {counted:.2f} s")
    keep("quorum", "restart", accepts_s=accepts, counted_s=counted, cpu_s=cost)


def groups(port: int, pid: int, _: Path, options: Any) -> None:
    """Many queues, of which none has anything to do, and then each a message."""
    url = f"amqp://guest:guest@127.0.0.1:{port}"
    names = [f"group-{number}" for number in range(options.groups)]
    with connect(url, timeout_s=600) as client:
        for name in names:
            client.declare_queue(name, arguments=QUORUM)
        publish(client, names, len(names))
        time.sleep(15)  # they fall idle after five seconds, and take a snapshot
        cpu = cpu_seconds(pid)
        time.sleep(IDLE_SECONDS)
        idle = (cpu_seconds(pid) - cpu) / IDLE_SECONDS
        before = groups_synced(port)
        publish(client, names, len(names))
        syncs = groups_synced(port) - before
    print(f"groups: {len(names)}, idle {idle:.2%} of a core; {syncs} syncs for a message to each")
    keep("quorum", "groups", idle_core=idle, syncs=syncs)


def main() -> None:
    """Run the cases, each on a broker of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", default=".", help="a regular expression over the case names")
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        for name, case in (("kept", kept), ("groups", groups)):
            if not re.search(options.cases, name):
                continue
            port, folder = free_port(), Path(home) / name
            with start_sluicemq(port, folder) as process:
                wait_for(port, process)
                case(port, process.pid, folder, options)
                process.terminate()
        if re.search(options.cases, "restart"):
            restart(Path(home) / "restart")


if __name__ == "__main__":
    main()
