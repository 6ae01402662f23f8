"""A thread beside the event loop that notices when the broker no longer answers.

Every second it asks the loop for a sign of life, which goes through the loop, the scheduler and a
turn of an actor and so passes everything that a client's answer has to pass. When none comes for a
while it logs where the loop's thread is; when none comes for long it ends the process, because a
service manager can start one that answers, and confirmed messages are on the disk.

Only time in which this thread itself ran on time counts: a stopped process, a sleeping machine and
one without free processor time are no reason. (Nor is work in C that lets no other thread run: this
one cannot see it.) The thread writes to the log's file itself, and only as much as the file takes
at once: a log that is not read may be what the loop waits for.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import threading
import traceback
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final

from sluicemq.kernel.actor import Actor

if TYPE_CHECKING:
    import asyncio
    from types import FrameType

    from sluicemq.host.log import HostLog
    from sluicemq.host.service_manager import ServiceManager
    from sluicemq.kernel.actor import Scheduler
    from sluicemq.watchdog_config import WatchdogConfig

TICK_SECONDS: Final = 1.0
"""The most seconds between two looks."""

TICKS_LEAST: Final = 4
"""The least number of looks within the shortest limit."""

PIPE_BYTES: Final = 4096
"""A pipe with any room takes this many bytes without blocking."""

STUCK_EXIT_CODE: Final = 70
"""The exit code EX_SOFTWARE, as after a fault that cannot be contained."""


class Pulse(Actor):
    """Answers the watchdog by taking a turn when asked to."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.answered = 0
        """The number of the last question that was answered."""

    def receive(self, message: object) -> None:
        assert isinstance(message, int)
        self.answered = message


def frames_of_threads() -> dict[int, FrameType]:
    """Return the current frame of each thread, by its identifier. Python 3.11 holds a lock
    meanwhile that freeing a `threading.local` needs, too: a garbage collection at that time that
    found one would block the whole process for ever. So collections are off."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if was_enabled:
            gc.enable()


class Watchdog:
    """Watches one event loop; must be made in the loop's own thread. `manager` is told each time
    that the broker has answered; `end` is called after a silence of `end_s` seconds."""

    def __init__(
        self,
        config: WatchdogConfig,
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        log: HostLog,
        manager: ServiceManager,
        end: Callable[[int], None] = os._exit,
    ) -> None:
        self.report_s = config.report_after_ms / 1000
        self.end_s = config.end_after_ms / 1000
        self.loop = loop
        self.pulse = Pulse(scheduler)
        self.host_log = log
        self.manager = manager
        self.end = end
        self.watched = threading.get_ident()
        self.over = threading.Event()
        limits = [each for each in (self.report_s, self.end_s, manager.watchdog_s) if each]
        self.tick_s = min([TICK_SECONDS, *(limit / TICKS_LEAST for limit in limits)])
        self.thread = threading.Thread(target=self.watch, name="watchdog", daemon=True)
        if limits:
            self.thread.start()

    def stop(self) -> None:
        """Make the watching thread end at its next tick."""
        self.over.set()

    def watch(self) -> None:
        """Ask the event loop for a sign of life every tick; report its silence after `report_s`
        seconds, and end the process after `end_s`. Returns after `stop`. The watching thread runs
        this."""
        asked = 0
        silent_s = 0.0
        reported = False
        before = monotonic()
        while not self.over.wait(self.tick_s):
            now = monotonic()
            if asked == self.pulse.answered:
                if reported:
                    self.log("warning", f"the broker answers again after {silent_s:.0f} s")
                asked += 1
                silent_s = 0.0
                self.manager.alive()
                reported = False
                self.ask(asked)
            else:
                silent_s += min(now - before, 2 * self.tick_s)  # more: this thread stood still, too
            before = now
            if self.report_s and silent_s >= self.report_s and not reported:
                reported = True
                self.log(
                    "error", f"no client got an answer for {silent_s:.1f} s; running:{self.where()}"
                )
            if self.end_s and silent_s >= self.end_s:
                text = (
                    f"no client got an answer for {silent_s:.0f} s, exiting now; confirmed messages"
                )
                self.log("error", f"{text} are on the disk; running:{self.where()}")
                self.end(STUCK_EXIT_CODE)
                return

    def ask(self, number: int) -> None:
        """Ask the event loop for the sign of life of this number."""
        try:
            self.loop.call_soon_threadsafe(self.pulse.post, number)
        except RuntimeError:  # the loop is closed: the process is about to end
            self.over.set()

    def where(self) -> str:
        """Return the stack of the loop's thread, as text."""
        frame = frames_of_threads().get(self.watched)
        return "\n" + "".join(traceback.format_stack(frame)) if frame is not None else " nothing"

    def log(self, level: str, text: str) -> None:
        """Write a line to the log, if that is possible without waiting."""
        if not self.host_log.shows(level):
            return
        data = self.host_log.line(level, text).encode() + b"\n"
        descriptor = self.host_log.descriptor
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        for start in range(0, len(data), PIPE_BYTES):
            if not any(event & select.POLLOUT for _, event in poll.poll(0)):
                return
            try:
                os.write(descriptor, data[start : start + PIPE_BYTES])
            except OSError:
                return
