"""Somebody who means no harm: what an attack does to him is measured.

    python -m hostile.victim PORT SECONDS

It publishes a message to a queue of its own and gets it back, every 10 ms, whether the rounds
before are done or not: a round's time is from when it was due to its answer, so a broker that
stands still for a second makes a hundred slow rounds and not one. It prints `ready` when it is
logged in, waits for a line, and prints its figures as a line of JSON.

When the broker tells it that publishers are blocked by an alarm, it goes on with basic.get on
another connection; the rounds that the alarm holds are left out, and the time is given.
"""

from __future__ import annotations

import json
import re
import select
import sys
import time
from collections import deque

from hostile import frames
from hostile.link import Gone, Link, pattern
from sluicemq.amqp.methods import (
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclare,
    QueueDeclareOk,
)

INTERVAL_S = 0.01
PATIENCE_S = 30.0
"""So long answers are waited for at the end."""
WARM_UP_S = 0.3
BODY = b"v" * 10
GOT = re.compile(pattern(BasicGetOk, 1).pattern + b"|" + pattern(BasicGetEmpty, 1).pattern, re.S)
ALARM = re.compile(
    pattern(ConnectionBlocked, 0).pattern + b"|" + pattern(ConnectionUnblocked, 0).pattern, re.S
)
BLOCKED_ID = ConnectionBlocked.method_id
EMPTY_ID = BasicGetEmpty.method_id


class Rounds:
    """One connection's questions in order, and when each was due."""

    def __init__(self, link: Link, question: bytes) -> None:
        self.link = link
        self.question = question
        self.due: deque[float] = deque()
        self.buffer = b""
        self.unsent = b""
        self.times: list[float] = []
        self.empty = 0
        self.held = 0
        """The first so many of `due` wait for an alarm's end."""

    def ask(self, due: float) -> None:
        """One more round."""
        self.due.append(due)
        self.unsent += self.question
        self.write()

    def write(self) -> None:
        """What the socket takes of what there is."""
        if self.unsent:
            self.unsent = self.unsent[self.link.send(memoryview(self.unsent)) :]

    def hear(self) -> re.Match[bytes] | None:
        """Take the answers that came; the last word about an alarm, if there was one."""
        self.buffer += self.link.read()
        now, end = time.monotonic(), 0
        for found in GOT.finditer(self.buffer):
            end = found.end()
            self.empty += found[0][-1] == EMPTY_ID
            due = self.due.popleft()
            if self.held:
                self.held -= 1
            else:
                self.times.append(now - due)
        said = None
        for said in ALARM.finditer(self.buffer):
            end = max(end, said.end())
        self.buffer = self.buffer[max(end, len(self.buffer) - 16) :]
        return said


class Victim:
    """Both connections."""

    def __init__(self, port: int) -> None:
        links = [Link(port), Link(port)]
        for link in links:
            link.call(QueueDeclare(queue=f"victim{id(link)}", exclusive=True), QueueDeclareOk)
        names = [f"victim{id(link)}" for link in links]
        gets = [BasicGet(name, True).frame(1) for name in names]
        self.both = Rounds(links[0], frames.publish("", names[0], BODY) + gets[0])
        self.only_gets = Rounds(links[1], gets[1])
        self.blocked_since: float | None = None
        self.blocked_s = 0.0
        self.late_s = 0.0
        """The longest this process itself was behind its plan: it was not scheduled."""

    def pump(self, until: float) -> None:
        """Hear what comes until then."""
        while (left := until - time.monotonic()) > 0:
            all_rounds = {each.link.socket: each for each in (self.both, self.only_gets)}
            waiting = [link for link, each in all_rounds.items() if each.unsent]
            readable, writable, _ = select.select(list(all_rounds), waiting, (), left)
            for link in writable:
                all_rounds[link].write()
            for link in readable:
                if said := all_rounds[link].hear():
                    self.alarm(said[0][-1] == BLOCKED_ID)

    def alarm(self, blocked: bool) -> None:
        """The broker blocks publishers, or no longer."""
        if blocked and self.blocked_since is None:
            self.blocked_since = time.monotonic()
            self.both.held = len(self.both.due)
        elif not blocked and self.blocked_since is not None:
            self.blocked_s += time.monotonic() - self.blocked_since
            self.blocked_since = None

    def run(self, seconds: float) -> None:
        """Rounds for so long."""
        began = due = time.monotonic()
        while due - began < seconds:
            due += INTERVAL_S
            self.pump(due)
            self.late_s = max(self.late_s, time.monotonic() - due)
            (self.both if self.blocked_since is None else self.only_gets).ask(due)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.waiting():
            self.pump(time.monotonic() + INTERVAL_S)
        self.alarm(False)

    def waiting(self) -> bool:
        """Are there rounds without an answer that ought to have one?"""
        return len(self.both.due) > self.both.held or bool(self.only_gets.due)

    def figures(self) -> dict[str, object]:
        """Of all rounds; one without an answer took until now."""
        now = time.monotonic()
        times = [*self.both.times, *self.only_gets.times]
        unanswered = [*list(self.both.due)[self.both.held :], *self.only_gets.due]
        times += [now - due for due in unanswered]
        times.sort()
        return {
            "rounds": len(times),
            "p50_ms": 1000 * times[len(times) // 2],
            "p99_ms": 1000 * times[int(len(times) * 0.99)],
            "worst_ms": 1000 * times[-1],
            "unanswered": len(unanswered),
            "empty": self.both.empty,
            "blocked_s": self.blocked_s,
            "late_ms": 1000 * self.late_s,
        }


def main() -> None:
    """The victim's process."""
    victim = Victim(int(sys.argv[1]))
    victim.run(WARM_UP_S)
    victim.both.times.clear()
    print("ready", flush=True)
    sys.stdin.readline()
    gone = ""
    victim.late_s = 0.0
    try:
        victim.run(float(sys.argv[2]))
    except (Gone, OSError) as error:
        gone = str(error) or type(error).__name__
    print(json.dumps(victim.figures() | {"gone": gone}), flush=True)


if __name__ == "__main__":
    main()
