"""Silent strangers take every place there is: those who have logged in are served, the storage and
the control socket go on, and newcomers get in when the strangers are gone or have been given up.

The broker runs with few descriptors; the strangers are sockets that say nothing.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pika
import pytest

from support import broker
from support.broker import Ctl, Target

LIMIT = 160
STRANGERS = 2 * LIMIT
PATIENCE_SECONDS = 240.0
TRY_SECONDS = 5.0
"""Until one that may be refused without a word tries again."""
FINE = "storage_failed: no"
"""In the status of a broker whose storage works."""
LIMITED = f"""
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}))
sys.argv[0] = "sluicemq"
runpy.run_module("sluicemq", run_name="__main__", alter_sys=True)
"""


@contextmanager
def serving(tmp_path: Path, *settings: str) -> Iterator[Target]:
    errors = tmp_path / "stderr.txt"
    program = (sys.executable, "-c", LIMITED)
    process = broker.start(tmp_path / "data", *settings, program=program, errors=errors)
    try:
        yield broker.await_ready(process, errors)
    finally:
        code = broker.stop(process)
        assert code == 0, errors.read_text(errors="replace")[-4000:]


def strangers(target: Target, stack: ExitStack) -> None:
    for _ in range(STRANGERS):
        stranger = stack.enter_context(socket.socket())
        stranger.setblocking(False)
        stranger.connect_ex((target.host, target.port))


def connected(target: Target, seconds: float = PATIENCE_SECONDS) -> pika.BlockingConnection:
    parameters = pika.ConnectionParameters(
        target.host, target.port, heartbeat=0, socket_timeout=seconds, stack_timeout=2 * seconds
    )
    return pika.BlockingConnection(parameters)


def newcomer(target: Target) -> pika.BlockingConnection:
    """Somebody who tries until he gets in."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return connected(target, TRY_SECONDS)
        except pika.exceptions.AMQPError:
            assert time.monotonic() < deadline, "nobody gets in any more"
            time.sleep(0.1)


def store(connection: pika.BlockingConnection, count: int) -> None:
    """Durable queues, each with a message that is confirmed: files are made and synced."""
    channel = connection.channel()
    channel.confirm_delivery()
    for number in range(count):
        name = f"q{number}"
        channel.queue_declare(name, durable=True)
        channel.basic_publish(
            "", name, b"x" * 10_000, pika.BasicProperties(delivery_mode=2), mandatory=True
        )


def half_open(tmp_path: Path) -> int:
    return (tmp_path / "stderr.txt").read_text().count("closing new ones, the first")


@pytest.mark.parametrize("they", ["leave", "are given up"])
def test_others_go_on_beside_silent_strangers(tmp_path: Path, they: str) -> None:
    timeout = "60000" if they == "leave" else "3000"
    with ExitStack() as stack, serving(tmp_path, f"handshake_timeout={timeout}") as target:
        ctl = Ctl(target)
        with connected(target) as old:
            with ExitStack() as crowd:
                strangers(target, crowd)
                store(old, 20)
                assert FINE in ctl("status")
                assert "running" in ctl("list_connections", "state")
                if they == "leave":
                    crowd.close()
                stack.enter_context(newcomer(target))
                store(old, 20)
            stack.enter_context(newcomer(target))
            assert FINE in ctl("status")
            assert 1 <= half_open(tmp_path) <= 20
        stack.close()


def test_descriptors_that_clients_take_are_fewer_than_there_are(tmp_path: Path) -> None:
    """Logged in or not: the control socket and the storage have theirs."""
    with ExitStack() as stack, serving(tmp_path) as target:
        first = stack.enter_context(connected(target))
        for _ in range(LIMIT):
            try:
                stack.enter_context(connected(target, TRY_SECONDS))
            except pika.exceptions.AMQPError:
                break
        else:
            raise AssertionError("everybody got in")
        store(first, 30)
        assert FINE in Ctl(target)("status")
        stack.close()
        newcomer(target).close()
