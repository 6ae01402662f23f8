"""Goal: the broker is a good service: it says to its service manager when it is ready, alive and
about to end; it greets with where it listens, stores and how to look inside; its log file can be
moved away under it.

Method: one process with a datagram socket of ours for a service manager, from start to end; logs
without a process.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from sluicemq.errors import Refused
from sluicemq.host.log import HostLog
from sluicemq.host.service_manager import ServiceManager
from sluicemq.log_config import LogConfig
from support.broker import ENVIRONMENT, OWN
from support.waiting import await_truth

PATIENCE_S = 240


def await_word(heard: socket.socket, word: str) -> str:
    """What the service manager hears that begins with a word; anything else before it is lost."""
    heard.settimeout(PATIENCE_S)
    while not (said := heard.recv(4096).decode()).startswith(word):
        pass
    return said


def messages(log: Path) -> list[str]:
    """What a log of JSON lines says, as far as it is written."""
    text = log.read_text() if log.exists() else ""
    lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    assert all(sorted(line) == ["level", "msg", "time"] for line in lines)
    return [line["msg"] for line in lines]


def test_a_service_from_its_start_to_its_end(tmp_path: Path) -> None:
    address, log, data = (tmp_path / each for each in ("notify", "broker.log", "data"))
    settings = [f"log.file={log}", "log.file.formatter=json", "cluster_name=there"]
    command = [*OWN, "serve", "--port", "0", "--data-dir", str(data)]
    command += [word for setting in settings for word in ("--set", setting)]
    told = {"NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "400000", "RABBITMQ_HOME": "/x"}
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT | told)
        try:
            ready = await_word(manager, "READY=1")
            assert process.stdout is not None
            url = process.stdout.readline().decode().removeprefix("ready ").strip()
            assert ready == f"READY=1\nSTATUS=clients connect to {url}"
            await_word(manager, "WATCHDOG=1")
            said = messages(log)
            log.rename(tmp_path / "moved")
            process.send_signal(signal.SIGHUP)
            await_truth(lambda: "configuration reloaded" in messages(log))
            process.send_signal(signal.SIGTERM)
            await_word(manager, "STOPPING=1")
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            process.communicate()
    port = url.rpartition(":")[2]
    first = next(n for n, each in enumerate(said) if each.startswith("SluiceMQ 0."))
    assert f"process {process.pid}" in said[first]
    assert said[first + 1].startswith("command line: cluster_name is passed over: ")
    assert said[first + 2] == "these variables of RabbitMQ's mean nothing here: RABBITMQ_HOME"
    assert f"data directory {data}" in said
    look = f"sluicemq ctl status --port {port}, sluicemq top --port {port}"
    assert said[-2:] == [f"clients connect to {url}", f"to look inside: {look}"]


def test_no_other_process_speaks_for_this_one() -> None:
    env = {"NOTIFY_SOCKET": "@nobody", "WATCHDOG_USEC": "5", "WATCHDOG_PID": "1", "HOME": "/"}
    manager = ServiceManager(env)
    assert (env, manager.watchdog_s) == ({"HOME": "/"}, 0.0)
    manager.ready("for nobody listens there")
    for process in ("", str(os.getpid())):
        env = {"WATCHDOG_USEC": "1500000", "WATCHDOG_PID": process}
        assert ServiceManager(env).watchdog_s == 1.5


def test_a_line_of_json_is_one_line(tmp_path: Path) -> None:
    log = HostLog(LogConfig(file="log", dir=str(tmp_path), formatter="json"))
    log.write("warning", "first\nsecond \udc80 ü")
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert json.loads(line)["msg"] == "first\nsecond \udc80 ü"


def test_what_is_below_the_level_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    for level, expected in (("info", 3), ("notice", 2), ("error", 1), ("none", 0)):
        log = HostLog(LogConfig(level=level))
        for each in ("info", "warning", "error"):
            log.write(each, "said")
        assert len(capsys.readouterr().err.splitlines()) == expected


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"log\.file = .*: No such file or directory"):
        HostLog(LogConfig(file=str(tmp_path / "nothing" / "log")))
    log = HostLog(LogConfig(file=str(tmp_path / "log")))
    log.write("info", "one")
    (tmp_path / "log").rename(tmp_path / "moved")
    (tmp_path / "log").mkdir()
    descriptor = log.descriptor
    with pytest.raises(IsADirectoryError):
        log.reopen()
    log.write("info", "two")  # it goes on where it was
    assert len((tmp_path / "moved").read_text().splitlines()) == 2
    (tmp_path / "log").rmdir()
    log.reopen()
    log.write("info", "three")
    assert "three" in (tmp_path / "log").read_text()
    assert log.descriptor == descriptor
