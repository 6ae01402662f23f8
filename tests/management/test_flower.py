"""Goal: flower, the monitor of Celery, shows the queues of its broker. Method: the real flower, as
a process that a test asks for its broker page; and the request that it makes, as it was seen on the
wire.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
import requests

from support.management import Managed, managed
from support.ports import free_port
from support.waiting import await_truth

SHOWN = ("messages", "messages_unacknowledged", "messages_ready", "consumers", "idle_since")
"""What its page shows of a queue, and N/A for what is not there."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    """A broker with a queue of Celery's, in which three messages wait."""
    with managed(tmp_path_factory.mktemp("flower")) as found:
        where = pika.ConnectionParameters("127.0.0.1", found.target.port)
        with pika.BlockingConnection(where) as client:
            channel = client.channel()
            channel.confirm_delivery()
            channel.queue_declare("celery", durable=True)
            for _ in range(3):
                channel.basic_publish("", "celery", b"x")
        yield found


def test_the_request_of_its_broker_page(own: Managed) -> None:
    """The virtual host / is in the path as it is."""
    head = "GET /api/queues// HTTP/1.1\r\nConnection: close\r\nHost: 127.0.0.1\r\n"
    head += "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nUser-Agent: Mozilla/5.0 (compatible; pycurl)"
    head += "\r\nAccept-Encoding: gzip\r\n\r\n"
    with socket.create_connection(("127.0.0.1", own.port), 60) as plain:
        plain.sendall(head.encode())
        answer = b"".join(iter(lambda: plain.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 200"), answer
    [queue] = await_truth(lambda: set(SHOWN) <= (found := own.get("queues//"))[0].keys() and found)
    assert (queue["vhost"], queue["messages"]) == ("/", 3)


def test_its_broker_page_shows_the_queue(own: Managed, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "celery", "--broker", own.target.url, "flower"]
    command += ["--address=127.0.0.1", f"--port={port}"]
    command += [f"--broker-api=http://guest:guest@127.0.0.1:{own.port}/api/"]
    log = tmp_path / "flower.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=out, stderr=subprocess.STDOUT)

    def page() -> str:
        assert process.poll() is None, log.read_text()
        try:
            return requests.get(f"http://127.0.0.1:{port}/broker", timeout=60).text
        except requests.ConnectionError:
            return ""

    try:
        text = await_truth(page)
        row = text.partition("<tbody>")[2].partition("</tbody>")[0]
        cells = re.findall(r"<td[^>]*>\s*([^<]*?)\s*</td>", row)
        assert cells[:5] == ["celery", "3", "0", "3", "0"], (text, log.read_text())
        assert "N/A" not in cells[5]
    finally:
        process.terminate()
        process.wait(60)
