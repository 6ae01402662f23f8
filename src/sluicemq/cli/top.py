"""`sluicemq top`: shows the work of a broker live in a terminal, over its control socket."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from sluicemq.cli.commands import reach
from sluicemq.cli.control_client import TimedOut, Unavailable, ask
from sluicemq.cli.top_screen import BrokerLook, queues_now, screen
from sluicemq.errors import Refused
from sluicemq.manage.record_columns import QUEUES

ESCAPE: Final = b"\x1b"
"""The key of that name; others send more behind it."""

QUEUES_A_SECOND: Final = 500
"""The most queues asked for per second on average, so that very many cost the broker little."""


@click.command()
@reach
@click.option(
    "-i",
    "--interval",
    type=click.FloatRange(0.2),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look, in seconds.",
)
def top(port: int, timeout: float, interval: float) -> None:
    """Show what a running broker does, live: rates, the flow control chain, the busiest queues.

    It needs a terminal; q or ^C leaves. `sluicemq ctl status`, `sluicemq ctl chain` and `sluicemq
    ctl list_queues` print the same once.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused(
            "top needs a terminal; `sluicemq ctl status`, `sluicemq ctl chain` and"
            " `sluicemq ctl list_queues` print the same once"
        )
    from rich.live import Live  # noqa: PLC0415 (start-up time)

    before = now = look(port, timeout, None)
    trouble = ""
    with keys(), Live(screen=True, auto_refresh=False) as live:
        while True:
            columns, lines = shutil.get_terminal_size()
            live.update(screen(now, before, columns, lines, trouble), refresh=True)
            if left(interval):
                return
            try:
                found = look(port, timeout, now)
                before, now, trouble = now, found, ""
            except (Unavailable, TimedOut) as error:
                trouble = str(error).partition("\n")[0]


def look(port: int, timeout: float, before: BrokerLook | None) -> BrokerLook:
    """Ask a broker for its figures; for those of its queues only when they are due again."""
    [node] = ask(port, "node_figures", {}, timeout)
    [chain] = ask(port, "chain", {}, timeout)
    now_s = time.monotonic()
    if before is None:
        before = BrokerLook(now_s, node, chain, (), now_s)
    elif now_s - before.queues_time_s < len(before.queues) / QUEUES_A_SECOND:
        return before._replace(time_s=now_s, node=node, chain=chain)
    records = ask(port, "records", {"kind": QUEUES}, timeout)
    queues = queues_now(records, before.queues, now_s - before.queues_time_s)
    return BrokerLook(now_s, node, chain, queues, now_s)


@contextmanager
def keys() -> Iterator[None]:
    """Deliver keys as they are pressed, without echo; afterwards the terminal is as before, even if
    a signal ends this process. ^C ends the command even if the parent process ignores it."""

    def end(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    place = sys.stdin.fileno()
    before = termios.tcgetattr(place)
    on_end = signal.signal(signal.SIGTERM, end)
    on_break = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        tty.setcbreak(place)
        yield
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, on_end)
        signal.signal(signal.SIGINT, on_break)
        termios.tcsetattr(place, termios.TCSADRAIN, before)


def left(seconds: float) -> bool:
    """Wait for `seconds`; tell whether the user presses a key that leaves, or the terminal is
    gone."""
    until_s = time.monotonic() + seconds
    while (rest := until_s - time.monotonic()) > 0:
        if not select.select([sys.stdin], [], [], rest)[0]:
            return False
        pressed = os.read(sys.stdin.fileno(), 64)
        if not pressed or pressed == ESCAPE or b"q" in pressed.lower():
            return True
    return False
