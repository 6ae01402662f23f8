"""What the system alone takes for a message: less CPU time than that no broker can need.

    .venv/bin/python bench/floor.py [--seconds 3] [--repeats 3]

A process makes the system calls that no broker gets around: it waits for sockets, reads what is
published, writes the delivery and the confirm, reads the acknowledgement. It does nothing with what
it reads, and only its time in the system is counted, which includes what the loopback does for
whoever receives. Clients are another process. The cases are those of `bench/broker.py` whose
messages come alone, or are large and come as fast as the sockets take them; there is no wait for
the disk and no other node in them. Sockets that are full cost more than a broker that holds its
publishers pays, if clients share its processor: then the last four cases are no floor.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import select
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from history import keep

PUBLISH_HEAD: Final = 76
"""Bytes of a publish beside the body: the method, the header and the heads of three frames."""

ANSWER: Final = bytes(21)
"""As long as a confirm, and as an acknowledgement."""

READ: Final = 1 << 20
WARM_S: Final = 1.0


@dataclass(frozen=True)
class Case:
    """Clients that publish to, and consume from, the process. `rate` is a publisher's messages a
    second; with None it has one message under way, or as many as the sockets take, then without
    confirms."""

    name: str
    pairs: int
    body: int
    rate: float | None = None
    is_bulk: bool = False

    @property
    def message(self) -> int:
        """Bytes of a publish, and about those of a delivery."""
        return self.body + PUBLISH_HEAD


CASES: Final = (
    Case("500 publishers x 30/s, 500 consumers", 500, 1024, rate=30),
    Case("one in flight", 1, 1024),
    Case("flat out", 1, 1024, is_bulk=True),
    Case("16 KiB bodies", 1, 1 << 14, is_bulk=True),
    Case("64 KiB bodies", 1, 1 << 16, is_bulk=True),
    Case("1 MiB bodies", 1, 1 << 20, is_bulk=True),
)


def serve(listener: socket.socket, case: Case, seconds: float) -> float:
    """Microseconds in the system that a message takes, of `seconds` after the warm-up."""
    publishers, consumers = {}, []
    poll = select.epoll()
    for number in range(2 * case.pairs):
        each = listener.accept()[0]
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if number < case.pairs:
            publishers[each.fileno()] = each
        else:
            consumers.append(each)
        poll.register(each, select.EPOLLIN)
    readers = {each.fileno(): each for each in (*publishers.values(), *consumers)}
    place, delivery = memoryview(bytearray(READ)), memoryview(bytes(READ))
    rests = dict.fromkeys(publishers, 0)
    turn = got = 0
    spent = began = None
    start = time.monotonic()
    while (now := time.monotonic()) < start + WARM_S + seconds:
        if began is None and now > start + WARM_S:
            began, got, spent = now, 0, resource.getrusage(resource.RUSAGE_SELF).ru_stime
        for number, _ in poll.poll(1):
            size = readers[number].recv_into(place)
            if number not in publishers:
                continue
            consumer = consumers[turn % case.pairs]
            turn += 1
            send(consumer, delivery[:size])
            count, rests[number] = divmod(rests[number] + size, case.message)
            got += count
            if count and not case.is_bulk:
                send(publishers[number], memoryview(ANSWER))
    assert spent is not None
    return (resource.getrusage(resource.RUSAGE_SELF).ru_stime - spent) / got * 1e6


def send(to: socket.socket, part: memoryview) -> None:
    """Write all of it, in as few calls as there is room."""
    while part:
        part = part[to.send(part) :]


def publish_and_consume(port: int, case: Case) -> None:
    """Be all clients, until the process at the other end closes the sockets."""
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(2 * case.pairs)]
    for each in sockets:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    publishers, consumers = sockets[: case.pairs], sockets[case.pairs :]
    if case.is_bulk:
        threading.Thread(target=publish_all, args=(publishers[0], case), daemon=True).start()
    poll = select.epoll()
    by_number = {each.fileno(): each for each in sockets}
    for each in sockets:
        poll.register(each, select.EPOLLIN)
    consuming = dict.fromkeys((each.fileno() for each in consumers), 0)
    message, place = bytes(case.message), bytearray(READ)
    interval = 1 / case.rate / case.pairs if case.rate else 0.0
    due, following = time.monotonic(), itertools.cycle(publishers)
    if not case.rate and not case.is_bulk:
        publishers[0].sendall(message)
    while True:
        while case.rate and due <= time.monotonic():
            next(following).sendall(message)
            due += interval
        for number, _ in poll.poll(0.001 if case.rate else 1):
            size = by_number[number].recv_into(place)
            if not size:
                return
            if number not in consuming:
                continue
            count, consuming[number] = divmod(consuming[number] + size, case.message)
            if count:
                by_number[number].sendall(ANSWER)
                if not case.rate and not case.is_bulk:
                    publishers[0].sendall(message)


def publish_all(publisher: socket.socket, case: Case) -> None:
    """Write as fast as the socket takes it, some messages a call, until the other end closes."""
    some = bytes(case.message) * max(1, READ // 4 // case.message)
    with suppress(ConnectionError):
        while True:
            publisher.sendall(some)


@contextmanager
def clients(case: Case) -> Iterator[socket.socket]:
    """A process with all clients; yields the socket that accepts them."""
    with socket.create_server(("127.0.0.1", 0), backlog=2 * case.pairs) as listener:
        child = os.fork()
        if not child:
            try:
                publish_and_consume(listener.getsockname()[1], case)
            finally:
                os._exit(0)
        try:
            yield listener
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)


def main() -> None:
    """Measure each case, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    for case in CASES:
        found = []
        for _ in range(arguments.repeats):
            with clients(case) as listener:
                found.append(serve(listener, case, arguments.seconds))
        us = statistics.median(found)
        keep("floor", case.name, us=us)
        print(f"{case.name:<42} {us:8.2f} us in the system ({min(found):.2f} to {max(found):.2f})")


if __name__ == "__main__":
    main()
