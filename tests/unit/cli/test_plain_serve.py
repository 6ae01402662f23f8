"""Goal: what is read without click is what click reads. Method: the same arguments to both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from sluicemq.cli import serve as command
from sluicemq.cli.plain_serve import FILE, FILE_VARIABLE, SET, SWITCHES, VALUES, plain

GIVEN: tuple[tuple[str, ...], ...] = (
    (),
    ("--port", "0", "--data-dir", "/d"),
    ("--port=0", "--host=", "--name", ""),
    ("--set", "heartbeat=30", "--set=net.host=::1", "--set", ""),
    ("--config", "rabbitmq.conf", "--port", "1", "--port", "2"),
    ("--management", "--no-management"),
    ("--accept-loss", "--management-port", "0", "--management"),
    ("--cluster-nodes", "a:1,b:2", "--cluster-host", "a", "--cluster-port", "1"),
    ("--cluster-join", "a:1", "--cluster-secret-file", "/s"),
)

NOT_PLAIN: tuple[tuple[str, ...], ...] = (
    ("--help",),
    ("-h",),
    ("--port",),
    ("--prt", "0"),
    ("--por", "0"),
    ("--port", "--accept-loss"),
    ("--accept-loss=yes",),
    ("more",),
    ("--",),
)


def of_click(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What click makes of them."""
    found: dict[str, Any] = {}
    monkeypatch.setattr(command, "start", lambda **given: found.update(given))
    done = CliRunner().invoke(command.serve, arguments)
    assert done.exit_code == 0, done.output
    return found


@pytest.mark.parametrize("variable", ["", "other.toml"])
@pytest.mark.parametrize("arguments", GIVEN)
def test_plain_arguments_mean_what_click_takes_them_for(
    arguments: tuple[str, ...], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILE_VARIABLE, variable)
    assert plain(arguments) == of_click(arguments, monkeypatch)


@pytest.mark.parametrize("arguments", NOT_PLAIN)
def test_all_else_is_for_click(arguments: tuple[str, ...]) -> None:
    assert plain(arguments) is None


def test_every_option_can_be_plain() -> None:
    options = [each for each in command.serve.params if isinstance(each, click.Option)]
    names = {name for each in options for name in (*each.opts, *each.secondary_opts)}
    assert names == {*VALUES, *SWITCHES, FILE, SET}


def test_a_file_is_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    found = plain(("--config", "a.toml"))
    assert found is not None
    assert found["file"] == Path("a.toml")
