"""One attack on a fresh broker, and the figures of all who took part."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostile.attack import Attack

Row = dict[str, Any]
"""Figures of one attack by name; what is missing could not be measured."""

START_S = 60.0
PREPARE_S = 90.0
ANSWERS_S = 60.0
"""So long victims may take to print their figures after the attack's end."""
STOP_S = 35.0
"""So long the broker may take to end; then it is killed."""
TOO_MUCH_MIB = 6 * 1024
HERE = Path(__file__).resolve().parents[1]
ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
}

P99_MS = 30.0
WORST_MS = 150.0
LOGIN_S = 5.0
STOPPED_S = 10.0
RSS_RATIO = 1.15


class Silent(Exception):
    """A process did not say in time what it ought to."""


@dataclass
class Helper:
    """A process that takes part: `ready`, then a word, then figures."""

    process: subprocess.Popen[str]

    def line(self, seconds: float) -> str:
        """What it says next."""
        output = self.process.stdout
        assert output is not None
        if not select.select((output,), (), (), seconds)[0]:
            raise Silent
        line = output.readline()
        if not line:
            raise Silent
        return line

    def go(self, word: str = "") -> None:
        """The word it waits for."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()

    def figures(self, seconds: float) -> Row:
        """Its last words."""
        try:
            figures: Row = json.loads(self.line(seconds))
        except Silent:
            return {}
        return figures


@contextlib.contextmanager
def helper(module: str, *arguments: object) -> Iterator[Helper]:
    """A process of that module, killed at the end if it is there still."""
    command = [sys.executable, "-m", f"hostile.{module}", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    try:
        yield Helper(process)
    finally:
        process.kill()
        process.wait()


class Broker:
    """The broker under attack."""

    def __init__(self, program: Sequence[str], data: Path, attack: Attack) -> None:
        command = [*program, "serve", "--port", "0", "--data-dir", str(data)]
        limit = f"vm_memory_high_watermark.absolute={attack.limit_mib}MiB"
        for setting in (limit, *attack.settings):
            command += ["--set", setting]
        if attack.files:
            command = ["sh", "-c", f'ulimit -n {attack.files}; exec "$@"', "sh", *command]
        with (data.parent / f"{attack.name}.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        self.port = self.await_port()
        self.peak_mib = 0.0

    def await_port(self) -> int:
        """Until it says where it listens."""
        output = self.process.stdout
        assert output is not None
        if not select.select((output,), (), (), START_S)[0]:
            self.process.kill()
            raise SystemExit(f"{self.process.args} did not start")
        line = output.readline().decode()
        if not line:
            raise SystemExit(f"{self.process.args} ended with {self.process.wait()}")
        return int(line.split()[1].rpartition(":")[2])

    def look(self) -> None:
        """Take note of its memory; it may be gone. A broker that would take the whole machine is
        killed."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    self.peak_mib = int(line.split()[1]) / 1024
        if self.peak_mib > TOO_MUCH_MIB:
            self.process.kill()

    def stop(self) -> Row:
        """SIGTERM; what came of it."""
        self.look()
        code = self.process.poll()
        if code is not None:
            return {"stop_s": None, "exit_code": code, "died": True}
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        while (code := self.process.poll()) is None and time.monotonic() - began < STOP_S:
            self.look()
            time.sleep(0.02)
        if code is None:
            self.process.kill()
        self.process.wait()
        return {"stop_s": time.monotonic() - began, "exit_code": code, "died": False}


def prepare(attacker: Helper) -> tuple[float, str]:
    """Seconds until the attack can begin, and what went wrong."""
    began = time.monotonic()
    said = ""
    try:
        line = attacker.line(PREPARE_S)
        said = "" if line == "ready\n" else json.loads(line)["remark"] or "ended early"
    except Silent:
        said = f"preparing took more than {PREPARE_S:g} s"
    return time.monotonic() - began, said


def attacked(broker: Broker, attack: Attack, seconds: float) -> Row:
    """While the attack runs, and the broker's end under it."""
    port = broker.port
    row: Row = {"attack": attack.name, "what": attack.what, "limit_mib": attack.limit_mib}
    with contextlib.ExitStack() as helpers:
        victim = helpers.enter_context(helper("victim", port, seconds))
        newcomers = helpers.enter_context(helper("newcomers", port, seconds))
        victim.line(START_S)
        newcomers.line(START_S)
        attacker = helpers.enter_context(helper("attack", attack.name, port))
        row["prepare_s"], row["failed"] = prepare(attacker)
        attacker.go(str(seconds))
        victim.go()
        newcomers.go()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            broker.look()
            time.sleep(0.05)
        row |= victim.figures(ANSWERS_S)
        row |= newcomers.figures(ANSWERS_S)
        row |= broker.stop()
        attacker.process.terminate()
        row |= attacker.figures(5)
        row["rss_mib"] = broker.peak_mib
    return row


def misses(row: Row, attack: Attack) -> list[str]:
    """Which demands were not met."""
    found = []
    if row.get("died"):
        found.append("died")
    if row.get("failed"):
        found.append(row["failed"])
    if "rounds" not in row or row["gone"]:
        found.append("victim cut off")
    elif row["unanswered"]:
        found.append(f"{row['unanswered']} rounds without an answer")
    if row.get("p99_ms", 0) > P99_MS:
        found.append("p99")
    if row.get("worst_ms", 0) > WORST_MS:
        found.append("worst")
    if row.get("blocked_s", 0) and not attack.may_block:
        found.append(f"blocked {row['blocked_s']:.1f} s")
    if row.get("logins_failed", 1) or row["login_worst_s"] > LOGIN_S:
        found.append("log-ins")
    if (row.get("stop_s") or 0) > STOPPED_S or row["exit_code"] != 0:
        found.append("SIGTERM")
    if row["rss_mib"] > RSS_RATIO * row["limit_mib"]:
        found.append("RSS")
    if row.get("counts", {}).get("messages let in"):
        found.append("publishes let in")
    return found


def trial(program: Sequence[str], home: Path, attack: Attack, seconds: float) -> Row:
    """The attack's row."""
    broker = Broker(program, home / attack.name, attack)
    try:
        row = attacked(broker, attack, seconds)
    except Silent:
        row = {"attack": attack.name, "what": attack.what, "limit_mib": attack.limit_mib}
        row |= {"failed": "nobody could log in before the attack", "rss_mib": 0, "exit_code": None}
    finally:
        if broker.process.poll() is None:
            broker.process.kill()
            broker.process.wait()
    row["missed"] = misses(row, attack)
    return row
