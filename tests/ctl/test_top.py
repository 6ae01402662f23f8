"""Goal: `sluicemq top` shows a broker live in a terminal, leaves it as it was however it ends, and
says what it needs where there is none. Method: a pseudo-terminal, a real broker.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pika
import pytest

from support import broker
from support.broker import ENVIRONMENT, Target
from support.waiting import await_truth

HOSTILE = "\x1b[31mred[/bold]\u202e"
CONTROLS = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]")
LEFT = b"\x1b[?1049l"
"""What a terminal is told to show again what was there before."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with broker.serving(tmp_path_factory.mktemp("top")) as found:
        yield found


class Terminal:
    """A terminal of 120 columns and 40 lines, with `sluicemq top` in it."""

    def __init__(self, port: int) -> None:
        self.ours, theirs = pty.openpty()
        os.set_blocking(self.ours, False)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.before = termios.tcgetattr(theirs)
        command = [sys.executable, "-m", "sluicemq", "top", "--port", str(port), "-i", "0.2"]
        environment = {**os.environ, **ENVIRONMENT, "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
        )
        self.theirs = theirs
        self.shown = b""

    def shows(self, *texts: str) -> bool:
        """Whether all of these have been shown since the last question that was answered with
        yes."""
        try:
            while data := os.read(self.ours, 1 << 16):
                self.shown += data
        except BlockingIOError:
            pass
        text = CONTROLS.sub(b"", self.shown).decode(errors="replace")
        if not all(each in text for each in texts):
            return False
        self.shown = b""
        return True

    def is_over(self) -> bool:
        is_over = self.process.poll() is not None
        self.shows("what is never shown")  # a terminal that is full lets nobody end
        return is_over

    def ends(self) -> int:
        """Its exit code; the terminal is as it was."""
        await_truth(self.is_over)
        assert LEFT in self.shown
        assert termios.tcgetattr(self.theirs) == self.before
        return self.process.returncode


@contextmanager
def topped(port: int) -> Iterator[Terminal]:
    found = Terminal(port)
    try:
        yield found
    finally:
        found.process.kill()
        found.process.wait()
        os.close(found.ours)
        os.close(found.theirs)


def test_it_shows_what_moves_and_leaves_when_told(target: Target) -> None:
    parameters = pika.ConnectionParameters(target.host, target.port)
    with pika.BlockingConnection(parameters) as connection, topped(target.port) as terminal:
        channel = connection.channel()
        channel.queue_declare("orders")
        channel.queue_declare(HOSTILE)
        await_truth(lambda: terminal.shows("READERS", "MESSAGE STORE", "orders", "1 connections"))
        await_truth(lambda: terminal.shows("\\x1b[31mred[/bold]\\u202e"))
        for _ in range(7):
            channel.basic_publish("", "orders", b"x")
        await_truth(lambda: terminal.shows("7 ready"))
        os.write(terminal.ours, b"\x1b[A")  # an arrow is no escape
        await_truth(lambda: terminal.shows("READERS"))
        os.write(terminal.ours, b"q")
        assert terminal.ends() == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 0)])
def test_the_terminal_is_left_as_it_was(target: Target, number: int, code: int) -> None:
    with topped(target.port) as terminal:
        await_truth(lambda: terminal.shows("READERS"))
        terminal.process.send_signal(number)
        assert terminal.ends() == code


def test_a_broker_that_goes_is_looked_for(tmp_path: Path) -> None:
    with ExitStack() as terminals:
        with broker.serving(tmp_path) as target:
            terminal = terminals.enter_context(topped(target.port))
            await_truth(lambda: terminal.shows("READERS"))
        await_truth(lambda: terminal.shows("no SluiceMQ broker of this user answers"))
        os.write(terminal.ours, b"q")
        assert terminal.ends() == 0


def test_without_a_terminal_it_says_what_to_use(target: Target) -> None:
    command = [sys.executable, "-m", "sluicemq", "top", "--port", str(target.port)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: top needs a terminal; `sluicemq ctl status`")
