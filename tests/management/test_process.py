"""Goal: the management process lives beside the broker and not in it: it dies and comes back, and
ends with the broker; what is hostile is bounded. Method: a real broker, signals, sockets.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
import requests

from support import broker
from support.broker import ENVIRONMENT
from support.management import Managed, managed, said
from support.processes import children_of
from support.waiting import await_truth

BODY_BYTES_MAX = 100_000


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    limit = f"management.body_bytes_max={BODY_BYTES_MAX}"
    with managed(tmp_path_factory.mktemp("process"), limit) as found:
        yield found


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_another_one_serves_the_same_broker_beside_the_first(own: Managed) -> None:
    command = [sys.executable, "-m", "sluicemq", "management", "--port", "0"]
    command += ["--broker-port", str(own.target.port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT)
    assert process.stdout is not None
    name, url = process.stdout.readline().decode().split()
    assert name == "management"
    own.do("PUT", "queues/%2F/shared", json={})
    found = requests.get(f"{url}/api/queues/%2F/shared", auth=("guest", "guest"), timeout=60)
    assert found.json()["name"] == "shared"
    process.terminate()
    assert process.wait(60) == 0
    process.stdout.close()


def test_guesses_at_a_password_are_slowed_down_and_logged(own: Managed) -> None:
    def guess(password: str) -> tuple[int, float]:
        began = time.monotonic()
        code = own.ask("GET", "whoami", user="gu\x1best", password=password).status_code
        return code, time.monotonic() - began

    guesses = [guess(str(number)) for number in range(6)]
    assert {code for code, _ in guesses} == {401}
    assert guesses[-1][1] >= 0.4  # 0.1 s after three failures, twice as long each time
    log = own.errors.read_text()
    assert "HTTP access denied from 127.0.0.1: user 'gu\\x1best'" in log
    own.ask("GET", "whoami")  # the right one forgives the address


def test_a_body_that_is_too_large_is_refused_without_being_read(own: Managed) -> None:
    with socket.create_connection(("127.0.0.1", own.port)) as plain:
        head = "POST /api/definitions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n"
        head += "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n\r\n"
        plain.sendall(head.encode() + b"{" * 1000)
        assert plain.recv(100).startswith(b"HTTP/1.1 413")

    def pieces() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 10_000

    own.do("POST", "definitions", 413, data=pieces())


def test_connections_that_say_nothing_are_cut_off_and_harm_nobody(own: Managed) -> None:
    silent = [socket.create_connection(("127.0.0.1", own.port)) for _ in range(50)]
    silent[0].sendall(b"GET /api/whoami HTTP/1.1\r\nHost: ")
    assert own.get("whoami")["name"] == "guest"
    for each in silent:
        each.settimeout(broker.START_SECONDS)
        assert each.recv(1) == b""
        each.close()


def test_it_comes_back_when_it_was_killed_and_the_broker_is_not_moved(own: Managed) -> None:
    own.do("PUT", "queues/%2F/before", json={})
    [child] = children_of(own.target.pid or 0)
    os.kill(child, signal.SIGKILL)
    url = said(own.errors, after=1)[1]
    found = await_truth(
        lambda: requests.get(f"{url}/api/queues/%2F/before", auth=("guest", "guest"), timeout=60)
    )
    assert found.json()["name"] == "before"
    assert "the management process has ended with code -9" in own.errors.read_text()


def test_the_broker_is_ready_and_works_though_it_cannot_begin(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = ("management.enabled=true", f"management.port={port}")
        with broker.serving(tmp_path, *settings) as target:
            errors = tmp_path / "stderr.txt"
            await_truth(
                lambda: f"management.tcp.port = {port}: cannot listen" in errors.read_text()
            )
            pika.BlockingConnection(pika.ConnectionParameters(port=target.port)).close()


def test_it_ends_with_the_broker_however_that_ends(tmp_path: Path) -> None:
    errors = tmp_path / "stderr.txt"
    settings = ("management.enabled=true", "management.port=0")
    process = broker.start(tmp_path, *settings, errors=errors)
    broker.await_ready(process, errors)
    said(errors)
    [child] = children_of(process.pid)
    process.kill()
    process.wait()
    await_truth(lambda: not is_there(child))
    assert process.stdout is not None
    process.stdout.close()
