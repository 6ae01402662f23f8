"""Goal: `sluicemq ctl` asks the right thing and says clearly what is wrong.

Method: a thread plays the broker on a real control socket in a private directory; the commands run
in this process through click's runner.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from sluicemq.cli.ctl import ctl
from sluicemq.cli.group import sluicemq
from sluicemq.errors import Refused
from sluicemq.host.control_path import socket_to_bind
from sluicemq.manage.tables import COLUMNS, DEFAULTS

PORT = 5999


class Broker:
    """Answers every request with `answer` and remembers the requests."""

    def __init__(self, path: Path) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answer: bytes = b'{"ok": true, "rows": []}\n'
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def rows(self, *rows: dict[str, Any]) -> None:
        self.answer = json.dumps({"ok": True, "rows": rows}).encode() + b"\n"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                line = connection.makefile("rb").readline()
                self.requests.append(json.loads(line))
                connection.sendall(self.answer)


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    played = Broker(socket_to_bind(PORT, os.environ, os.getuid()))
    yield played
    played.listener.shutdown(socket.SHUT_RDWR)
    played.listener.close()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(ctl, [*arguments, "--port", str(PORT)], catch_exceptions=True)


def refusal(*arguments: str) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, Refused), result.output
    return str(result.exception)


def test_columns_are_asked_for_and_printed_in_order(broker: Broker) -> None:
    broker.rows({"name": "orders", "messages": 3, "state": "flow"})
    result = run("list_queues", "state", "name", "messages", "state")
    assert result.output == "state\tname\tmessages\tstate\nflow\torders\t3\tflow\n"
    wanted = {"columns": ["state", "name", "messages"], "vhost": "/"}
    assert broker.requests == [{"command": "list_queues", "arguments": wanted}]


@pytest.mark.parametrize("command", COLUMNS)
def test_without_columns_rabbitmqctls_defaults_are_shown(broker: Broker, command: str) -> None:
    assert run(command).output == "\t".join(DEFAULTS[command]) + "\n"
    assert broker.requests[0]["arguments"]["columns"] == list(DEFAULTS[command])


def test_quiet_silent_and_formats(broker: Broker) -> None:
    broker.rows({"name": "q", "messages": 1})
    assert run("list_queues", "-s").output == "q\t1\n"
    assert run("list_queues", "-q").output == "name\tmessages\nq\t1\n"
    assert json.loads(run("list_queues", "--formatter", "json").output) == [
        {"name": "q", "messages": 1}
    ]


def test_an_unknown_column_is_told_without_asking_a_broker() -> None:
    said = refusal("list_queues", "name", "mesages")
    assert said == f"list_queues has no column mesages; it has: {' '.join(COLUMNS['list_queues'])}"


def test_no_broker_names_the_port_and_what_to_do() -> None:
    said = refusal("list_queues")
    assert said.startswith(f"no SluiceMQ broker of this user answers on port {PORT} (looked for ")
    assert f"`sluicemq serve --port {PORT}`" in said


def test_the_brokers_own_refusal_is_passed_on(broker: Broker) -> None:
    broker.answer = b'{"ok": false, "error": "there is no virtual host other"}\n'
    assert refusal("list_queues", "-p", "other") == "there is no virtual host other"


@pytest.mark.parametrize("answer", [b"", b"hello\n", b'{"ok": true}\n', b"[]\n"])
def test_an_answer_that_is_none_is_told(broker: Broker, answer: bytes) -> None:
    broker.answer = answer
    assert "is not a SluiceMQ of this version" in refusal("list_queues")


def test_a_broker_that_is_stuck_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_to_bind(PORT, os.environ, os.getuid())))
        listener.listen()
        said = refusal("list_queues", "--timeout", "0.1")
        of_health = [refusal(each, "--timeout", "0.1") for each in ("status", "ping")]
    late = "did not answer within 0.1 s"
    assert said == f"the broker on port {PORT} {late}"
    unwell = f"the broker on port {PORT} is not well: it accepts connections, but {late}"
    assert of_health == [unwell, unwell]


def test_status_is_printed_section_by_section(broker: Broker) -> None:
    broker.rows({"Broker": {"version": "0.1.0"}, "Alarms": {"memory": False}})
    assert run("status").output == (
        "Broker\n\n    version: 0.1.0\n\nAlarms\n\n    memory: false\n\n"
    )
    as_json = json.loads(run("status", "--formatter", "json").output)
    assert as_json == [{"Broker": {"version": "0.1.0"}, "Alarms": {"memory": False}}]


def test_chain_draws_the_picture_and_a_name_cannot_move_the_cursor(broker: Broker) -> None:
    store = {
        "id": "s",
        "kind": "queue",
        "name": "evil\x1b[2J",
        "inbox": 7,
        "state": "running",
        "gates_shut": 0,
        "blocked_ms": 0,
        "blocked_total_ms": 0,
        "deferred": 0,
    }
    broker.rows({"stages": [store], "links": []})
    result = run("chain", "--width", "80")
    assert result.output.startswith("READERS ---> CHANNELS ")
    assert "evil\\x1b[2J" in result.output
    assert json.loads(run("chain", "--formatter", "json").output)[0]["stages"] == [store]


def test_every_command_and_option_has_help() -> None:
    for name, command in ctl.commands.items():
        assert command.get_short_help_str(), name
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (name, parameter.name)


def test_the_list_of_commands_imports_none_of_them() -> None:
    result = CliRunner().invoke(sluicemq, ["--help"])
    assert [word for word in ("serve", "ctl", "lab", "sim") if f"  {word}  " in result.output]
    assert result.exit_code == 0


def test_an_unknown_command_is_told() -> None:
    result = CliRunner().invoke(sluicemq, ["server"])
    assert result.exit_code == 2
    assert "No such command 'server'" in result.output


def test_a_command_of_the_table_says_what_it_does_and_asks(broker: Broker) -> None:
    broker.rows()
    result = run("set_policy", "p", "^a", '{"expires": 5}', "--priority", "3", "-p", "v\x1b")
    assert result.output == (
        'Setting policy "p" for pattern "^a" to "{"expires": 5}" with priority "3" for vhost'
        ' "v\\x1b" ...\n'
    )
    assert broker.requests[0]["arguments"] == {
        "name": "p",
        "pattern": "^a",
        "definition": '{"expires": 5}',
        "priority": 3,
        "apply_to": "all",
        "vhost": "v\x1b",
    }
    assert run("set_policy", "p", "^a", "{}", "-q").output == ""
    assert run("set_disk_free_limit", "1GB").output == (
        "Setting the limit of free disk space to 1GB ...\n"
    )


def test_rows_of_the_table_are_lists_with_columns(broker: Broker) -> None:
    row = {"component": "c", "name": "n", "value": "1"}
    broker.rows(row)
    assert run("list_parameters", "--no-table-headers").output == "c\tn\t1\n"
    assert run("list_parameters").output == "component\tname\tvalue\nc\tn\t1\n"
    assert json.loads(run("list_parameters", "--formatter", "json").output) == [row]


def test_states_of_queues_and_commas_are_for_scripts(broker: Broker) -> None:
    broker.rows({"name": "q", "messages": 1})
    assert run("list_queues", "name,messages", "--online", "-s").output == "q\t1\n"
    assert run("list_queues", "--offline", "-s").output == ""
    assert broker.requests[0]["arguments"] == {"vhost": "/", "columns": ["name", "messages"]}


@pytest.mark.parametrize(
    "arguments",
    [
        ("set_policy", "p"),
        ("nothing",),
        ("list_policies", "--what"),
        ("set_policy", "a", "b", "c", "d"),
    ],
)
def test_a_wrong_command_line_exits_with_64(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(ctl, arguments).exit_code == 64


def test_a_password_may_come_from_standard_input(broker: Broker) -> None:
    broker.rows()
    arguments = ["add_user", "u", "--port", str(PORT)]
    result = CliRunner().invoke(ctl, arguments, input="secret word\n")
    assert "secret" not in result.output
    assert broker.requests[0]["arguments"] == {"username": "u", "password": "secret word"}
    assert isinstance(CliRunner().invoke(ctl, arguments, input="").exception, Refused)
