"""Goal: a client of the control socket that goes away is not worked for any more.
Method: the server over a node whose turns the test gives; a client that says something and is gone.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from sluicemq.amqp.methods import QueueDeclare
from sluicemq.host import control_session
from sluicemq.host.control import commands_of
from sluicemq.host.control_session import ControlSession

from ..manage.bench import Bench


def asked(bench: Bench, command: str) -> ControlSession:
    """Who asks has gone before the broker gives a turn; the session has seen that."""
    session = ControlSession(commands_of(bench.node))

    async def serve() -> None:
        reader = asyncio.StreamReader()
        reader.feed_eof()
        line = json.dumps({"command": command}).encode()
        with pytest.raises(ConnectionAbortedError):
            await anext(session.answers(line, reader))

    asyncio.run(serve())
    return session


@pytest.mark.parametrize("command", ["list_queues", "chain", "export_definitions"])
def test_nothing_is_made_for_who_has_gone(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(control_session, "LOOK_SECONDS", 0.01)
    bench = Bench()
    declares = [QueueDeclare(queue=f"q{number}", nowait=True).frame(1) for number in range(500)]
    bench.say(b"".join(declares))
    session = asked(bench, command)
    assert session.tasks == 0
    assert not bench.node.run(2), "it still works"
