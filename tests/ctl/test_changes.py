"""Goal: what `sluicemq ctl` has changed is there, also after a kill -9 right after its answer.

Method: real brokers as subprocesses, pika as the client.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import pika
import pika.exceptions
import pytest

from ctl import policy_scenario
from support import broker
from support.broker import Target
from support.commands import run_command
from support.waiting import PATIENCE_S

DOCUMENT = {
    "vhosts": [{"name": "team"}],
    "users": [{"name": "worker", "password": "secret", "tags": []}],
    "permissions": [
        {"user": "worker", "vhost": "team", "configure": "", "write": ".*", "read": ".*"}
    ],
    "queues": [
        {"name": f"jobs.{n}", "vhost": "team", "durable": True, "auto_delete": False}
        for n in range(50)
    ],
    "exchanges": [
        {"name": "in", "vhost": "team", "type": "fanout", "durable": True, "auto_delete": False}
    ],
    "bindings": [
        {"source": "in", "vhost": "team", "destination": f"jobs.{n}", "routing_key": ""}
        for n in range(50)
    ],
    "policies": [
        {"vhost": "team", "name": "short", "pattern": "^jobs", "definition": {"max-length": 2}}
    ],
}


def ctl(target: Target, *arguments: str, given: str = "") -> str:
    """What it printed; it must succeed."""
    done = attempt(target, *arguments, given=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def attempt(target: Target, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return run_command("ctl", *arguments, "--port", str(target.port), given=given)


def killed(target: Target, process: broker.Process) -> None:
    assert target.pid is not None
    os.kill(target.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_what_ctl_has_answered_outlives_a_kill(tmp_path: Path) -> None:
    errors = tmp_path / "stderr.txt"
    process = broker.start(tmp_path, errors=errors)
    target = broker.await_ready(process, errors)
    said = ctl(target, "import_definitions", "-", given=json.dumps(DOCUMENT))
    assert said == 'Importing definitions in JSON from a file at "-" ...\n'
    policy = ("set_policy", "-p", "team", "one", "^jobs.1$", '{"max-length": 1}')
    said = ctl(target, *policy, "--priority", "7", "--apply-to", "queues")
    assert said == (
        'Setting policy "one" for pattern "^jobs.1$" to "{"max-length": 1}" with priority "7" for'
        ' vhost "team" ...\n'
    )
    ctl(target, "set_global_parameter", "cluster_name", '"here"', "-q")
    ctl(target, "delete_queue", "jobs.3", "-p", "team", "-q")
    killed(target, process)

    process = broker.start(tmp_path, errors=errors)
    target = broker.await_ready(process, errors)
    try:
        rows = ctl(target, "list_queues", "-p", "team", "name,policy", "-s").splitlines()
        held = dict(row.split("\t") for row in rows)
        wanted = {f"jobs.{n}": "short" for n in range(50) if n != 3} | {"jobs.1": "one"}
        assert held == wanted
        assert '"here"' in ctl(target, "list_global_parameters", "-s")
        login = pika.PlainCredentials("worker", "secret")
        where = pika.ConnectionParameters(target.host, target.port, "team", login)
        channel = pika.BlockingConnection(where).channel()
        channel.confirm_delivery()
        channel.basic_publish("in", "", b"x")
        rows = ctl(target, "list_queues", "-p", "team", "messages", "-s").splitlines()
        assert rows == ["1"] * 49
        ctl(target, "purge_queue", "-p", "team", "jobs.1")
        assert channel.queue_declare("jobs.1", passive=True).method.message_count == 0
        ctl(target, "close_all_user_connections", "worker", "that", "is", "all")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="that is all"):
            channel.connection.process_data_events(PATIENCE_S)
        assert ctl(target, "stop").startswith("Stopping")
        assert process.wait(broker.STOP_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_refusals_have_rabbitmqctls_exit_codes(tmp_path: Path) -> None:
    with broker.serving(tmp_path) as target:
        for arguments, code, said in (
            (("set_policy", "p"), 64, "Missing argument"),
            (("nothing",), 64, "No such command"),
            (("list_queues", "size"), 64, "has no column size"),
            (("set_policy", "-p", "no", "p", "", '{"expires": 1}'), 65, "does not exist"),
            (("import_definitions", "-"), 65, "this is no JSON"),
            (("import_definitions", str(tmp_path / "no")), 66, "No such file"),
            (("set_policy", "p", "", '{"expires": 0}'), 69, "Validation failed"),
            (("clear_policy", "p"), 69, "Parameter does not exist"),
            (("delete_queue", "nothing"), 69, "does not exist"),
            (("export_definitions", str(tmp_path / "no" / "file")), 73, "No such file"),
        ):
            done = attempt(target, *arguments)
            assert (done.returncode, said in done.stderr) == (code, True), (arguments, done.stderr)
        file = tmp_path / "out.json"
        ctl(target, "export_definitions", str(file))
        assert json.loads(ctl(target, "export_definitions", "-")) == json.loads(file.read_text())
        assert ctl(target, "import_definitions", str(file), "--dry-run", "-q") == ""
    assert attempt(target, "ping").returncode == 69


def test_a_broker_starts_with_definitions(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(DOCUMENT))
    load = f"load_definitions={file}"
    with broker.serving(tmp_path, load) as target:
        assert ctl(target, "list_users", "-s") == "worker\t[]\n"
        assert len(ctl(target, "list_queues", "-p", "team", "-s").splitlines()) == 50
        ctl(target, "clear_policy", "-p", "team", "short")
    with broker.serving(tmp_path, load, "definitions.skip_if_unchanged=true") as target:
        assert ctl(target, "list_policies", "-p", "team", "-s") == ""
    file.write_text('{"queues": [{"name": 5}]}')
    errors = tmp_path / "stderr.txt"
    process = broker.start(tmp_path, load, errors=errors)
    assert process.wait(broker.STOP_SECONDS) == 2
    assert process.stdout is not None
    process.stdout.close()
    assert "queues[0]: name must be a text" in errors.read_text()


def test_policies_do_what_they_say(tmp_path: Path) -> None:
    with broker.serving(tmp_path) as target:
        policy_scenario.run(target.port, partial(ctl, target))
