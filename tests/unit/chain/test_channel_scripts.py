"""Goal: a channel answers as the transcripts in tests/scripts/channel say: methods in, frames out.

A whole broker without sockets. Its disk is done at once, unless the script stops it.
Commands:

    connect [NAME]                      a client, `a` if it has no name
    [NAME/]CHANNEL METHOD [field=value ...]
                                        of the first client if there is no NAME; a field that is not
                                        named has its default; tables are JSON
    [NAME/]CHANNEL basic.publish ... body=TEXT,TEXT [times=N] [property=value ...]
                                        a message for each text, N times
    disk stops | disk goes on           what must be on the disk waits, or is written
    alarm on | alarm off                memory is short
    lose [NAME]                         the client's socket breaks
    depth QUEUE                         what is in it

What comes out is one line a frame, in the order of the wire, with its channel; fields that are
empty, zero or false are left out, bodies are in quotes. A run of single confirms, or of deliveries,
has one line.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluicemq.amqp.events import Acks, ContentMethod, Deliveries, Event, MethodFrame
from sluicemq.amqp.frames import content_body, content_frames
from sluicemq.amqp.method import Method
from sluicemq.amqp.methods import ALL_METHODS, BasicPublish
from sluicemq.amqp.properties import BasicProperties
from sluicemq.amqp.types import Table
from support.transcripts import check, spans

from .client import Broker, Client

SCRIPTS = Path(__file__).parents[2] / "scripts" / "channel"
BY_NAME = {method.NAME: method for method in ALL_METHODS}
FRAME_MAX = 131072


def value_of(text: str, like: object) -> object:
    """A field's value, of the type of its default."""
    if isinstance(like, bool):
        return {"true": True, "false": False}[text]
    if isinstance(like, int):
        return int(text)
    if isinstance(like, dict):
        return json.loads(text)
    return text


def method_of(name: str, fields: dict[str, str]) -> Method:
    """A method with these fields, which are taken out of the dict."""
    kind = BY_NAME[name]
    default = kind()
    mine = {
        field: value_of(fields.pop(field), getattr(default, field))
        for field in kind.FIELDS
        if field in fields
    }
    return kind(**mine)


def properties_of(fields: dict[str, str]) -> bytes:
    """What is left of the fields of a publish."""
    numbers = {"delivery_mode", "priority"}
    typed: dict[str, int | str | Table] = {
        name: int(text) if name in numbers else json.loads(text) if name == "headers" else text
        for name, text in fields.items()
    }
    return BasicProperties(**typed).encode()  # type: ignore[arg-type]


def shown(event: Event) -> str:
    """One line for what a client reads."""
    if isinstance(event, Acks):
        return f"{event.channel} basic.ack of {spans(event.tags)}"
    if isinstance(event, Deliveries):
        again = " again" if event.redelivered else ""
        bodies = " ".join(f'"{content_body(content).decode()}"' for content in event.contents)
        return (
            f"{event.channel} basic.deliver to {event.consumer_tag}{again}:"
            f" {spans(event.tags)}: {bodies}"
        )
    assert isinstance(event, MethodFrame | ContentMethod), event
    method = event.method
    fields = [(field, getattr(method, field)) for field in method.FIELDS]
    words = [f"{field}={value_text(value)}" for field, value in fields if value not in ("", {}, 0)]
    body = f' "{content_body(event.content).decode()}"' if isinstance(event, ContentMethod) else ""
    return " ".join([str(event.channel), method.NAME, *words]) + body


def value_text(value: object) -> str:
    if value is True:
        return "true"
    return json.dumps(value) if isinstance(value, str) and " " in value else str(value)


class Interpreter:
    """Runs one transcript on one broker."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.clients: dict[str, Client] = {}
        self.disk_stopped = False

    def run(self) -> None:
        """Until nothing is left to do, but for what waits for a disk that stopped."""
        while self.broker.node.run(1000):
            continue
        if not self.disk_stopped:
            self.broker.run()
            self.broker.wait()

    def execute(self, line: str) -> str:
        word, *rest = line.split()
        act = getattr(self, f"do_{word}", None)
        if act is not None:
            output: str = act(*rest)
        else:
            self.say(word, rest)
            output = ""
        self.run()
        return "\n".join([line for line in [output, *self.heard()] if line])

    def say(self, where: str, words: list[str]) -> None:
        name, _, channel = where.rpartition("/")
        client = self.clients[name or "a"]
        fields = dict(word.split("=", 1) for word in words[1:])
        number = int(channel)
        bodies = fields.pop("body", "").split(",") * int(fields.pop("times", "1"))
        method = method_of(words[0], fields)
        frames = method.frame(number)
        if isinstance(method, BasicPublish):
            raw, fields = properties_of(fields), {}
            contents = [content_frames(number, raw, text.encode(), FRAME_MAX) for text in bodies]
            frames = b"".join(frames + content for content in contents)
        assert not fields, f"{words[0]} has no {', '.join(fields)}"
        client.post_bytes(frames)

    def heard(self) -> list[str]:
        several = len(self.clients) > 1
        return [
            f"{f'{name}/' * several}{shown(event)}"
            for name, client in self.clients.items()
            for event in client.events()
        ]

    def do_connect(self, name: str = "a") -> str:
        self.clients[name] = self.broker.connect()
        return ""

    def do_disk(self, *how: str) -> str:
        self.disk_stopped = {"stops": True, "goes on": False}[" ".join(how)]
        return ""

    def do_alarm(self, how: str) -> str:
        alarms = self.broker.node.broker.alarms
        if how == "on":
            alarms.raise_alarm("memory", "low on memory")
        else:
            alarms.clear_alarm("memory")
        return ""

    def do_lose(self, name: str = "a") -> str:
        self.clients.pop(name).lose()
        return ""

    def do_depth(self, name: str) -> str:
        depth = self.broker.node.broker.vhosts["/"].queues[name].machine.depth
        return f"{depth.ready} ready, {depth.unacked} unacknowledged"


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path, rewrite: bool) -> None:
    check(path, Interpreter().execute, rewrite)
