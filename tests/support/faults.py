"""The broker with faults that clients can call for: `python faults.py serve ...`.

A client that declares a queue with one of these names sets it off; everything else is as ever.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sluicemq.amqp.methods import QueueDeclare
from sluicemq.chain.channel import methods as channel_methods
from sluicemq.chain.channel.channel import Channel
from sluicemq.chain.connection.reader import Reader
from sluicemq.chain.queue.death_headers import DeadLetterHeaders
from sluicemq.chain.writer import Writer
from sluicemq.cli.main import main
from sluicemq.host.net import Connection
from sluicemq.host.rounds import Rounds
from sluicemq.manage.actions import ACTIONS

PROGRAM: Final = (sys.executable, str(Path(__file__)))
"""What stands before `serve`."""


class Mistake(Exception):
    """One of ours."""


def channel(_: Channel) -> None:
    raise Mistake


def memory(_: Channel) -> None:
    raise MemoryError


def deep(channel: Channel) -> None:
    deep(channel)


def queue(channel: Channel) -> None:
    """In another client's queue, in its next turn."""
    shell = channel.vhost.queues["work"]

    def mistaken(*_: object) -> None:
        raise Mistake

    shell.machine.serve = mistaken  # type: ignore[method-assign]
    shell.schedule()


def stream(channel: Channel) -> None:
    """In another client's stream, in its next turn."""
    shell = channel.vhost.queues["log"]

    def mistaken(*_: object) -> None:
        raise Mistake

    shell.machine.serve = mistaken  # type: ignore[method-assign]
    shell.schedule()


def store(channel: Channel) -> None:
    channel.vhost.store.post("what it does not know")


def stall(_: Channel) -> None:
    """For a while, as code that waits for something does."""
    time.sleep(3)


def spin(_: Channel) -> None:
    """For ever, as code that goes in a circle does."""
    while True:
        pass


def flood(channel: Channel) -> None:
    """Actors that are never done: the scheduler is always busy."""
    for other in channel.reader.channels.values():
        other.flood = other.turn_ended  # type: ignore[attr-defined]
        other.turn_ended = other.schedule  # type: ignore[method-assign]
        other.schedule()


FAULTS: Final[dict[str, Callable[[Channel], None]]] = {
    f"fault-{each.__name__}": each
    for each in (channel, memory, deep, queue, stream, store, stall, spin, flood)
}


def at(kind: type, name: str, word: bytes, of: Callable[..., bytes]) -> None:
    """That method has a fault when what it is about has that word in it."""
    original = getattr(kind, name)

    def method(self: Any, *arguments: Any) -> Any:
        if word in of(self, *arguments):
            raise Mistake
        return original(self, *arguments)

    setattr(kind, name, method)


def plant() -> None:
    declare = channel_methods.METHODS[QueueDeclare]

    def declaring(channel: Channel, method: QueueDeclare) -> None:
        fault = FAULTS.get(method.queue)
        if fault is not None:
            fault(channel)
        declare(channel, method)

    channel_methods.METHODS[QueueDeclare] = declaring

    def command(*_: object) -> None:
        raise Mistake

    ACTIONS["environment"] = command
    Connection.is_coded = True  # so that what is read without TLS passes `decoded`, too
    at(Connection, "decoded", b"fault-socket", lambda _, data: data)
    at(Connection, "send", b"fault-writer", lambda _, data: data)
    at(Reader, "receive", b"fault-reader", lambda _, message: getattr(message, "data", b""))
    at(Writer, "take", b"fault-frames", lambda _, frames: b"".join(frames.pieces))
    at(DeadLetterHeaders, "letter", b"fault-letter", lambda _, content: content)
    run = Rounds.run

    def run_loop(self: Rounds) -> None:
        if any(b"fault-loop" in chunk for chunk in heard):
            raise Mistake
        run(self)

    heard: list[bytes] = []
    decoded = Connection.decoded

    def listening(self: Connection, data: bytes) -> bytes:
        heard[:] = [data]
        return decoded(self, data)

    Connection.decoded = listening  # type: ignore[method-assign]
    Rounds.run = run_loop  # type: ignore[method-assign]


if __name__ == "__main__":
    plant()
    main()
