"""A command group that imports a command only when it is run.

`sluicemq ctl` must answer in 150 ms; it may not wait for the imports of the lab or Spark.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click


class Later(NamedTuple):
    """The module of a command, and its line in the list of commands."""

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
