"""A broker with its management process beside it, and somebody who asks that."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from support import broker
from support.broker import Target

SAID = re.compile(r"^management (http://\S+)((?: http\S*)*)$", re.MULTILINE)


@dataclass(frozen=True)
class Managed:
    """A broker, and where its management process listens. `others` are further places, such as the
    one for metrics."""

    target: Target
    url: str
    others: tuple[str, ...]
    errors: Path

    def ask(
        self,
        method: str,
        path: str,
        *,
        user: str = "guest",
        password: str = "guest",
        **more: Any,
    ) -> requests.Response:
        """The answer to one request below /api."""
        return requests.request(
            method, f"{self.url}/api/{path}", auth=(user, password), timeout=60, **more
        )

    def get(self, path: str, **more: Any) -> Any:
        """What is there; it must be."""
        answer = self.ask("GET", path, **more)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    def do(self, method: str, path: str, *codes: int, **more: Any) -> requests.Response:
        """A request that must succeed, or have one of these codes."""
        answer = self.ask(method, path, **more)
        assert answer.status_code in (codes or (200, 201, 204)), (path, answer.text)
        return answer

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


def said(errors: Path, after: int = 0) -> re.Match[str]:
    """What the management process says last of where it listens, when it says it."""
    deadline = time.monotonic() + broker.START_SECONDS
    while True:
        found = [*SAID.finditer(errors.read_text(errors="replace"))]
        if len(found) > after:
            return found[-1]
        assert time.monotonic() < deadline, errors.read_text(errors="replace")[-4000:]
        time.sleep(0.02)


@contextmanager
def managed(directory: Path, *settings: str) -> Iterator[Managed]:
    """A broker with a management process, which samples often."""
    own = ("management.enabled=true", "management.port=0", "management.sample_interval_ms=200")
    errors = directory / "stderr.txt"
    with broker.serving(directory, *own, *settings) as target:
        found = said(errors)
        yield Managed(target, found[1], tuple(found[2].split()), errors)
