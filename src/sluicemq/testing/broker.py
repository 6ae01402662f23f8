"""A broker for a test: `Broker`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from sluicemq.errors import Refused
from sluicemq.testing.admin import Admin
from sluicemq.testing.endpoint import BrokerEndpoint
from sluicemq.testing.housing import Housing, OwnProcess, OwnThread
from sluicemq.testing.settings import settings_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) *(ms|s|m|h|d)")
MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(span: float | str) -> int:
    """Return a time as milliseconds: a number of seconds, or a text such as "90s", "1h 30m",
    "250ms". Raises Refused for any other text."""
    if not isinstance(span, str):
        return round(span * 1000)
    if SPAN.sub("", span).strip() or not span.strip():
        raise Refused(f"{span!r} is not a time such as '90s', '1h 30m' or '250ms'")
    return round(sum(float(count) * MS[unit] for count, unit in SPAN.findall(span)))


class Trouble:
    """A condition that lasts from its creation until `end`, or to the end of its `with`."""

    def __init__(self, broker: Broker, knob: str) -> None:
        self.broker = broker
        self.knob = knob
        broker.troubles.append(self)
        broker.ask(knob, on=True)

    def end(self) -> None:
        """End the condition; does nothing when it has ended."""
        if self in self.broker.troubles:
            self.broker.troubles.remove(self)
            self.broker.ask(self.knob, on=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class Broker(BrokerEndpoint):
    """A broker for tests, ready between `start` and `stop`, or inside a `with`.

    It has a process of its own, or, with `inside`, a thread of this one. It stores messages in
    memory or, with `directory`, below that: a later broker there recovers what this one has left.
    `options` are those of `sluicemq serve --set`: {"max_message_size": "1MB"}. The user is `guest`,
    with the password `guest`. A broker that cannot start raises BrokerFailed.
    """

    def __init__(
        self,
        *,
        inside: bool = False,
        directory: str | os.PathLike[str] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__()
        self.options = dict(options or {})
        self.directory = None if directory is None else Path(directory).absolute()
        self.housing: Housing = OwnThread() if inside else OwnProcess(directory is not None)
        self.is_started = False
        self.troubles: list[Trouble] = []
        """What holds now."""
        self.is_calm = True
        """Is nothing delayed or refused?"""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker, and wait until clients can connect."""
        options = {**self.options, "net.port": self.port} if self.port else self.options
        self.housing.start(settings_of(options, self.directory))
        self.await_ready()
        self.is_started = True

    def await_ready(self) -> None:
        """Wait until clients can connect."""
        urls = self.housing.urls()
        plain = next(url for url in urls if url.startswith("amqp://"))
        self.port = int(plain.rpartition(":")[2])

    def stop(self) -> None:
        """End the broker; does nothing when it has ended."""
        if self.is_started:
            self.is_started = False
            self.housing.stop()

    @property
    def admin(self) -> Admin:
        """Return access to queues and messages in the virtual host `/`."""
        return Admin(self, "/")

    # virtual hosts

    def make_vhost(self, name: str = "") -> str:
        """Make a virtual host in which every user has all permissions, and return its name; without
        a name it gets a new one."""
        made: str = self.ask("test_make_vhost", vhost=name)[0]["vhost"]
        return made

    def drop_vhost(self, name: str) -> None:
        """Delete a virtual host with everything in it; its connections are closed."""
        self.ask("test_drop_vhost", vhost=name)

    # knobs

    def block(self) -> Trouble:
        """Block publishers, as an alarm does: clients receive `connection.blocked`."""
        return Trouble(self, "test_block")

    def memory_alarm(self) -> Trouble:
        """Raise the memory alarm, as if the broker were short of memory."""
        return Trouble(self, "test_memory_alarm")

    def disk_full(self) -> Trouble:
        """Fill the broker's disk: its alarm is raised and, with storage in memory, nothing can be
        written, so that persistent messages are not confirmed."""
        return Trouble(self, "test_disk_full")

    def refuse_logins(self) -> Trouble:
        """Refuse every log-in (403 ACCESS_REFUSED). Open connections stay."""
        return Trouble(self, "test_refuse_logins")

    def drop_connections(self) -> int:
        """Cut off all clients without a reply, as a broken network does, and return how many there
        were."""
        count: int = self.ask("test_drop_connections")[0]["count"]
        return count

    def nack_next(self, count: int = 1) -> None:
        """Have the existing queues reject the next `count` messages in all: publishers with
        confirms receive `basic.nack`, others nothing. If only some of the messages that come in one
        packet are to be rejected, these are the last ones."""
        self.is_calm = False
        self.ask("test_nack_next", count=count)

    def delay(self, ms: int) -> None:
        """Have everything that the broker sends leave that many milliseconds later; 0 ends that."""
        self.is_calm = False
        self.ask("test_delay", ms=ms)

    def calm(self) -> None:
        """End everything that a test has done to the broker with these knobs, except to
        the time.
        """
        for trouble in [*self.troubles]:
            trouble.end()
        if not self.is_calm:
            self.delay(0)
            self.nack_next(0)
            self.is_calm = True

    def advance(self, span: float | str) -> None:
        """Move the broker's clock ahead, by seconds or a text such as "10m". Everything that would
        happen until then happens now, in order: messages and queues expire, delayed messages are
        delivered, consumers time out, and clients that have asked for heartbeats are given up,
        because they cannot send any meanwhile."""
        self.ask("test_advance", ms=milliseconds(span))

    def restart(self) -> None:
        """End the broker in order and start it again, on the same port. Everything durable is
        recovered, also with storage in memory."""
        self.ask("test_restart", kill=False)
        self.await_ready()
        self.begun_again()

    def kill(self) -> None:
        """End the broker as `kill -9` does and start it again, on the same port. Confirmed
        persistent messages in durable queues are recovered, also with storage in memory."""
        if self.housing.kill():
            self.start()
        else:
            self.ask("test_restart", kill=True)
            self.await_ready()
        self.begun_again()

    def begun_again(self) -> None:
        """Forget the conditions of the life before."""
        self.troubles.clear()
        self.is_calm = True
