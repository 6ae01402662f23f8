"""Goal: a crowd finds the management process within its bounds: so many pages are live at a time,
scrapes that come together are all answered, who does not read is not waited for, and what it holds
of memory stays small. Method: sockets, WebSockets, threads; a real broker. No times are measured.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from support.management import Managed, managed
from support.processes import children_of
from support.waiting import await_truth

LIVE_MAX = 100
SCRAPES = 100
DEAF = 40
ROOM_BYTES = 200 << 20
"""How much more a crowd may make it hold: 128 MiB of answers, and what Python needs for that."""

QUEUES = 300
GUEST = "Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with managed(tmp_path_factory.mktemp("crowd")) as found:
        queues = [{"name": f"q{number}", "vhost": "/", "durable": True} for number in range(QUEUES)]
        for queue in queues:
            queue |= {"auto_delete": False, "arguments": {}}
        found.do("POST", "definitions", json={"queues": queues})
        yield found


def resident_bytes(own: Managed) -> int:
    [child] = children_of(own.target.pid or 0)
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{child}/status").read_text())
    assert found
    return int(found[1]) * 1024


def test_so_many_pages_are_live_and_no_more(own: Managed) -> None:
    session = requests.Session()
    page = {"X-SluiceMQ-Page": "1"}
    given = {"name": "guest", "password": "guest"}
    session.post(f"{own.url}/session", json=given, headers=page, timeout=60)
    cookie = "; ".join(f"{name}={value}" for name, value in session.cookies.items())
    place = own.url.replace("http:", "ws:") + "/live"

    def opened(_: int) -> Any:
        headers = {"Cookie": cookie}
        return connect(place, additional_headers=headers, origin=own.url, open_timeout=60)

    with ExitStack() as sockets, ThreadPoolExecutor(10) as pool:
        lives = [sockets.enter_context(each) for each in pool.map(opened, range(LIVE_MAX))]
        for each in lives:
            each.send(json.dumps({"watch": ["queues?page=1&columns=name"]}))
        for each in lives:
            assert json.loads(each.recv(60))["answer"]["total_count"] == QUEUES
        late = sockets.enter_context(opened(0))
        with pytest.raises(ConnectionClosed):
            late.recv(60)
        lives[0].close()
        await_truth(lambda: is_live(sockets.enter_context(opened(0))), 0.1)


def is_live(socket: Any) -> bool:
    try:
        socket.send('{"watch": ["whoami"]}')
        return "guest" in socket.recv(60)
    except ConnectionClosed:
        return False


def test_scrapes_that_come_together_are_all_answered_among_readers_who_do_not_read(
    own: Managed,
) -> None:
    before = resident_bytes(own)
    with ExitStack() as sockets:
        for _ in range(DEAF):
            deaf = sockets.enter_context(socket.socket())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", own.port))
            deaf.sendall(f"GET /api/queues HTTP/1.1\r\nHost: x\r\n{GUEST}\r\n".encode())

        def scrape(_: int) -> int:
            return requests.get(f"{own.url}/metrics/per-object", timeout=120).status_code

        with ThreadPoolExecutor(SCRAPES) as pool:
            assert {*pool.map(scrape, range(SCRAPES))} <= {200, 503}
        assert scrape(0) == 200
        assert resident_bytes(own) - before < ROOM_BYTES
        assert own.get("overview")["object_totals"]["queues"] == QUEUES
