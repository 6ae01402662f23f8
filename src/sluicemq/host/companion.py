"""A process beside the broker, which the broker starts, and restarts when it ends.

The broker does not depend on it: nothing waits for it. It ends with the broker, in whatever way
that ends, because its standard input is a pipe that the broker holds open.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sluicemq.kernel.world import Log

AGAIN_SECONDS: Final = 1.0
AGAIN_SECONDS_MAX: Final = 30.0
"""Seconds until the process is started again, at first and at most: they double each time it has
ended soon."""

SOON_SECONDS: Final = 60.0
END_SECONDS: Final = 3.0
"""Seconds that the process has to end with the broker, before it is killed."""


class Companion:
    """Keeps the process `command` running, whose output goes to the broker's log."""

    def __init__(self, command: Sequence[str], log: Log) -> None:
        self.command = command
        self.log = log
        self.process: asyncio.subprocess.Process | None = None
        self.task = asyncio.get_running_loop().create_task(self.keep())

    async def keep(self) -> None:
        """Start the process, wait for its end, and start it again."""
        loop = asyncio.get_running_loop()
        wait_s = AGAIN_SECONDS
        while True:
            began_s = loop.time()
            try:
                self.process = await asyncio.create_subprocess_exec(
                    *self.command, stdin=PIPE, stdout=sys.stderr.fileno()
                )
            except OSError as error:
                how = f"cannot be started: {error}"
            else:
                how = f"has ended with code {await self.process.wait()}"
            if loop.time() - began_s > SOON_SECONDS:
                wait_s = AGAIN_SECONDS
            text = f"the management process {how}; starting it again in {wait_s:g} s"
            self.log.write("warning", text)
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, AGAIN_SECONDS_MAX)

    async def stop(self) -> None:
        """End the process, and do not start it again."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
        process = self.process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), END_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
