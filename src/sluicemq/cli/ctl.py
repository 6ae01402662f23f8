"""`sluicemq ctl`: rabbitmqctl's daily commands, which the running broker carries out."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from sluicemq.cli.commands import (
    OWN_OPTIONS,
    Ctl,
    in_vhost,
    output,
    print_rows,
    reach,
    split_columns,
)
from sluicemq.cli.control_client import ask
from sluicemq.cli.formats import escaped, plain, write
from sluicemq.manage.command import USAGE, CommandRefused
from sluicemq.manage.tables import COLUMNS, DEFAULTS

LISTS: Final = {
    "list_queues": "List the queues of a virtual host.",
    "list_connections": "List all connections of the broker.",
    "list_channels": "List all channels of the broker.",
    "list_consumers": "List the consumers of a virtual host.",
    "list_exchanges": "List the exchanges of a virtual host.",
    "list_bindings": "List the bindings of a virtual host.",
}
PER_VHOST: Final = ("list_queues", "list_consumers", "list_exchanges", "list_bindings")


@click.group(cls=Ctl)
def ctl() -> None:
    """Show and change the state of a running broker.

    The commands and columns are those of rabbitmqctl. They talk to the broker that this user runs
    on this machine, over a socket that only this user can reach.
    """


def _checked(command: str, named: Sequence[str]) -> Sequence[str]:
    known = COLUMNS[command]
    columns = split_columns(named)
    for column in columns:
        if column not in known:
            text = f"{command} has no column {column}; it has: {' '.join(known)}"
            raise CommandRefused(text, USAGE)
    return columns or DEFAULTS[command]


def _list_command(name: str, help_line: str) -> click.Command:
    """Make one list_* command; these differ only in names and columns."""

    def run(columns: tuple[str, ...], offline: bool = False, **given: Any) -> None:
        own = {key: given.pop(key) for key in OWN_OPTIONS}
        chosen = _checked(name, columns)
        wanted = {**given, "columns": list(dict.fromkeys(chosen))}
        rows = ask(own["port"], name, wanted, own["timeout"])
        print_rows([] if offline else rows, chosen, own)

    if name == "list_queues":
        run = _states(run)
    if name in PER_VHOST:
        run = in_vhost(run)
    run = click.argument("columns", nargs=-1, metavar="[COLUMN]...")(output(reach(run)))
    default = " ".join(DEFAULTS[name])
    text = f"{help_line}\n\nWithout columns: {default}.\n\nColumns: {', '.join(COLUMNS[name])}."
    return click.command(name, help=text, short_help=help_line)(run)


def _states(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options --online, --offline and --local, which scripts for rabbitmqctl may use."""
    for flag in ("--online", "--local"):
        command = click.option(
            flag,
            is_flag=True,
            expose_value=False,
            help="Has no effect; for scripts that were written for rabbitmqctl.",
        )(command)
    return click.option(
        "--offline", is_flag=True, help="List nothing: no queue of a running broker is offline."
    )(command)


for _name, _help in LISTS.items():
    ctl.add_command(_list_command(_name, _help))


@ctl.command()
@reach
@click.option(
    "--formatter",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The output format.",
)
def status(port: int, timeout: float, formatter: str) -> None:
    """Show the broker's version, limits, alarms and totals."""
    sections = ask(port, "status", {}, timeout, of_health=True)[0]
    if formatter == "json":
        write([sections], list(sections), "json", True, sys.stdout)
        return
    for title, facts in sections.items():
        click.echo(f"{title}\n")
        for key, value in facts.items():
            click.echo(f"    {key}: {plain(value)}")
        click.echo()


@ctl.command()
@reach
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    metavar="N",
    help="The maximum number of rows to show of a stage.",
)
@click.option(
    "--width",
    type=click.IntRange(60),
    default=None,
    metavar="COLUMNS",
    help="The maximum width of the picture in characters [default: the terminal's].",
)
@click.option(
    "--formatter",
    type=click.Choice(["picture", "json"]),
    default="picture",
    show_default=True,
    help="The output format.",
)
def chain(port: int, timeout: float, rows: int, width: int | None, formatter: str) -> None:
    """Draw the flow control chain, and explain who is held up by whom."""
    from sluicemq.cli.chain_picture import picture  # noqa: PLC0415 (start-up time)

    answer = ask(port, "chain", {}, timeout)[0]
    if formatter == "json":
        write([answer], list(answer), "json", True, sys.stdout)
        return
    columns = width or shutil.get_terminal_size((100, 24)).columns
    for line in picture(answer["stages"], answer["links"], columns, rows):
        click.echo(escaped(line))
