"""An attack: what it does, the broker it is made for, and its process.

    .venv/bin/python -m hostile.attack NAME PORT

It prepares, prints `ready`, waits for a line with the seconds that count, and presses the broker
until that is gone or the process gets SIGTERM; then it prints what it managed as a line of JSON.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hostile import frames
from hostile.link import CLOSED_CHANNEL, OPENED_CHANNEL, Gone, Link, press
from sluicemq.amqp.methods import QueueDeclare, QueueDeclareOk
from sluicemq.cli.control_client import ask
from sluicemq.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sluicemq.amqp.method import Method
    from sluicemq.amqp.types import Table

NICENESS = 5
"""An attacker takes no processor from who is measured."""
LIMIT_MIB = 1024
"""Of the broker's memory where it is not what is attacked."""
ANSWERS_BYTES = 1 << 20
"""More than the answers on all channels of a connection."""
SHUTDOWN = "320"
"""The code of every connection.close at the broker's own end."""
MODULES = ("connecting", "declaring", "publishing", "expiring", "consuming", "managing")
ATTACKS: dict[str, Attack] = {}
"""By name, in the order of the table; `load` fills it."""


class Stopped(Exception):
    """SIGTERM."""


@dataclass(frozen=True)
class Attack:
    """`may_block`: the memory alarm is what the broker ought to raise, so that publishers are
    blocked in order; what does not publish must go on. `files`: the broker's `ulimit -n`."""

    name: str
    what: str
    run: Callable[[Attacker], None]
    limit_mib: int
    may_block: bool
    files: int | None
    settings: tuple[str, ...]


def attack(
    limit_mib: int = LIMIT_MIB,
    may_block: bool = False,
    files: int | None = None,
    settings: tuple[str, ...] = (),
) -> Callable[[Callable[[Attacker], None]], Callable[[Attacker], None]]:
    """The function below is an attack; its docstring says what it does."""

    def add(run: Callable[[Attacker], None]) -> Callable[[Attacker], None]:
        what = " ".join((run.__doc__ or "").split()).rstrip(".")
        name = run.__name__.replace("_", "-")
        ATTACKS[name] = Attack(name, what, run, limit_mib, may_block, files, settings)
        return run

    return add


def load() -> dict[str, Attack]:
    """All attacks."""
    for module in MODULES:
        importlib.import_module(f"hostile.{module}")
    return ATTACKS


class Attacker:
    """What an attack works with: connections, control commands, and counts of what it managed."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.counts: Counter[str] = Counter()
        self.ends = time.monotonic()
        self.links: list[Link] = []

    def link(self, channels: int = 1, **options: Any) -> Link:
        """One more connection."""
        link = Link(self.port, channels, **options)
        self.links.append(link)
        return link

    def leave(self, link: Link) -> None:
        """Cut that connection."""
        link.close()
        self.links.remove(link)

    def ctl(self, command: str, **arguments: object) -> list[dict[str, Any]]:
        """A control command; as `sluicemq ctl` sends it."""
        return ask(self.port, command, arguments, 120)

    def begin(self) -> None:
        """Everything is prepared: wait for the word."""
        print("ready", flush=True)
        self.ends = time.monotonic() + float(sys.stdin.readline())

    def count(self, what: str, times: int = 1) -> None:
        """So many more of these, if it is still time."""
        if time.monotonic() < self.ends:
            self.counts[what] += times

    def counted(self, chunks: Sequence[bytes], what: str, total: int) -> Iterator[bytes]:
        """Chunks that have so many of these in them, once."""
        done = 0
        for number, chunk in enumerate(chunks, 1):
            yield chunk
            upto = total * number // len(chunks)
            self.count(what, upto - done)
            done = upto

    def endless(self, frame: bytes, what: str, each: int = 1) -> Iterator[bytes]:
        """The same again and again, in large chunks; there are `each` of these in one."""
        chunk, times = frames.repeated(frame)
        while True:
            yield chunk
            self.count(what, times * each)

    def flood(self, frame: bytes, what: str, links: int = 1, each: int = 1) -> None:
        """Endless frames on new connections, from now on."""
        press({self.link(): self.endless(frame, what, each) for _ in range(links)})

    def fill(
        self, queue: str, count: int, body: bytes = b"", arguments: Table | None = None
    ) -> Link:
        """A queue with so many messages, all of them there; the connection that filled it."""
        link = self.link()
        link.call(QueueDeclare(queue=queue, arguments=arguments), QueueDeclareOk)
        self.refill(link, queue, count, body)
        return link

    def refill(self, link: Link, queue: str, count: int, body: bytes = b"") -> None:
        """So many more messages, all of them there."""
        frame = frames.publish("", queue, body)
        chunk, times = frames.repeated(frame)
        press({link: itertools.repeat(chunk, count // times)})
        link.write(frame * (count % times))
        link.call(QueueDeclare(queue=queue, passive=True), QueueDeclareOk)

    def set_policy(self, pattern: str, definition: str) -> None:
        """The policy `hostile`, for queues."""
        self.ctl(
            "set_policy",
            name="hostile",
            pattern=pattern,
            definition=definition,
            priority=0,
            apply_to="queues",
            vhost="/",
        )

    def pause(self, seconds: float) -> None:
        """Do nothing for a while, but notice the broker's end."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for link in self.links:
                link.read()
            time.sleep(min(left, 0.05))

    def hold(self) -> None:
        """Stay connected until the end, without reading."""
        while True:
            signal.pause()


def close_all(attacker: Attacker, link: Link, wrong: Method) -> None:
    """Have all channels of a connection closed for what is wrong, and open them again."""
    numbers = range(1, frames.CHANNEL_MAX + 1)
    link.write(b"".join(wrong.frame(number) for number in numbers), ANSWERS_BYTES)
    link.await_pattern(CLOSED_CHANNEL, frames.CHANNEL_MAX)
    attacker.count("errors", frames.CHANNEL_MAX)
    link.write(b"".join(frames.after_error(number) for number in numbers), ANSWERS_BYTES)
    link.await_pattern(OPENED_CHANNEL, frames.CHANNEL_MAX)


def terminated(*_: object) -> None:
    """SIGTERM's handler."""
    raise Stopped


def main() -> None:
    """The attacker's process."""
    name, port = sys.argv[1], int(sys.argv[2])
    os.nice(NICENESS)
    signal.signal(signal.SIGTERM, terminated)
    attacker = Attacker(port)
    ended = ""
    try:
        load()[name].run(attacker)
    except (Gone, OSError, Refused) as error:
        ended = str(error)
    except Stopped:
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    early = time.monotonic() < attacker.ends
    reasons = [each.closed for each in attacker.links if each.closed[:3] not in ("", SHUTDOWN)]
    remark = "; ".join(dict.fromkeys([*reasons, *([ended] if early and ended else [])]))
    print(json.dumps({"counts": attacker.counts, "remark": remark[:200]}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    sys.modules["hostile.attack"] = sys.modules["__main__"]
    main()
