"""A command group whose commands are imported when they are asked for, and not before.

`sluicemq serve` is to be ready in 300 ms and `sluicemq ctl` to answer in 150; neither may pay for
what the lab or Spark import.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click


class Later(NamedTuple):
    """Where a command's module is, and its line in the list of commands."""

    module: str
    attribute: str
    help: str


class LazyGroup(click.Group):
    """A click group from a table name -> Later."""

    def __init__(self, *arguments: Any, later: Mapping[str, Later], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.later = later

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.later)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        where = self.later.get(cmd_name)
        if where is None:
            return None
        command = getattr(importlib.import_module(where.module), where.attribute)
        assert isinstance(command, click.Command), cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, where.help) for name, where in self.later.items()])
