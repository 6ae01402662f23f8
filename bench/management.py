"""What the management process costs the broker, and what a crowd can make it hold.

    PYTHONPATH=tests .venv/bin/python bench/management.py cost --amqpload PATH [--queues 1000]
    PYTHONPATH=tests .venv/bin/python bench/management.py lists [--queues 10000]
    PYTHONPATH=tests .venv/bin/python bench/management.py crowd --amqpload PATH

`cost`: the broker's CPU time a message, in turns with nobody at the management process and with a
page on the overview and a scrape each 5 s; and what part of a core these take of a broker that has
nothing else to do. `lists`: how long lists of many queues take over HTTP, and the CPU time of both
processes. (How long the broker's loop is held by them says bench/turns.py, list_records.) `crowd`:
50 live sockets, 100 scrapes at a time, 100 readers who do not read, 200 connections that say
nothing, bodies of 100 MB and wrong passwords, all at once: memory and CPU time a message meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pika
import requests
from brokers import resident_megabytes, run
from history import keep
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from support.management import Managed, managed
from support.processes import children_of

LOAD: Final = "-p 4 -c 4 -q 4 -s 1024 -L 1000 -f 1000 -a 1"
OWN: Final = {"X-SluiceMQ-Page": "1"}
SCRAPE_S: Final = 5.0
TICKS: Final = os.sysconf("SC_CLK_TCK")
Work = Callable[[threading.Event], None]
"""What is done until the event is set."""

GUEST: Final = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"


def cpu_s(pid: int) -> float:
    """CPU time that a process has taken so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def broker(queues: int) -> Iterator[tuple[Managed, int, int]]:
    """A broker with so many queues and a management process, and the ids of both processes."""
    interval = "management.sample_interval_ms=5000"
    with tempfile.TemporaryDirectory() as home, managed(Path(home), interval) as own:
        parameters = pika.ConnectionParameters("127.0.0.1", own.target.port)
        with pika.BlockingConnection(parameters) as client:
            channel = client.channel()
            for number in range(queues):
                channel.queue_declare(f"queue-{number}", durable=True)
        pid = own.target.pid or 0
        yield own, pid, children_of(pid)[0]


@contextmanager
def at_work(works: Sequence[Work]) -> Iterator[None]:
    """Threads that do these until the end."""
    over = threading.Event()
    threads = [threading.Thread(target=work, args=(over,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(30)


OVERVIEW: Final = ("overview", "nodes")
"""What the page asks for live where somebody looks at the overview."""


def page(own: Managed, *watched: str) -> Work:
    """Somebody who looks at a page that asks for these live."""

    def look(over: threading.Event) -> None:
        session = requests.Session()
        given = {"name": "guest", "password": "guest"}
        session.post(f"{own.url}/session", json=given, headers=OWN, timeout=60)
        cookie = "; ".join(f"{each.name}={each.value}" for each in session.cookies)
        place = own.url.replace("http:", "ws:") + "/live"
        headers = {"Cookie": cookie}
        with (
            suppress(WebSocketException, OSError),
            connect(place, additional_headers=headers, origin=own.url) as live,  # type: ignore[arg-type]
        ):
            live.send(json.dumps({"watch": watched}))
            while not over.is_set():
                with suppress(TimeoutError):
                    live.recv(0.5)

    return look


def scrapes(own: Managed, each_s: float) -> Work:
    """Somebody who scrapes."""

    def scrape(over: threading.Event) -> None:
        while not over.wait(each_s):
            with suppress(requests.RequestException):
                requests.get(f"{own.url}/metrics", timeout=60)

    return scrape


def cost_of_a_message(own: Managed, pid: int, options: argparse.Namespace) -> float:
    """The broker's CPU time a message under load, in microseconds."""
    told = run(options.amqpload, own.target.port, pid, LOAD, options.seconds)
    return float(told["broker"]["cpu_us_per_msg"])


def part_of_a_core(pid: int, works: Sequence[Work], seconds: float) -> float:
    """What part of a core the broker takes while these work, without messages."""
    with at_work(works):
        time.sleep(2)
        began, before = time.monotonic(), cpu_s(pid)
        time.sleep(seconds)
        return (cpu_s(pid) - before) / (time.monotonic() - began)


def cost(options: argparse.Namespace) -> None:
    """Print what one page and one scraper cost."""
    with broker(options.queues) as (own, pid, child):
        watched = [page(own, *OVERVIEW), scrapes(own, SCRAPE_S)]
        os.kill(child, signal.SIGSTOP)
        nobody = part_of_a_core(pid, [], options.seconds)
        os.kill(child, signal.SIGCONT)
        alone, idle = (part_of_a_core(pid, works, options.seconds) for works in ([], watched))
        each: dict[str, list[float]] = {"alone": [], "watched": []}
        for _ in range(options.repeats):
            for name, works in (("alone", []), ("watched", watched)):
                with at_work(works):
                    each[name].append(cost_of_a_message(own, pid, options))
        us = {name: statistics.median(values) for name, values in each.items()}
    change = us["watched"] / us["alone"]
    print(f"{options.queues} queues, idle: {nobody:.2%} of a core while nobody asks,", end="")
    print(f" {alone:.2%} with samples, {idle:.2%} with a page and scrapes besides")
    print(f"under load: {us['alone']:.3f} us/msg alone, {us['watched']:.3f} with a page", end="")
    print(f" and scrapes: {change:.3f}")
    keep(
        "management", "a page and a scrape each 5 s", change=change, nobody=nobody, idle=idle, **us
    )


def lists(options: argparse.Namespace) -> None:
    """Print what lists of many queues cost."""
    with broker(options.queues) as (own, pid, child):
        for name, path in (
            ("all queues", "queues"),
            ("all queues, two columns", "queues?columns=name,messages"),
            ("a page of 100 by name", "queues?page=1&sort=name"),
            ("a page of 100 by rate", "queues?page=1&sort=message_stats.publish_details.rate"),
        ):
            time.sleep(1)
            began, ours, theirs = time.monotonic(), cpu_s(child), cpu_s(pid)
            size = len(own.ask("GET", path).content)
            took, ours, theirs = time.monotonic() - began, cpu_s(child) - ours, cpu_s(pid) - theirs
            print(f"{name}: {size / 1e6:.1f} MB in {took:.2f} s", end="")
            print(f"; CPU time: management {ours:.2f} s, broker {theirs:.2f} s", flush=True)
            keep("management", f"{options.queues} queues, {name}", s=took, ours=ours, broker=theirs)


def crowd(options: argparse.Namespace) -> None:
    """Print what a crowd makes both processes hold."""
    with broker(options.queues) as (own, pid, child):
        places = ("127.0.0.1", own.port)

        def silent(over: threading.Event) -> None:
            while not over.is_set():
                held = []
                for _ in range(200):
                    with suppress(OSError):
                        held.append(socket.create_connection(places))
                        held[-1].sendall(b"GET / HT")
                over.wait(12)
                for each in held:
                    each.close()

        def deaf(over: threading.Event) -> None:
            held = []
            for _ in range(100):
                with suppress(OSError):
                    each = socket.create_connection(places)
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    each.sendall(f"GET /api/queues HTTP/1.1\r\nHost: x\r\n{GUEST}\r\n".encode())
                    held.append(each)
            over.wait()

        def heavy(over: threading.Event) -> None:
            head = f"POST /api/definitions HTTP/1.1\r\nHost: x\r\n{GUEST}"
            while not over.wait(0.1):
                with suppress(OSError), socket.create_connection(places) as each:
                    each.sendall(f"{head}Content-Length: 100000000\r\n\r\n".encode())
                    for _ in range(100):
                        each.sendall(bytes(1_000_000))

        def guess(over: threading.Event) -> None:
            while not over.is_set():
                with suppress(requests.RequestException):
                    own.ask("GET", "whoami", user="x", password="y")

        memory = {"broker": resident_megabytes(pid), "management": resident_megabytes(child)}
        calm = cost_of_a_message(own, pid, options)
        works = [silent, deaf, *[heavy] * 3, *[guess] * 3]
        works += [page(own, *OVERVIEW, "queues?page=1") for _ in range(50)]
        works += [scrapes(own, 0.0) for _ in range(100)]
        taken = part_of_a_core(pid, works, options.seconds)
        with at_work(works):
            time.sleep(5)
            crowded = cost_of_a_message(own, pid, options)
            most = {"broker": resident_megabytes(pid), "management": resident_megabytes(child)}
        assert own.get("overview")["node"]
    for name, before in memory.items():
        print(f"{name}: {before:.0f} MB before, {most[name]:.0f} MB in the crowd")
    print(f"broker: {taken:.2%} of a core without messages, for the crowd alone")
    print(f"broker: {calm:.3f} us/msg before, {crowded:.3f} in the crowd: {crowded / calm:.3f}")
    keep("management", "a crowd", change=crowded / calm, part=taken, **most)


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("cost", "lists", "crowd"))
    parser.add_argument("--amqpload", type=Path)
    parser.add_argument("--queues", type=int, default=None)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.queues is None:
        options.queues = 10_000 if options.what == "lists" else 1000
    {"cost": cost, "lists": lists, "crowd": crowd}[options.what](options)


if __name__ == "__main__":
    main()
