"""RabbitMQ's HTTP API as far as queues are listed, for tests: it answers as RabbitMQ was seen to,
and goes wrong as it is told.
"""

from __future__ import annotations

import json
import re
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

Answer = tuple[int, bytes]

PAGE_SIZE_MAX = 500
LOGIN = "guest:guest"


def item(name: str, kind: str = "classic", *, exclusive: bool = False) -> dict[str, Any]:
    """A queue, with the columns that are asked for."""
    arguments = {} if kind == "classic" else {"x-queue-type": kind}
    return {"arguments": arguments, "exclusive": exclusive, "name": name, "type": kind}


class Api(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        target = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(target.query).items()}
        self.server.asked.append(query)
        wanted = "Basic " + b64encode(self.server.login.encode()).decode()
        if self.headers["Authorization"] != wanted:
            self.give((401, b'{"error":"not_authorised","reason":"Login failed"}'))
        elif unquote(target.path) != f"{self.server.path}/api/queues/{self.server.virtual_host}":
            self.give((404, b'{"error":"Object Not Found","reason":"Not Found"}'))
        else:
            self.give(self.server.answer(query))

    def give(self, answer: Answer) -> None:
        status, body = answer
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n"
        if status in range(300, 400):
            head += "Location: http://elsewhere/\r\n"
        self.server.send(self.wfile.write, f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
        self.server.send(self.wfile.write, body)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Silence."""


class Server(ThreadingHTTPServer):
    """Serves while it is a context. `queues` are listed; `answer` and `send` may be others."""

    daemon_threads = True

    def __init__(self, *names: str, login: str = LOGIN) -> None:
        super().__init__(("127.0.0.1", 0), Api)
        self.queues = [item(name) for name in names]
        self.login = login
        self.path = ""
        self.virtual_host = "/"
        self.asked: list[dict[str, str]] = []
        """The query of each request."""
        self.answer: Callable[[dict[str, str]], Answer] = self.page
        self.send: Callable[[Callable[[bytes], Any], bytes], None] = lambda write, data: write(data)

    def handle_error(self, *_: object) -> None:
        """A client that has hung up: that is what is tested."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def page(self, query: dict[str, str]) -> Answer:
        """As RabbitMQ pages: a regular expression is searched for, in octets, in any case."""
        size, number = int(query["page_size"]), int(query["page"])
        assert size <= PAGE_SIZE_MAX
        found = self.queues[:]
        if query.get("use_regex") == "true":
            pattern = re.compile(query["name"].encode(), re.I)
            found = [each for each in found if pattern.search(each["name"].encode())]
        if query.get("sort") == "name":
            found.sort(key=lambda each: str(each["name"]))
        pages = -(-len(found) // size) or 1
        if number > pages:
            return 400, b'{"error":"bad_request","reason":"page_out_of_range"}'
        items = found[(number - 1) * size : number * size]
        counts = {"filtered_count": len(found), "item_count": len(items), "page": number}
        more = {"page_count": pages, "page_size": size, "total_count": len(self.queues)}
        return 200, json.dumps(counts | more | {"items": items}).encode()

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def trickle(write: Callable[[bytes], Any], _data: bytes) -> None:
    """An octet now and then, without end: each alone is in time."""
    write(b"HTTP/1.1 200 ")
    while True:
        time.sleep(0.02)
        write(b"X")
