"""Goal: users and permissions are there after `kill -9`, once the command has returned; passwords
are in no log. Method: a broker as a subprocess, killed and started again over the same directory.
"""

from __future__ import annotations

from pathlib import Path

import pika
import pytest
from pika.exceptions import ProbableAuthenticationError

from support import broker
from support.broker import Ctl, Target

PASSWORD = "a-password-nobody-logs"


def login(target: Target, user: str, vhost: str) -> None:
    credentials = pika.PlainCredentials(user, PASSWORD)
    pika.BlockingConnection(
        pika.ConnectionParameters(target.host, target.port, vhost, credentials)
    ).close()


def test_users_outlive_a_kill(tmp_path: Path) -> None:
    errors = tmp_path / "stderr.txt"
    data = tmp_path / "data"
    data.mkdir()
    process = broker.start(data, errors=errors)
    try:
        ctl = Ctl(broker.await_ready(process, errors))
        ctl("add_vhost", "v")
        ctl("add_user", "ann", PASSWORD)
        ctl("set_permissions", "-p", "v", "ann", ".*", ".*", ".*")
        ctl("delete_user", "guest")
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    process = broker.start(data, errors=errors)
    try:
        target = broker.await_ready(process, errors)
        login(target, "ann", "v")
        with pytest.raises(ProbableAuthenticationError):
            login(target, "guest", "/")
        listed = Ctl(target)("list_users", "-s")
        assert listed == "ann\t[]\n"
        ctl = Ctl(target)
        wrong = ctl.run("add_user", "ann", PASSWORD)
        assert (wrong.returncode, wrong.stderr) == (70, 'Error: User "ann" already exists\n')
    finally:
        broker.stop(process)
    assert PASSWORD not in errors.read_text()
    for path in data.rglob("*"):
        assert path.is_dir() or PASSWORD.encode() not in path.read_bytes(), path
