"""RabbitMQ's HTTP API, by which the lab asks about a target's nodes; SluiceMQ has it, too."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request, urlopen

from sluicemq.client.address import Address, without_password
from sluicemq.client.session import BrokerError
from sluicemq.errors import Refused
from sluicemq.lab.target_admin import (
    IN_FLOW,
    MIRROR_PATTERN,
    MIRROR_POLICY,
    MIRRORS,
    NodeLook,
    TargetAdmin,
    TargetNode,
)

ANSWER_TIMEOUT_S: Final = 60.0
"""Seconds to wait for an answer: a broker under load answers late."""

FIGURES_S: Final = 60.0
"""Seconds to wait for the figures of a running node: those of one that was just overloaded are
missing for a while."""

RETRY_S: Final = 1.0

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
DENIED: Final = (401, 403)
NOT_FOUND: Final = 404


class ManagementApi(TargetAdmin):
    """Asks one node's HTTP API about all nodes. The URL may name the user; else it is that of the
    AMQP target. Raises Refused when `url` is no such URL."""

    interval_s: ClassVar[int] = 5  # RabbitMQ updates its own figures that rarely

    def __init__(self, url: str, target: Address) -> None:
        self._shown = f"--management {without_password(url)}"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise Refused(f"{self._shown} is no URL: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Refused(f"{self._shown}: expected http://host:port")
        user, password = target.username, target.password
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
        login = b64encode(f"{user}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self._base = f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
        self._vhost = quote(target.virtual_host, safe="")
        self._names: Sequence[str] = ()

    def nodes(self) -> Sequence[TargetNode]:
        deadline = time.monotonic() + FIGURES_S
        while True:
            rows = sorted(self._ask("/api/nodes"), key=lambda row: str(row["name"]))
            silent = [row for row in rows if row.get("running") and not row.get("os_pid")]
            if not silent or time.monotonic() > deadline:
                break
            time.sleep(RETRY_S)
        found = [TargetNode(row["name"], int(row["os_pid"])) for row in rows if row.get("os_pid")]
        self._names = [node.name for node in found]
        return found

    def look(self, queues: Sequence[str]) -> Sequence[NodeLook]:
        connections = self._ask("/api/connections?columns=state,node")
        held = Counter(row.get("node") for row in connections if row.get("state") == IN_FLOW)
        wanted = set(queues)
        rows = self._ask(f"/api/queues/{self._vhost}?columns=name,leader,node")
        leaders = Counter(
            row.get("leader") or row.get("node") for row in rows if row.get("name") in wanted
        )
        return [NodeLook(held[name], leaders[name]) for name in self._names]

    def set_mirrors(self) -> None:
        policy = {"pattern": MIRROR_PATTERN, "definition": MIRRORS, "apply-to": "queues"}
        self._ask(self._policy, "PUT", policy)

    def clear_mirrors(self) -> None:
        self._ask(self._policy, "DELETE")

    @property
    def _policy(self) -> str:
        return f"/api/policies/{self._vhost}/{MIRROR_POLICY}"

    def _ask(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """Return the answer as JSON; None when it is empty."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._base + path, data, self._headers, method=method)
        try:
            with urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:
                text = answer.read(ANSWER_BYTES_MAX)
            return json.loads(text) if text else None
        except HTTPError as error:
            reason = f"{self._shown}: {method} {path} is answered {error.code} {error.reason}"
            if error.code in DENIED:
                raise Refused(f"{reason}; the user needs the tag administrator") from error
            if error.code == NOT_FOUND and method == "DELETE":
                return None
            raise BrokerError(reason) from error
        except (URLError, OSError) as error:
            raise BrokerError(f"{self._shown}: {getattr(error, 'reason', error)}") from error
        except ValueError as error:
            raise Refused(f"{self._shown}: what answers there is no HTTP API") from error
