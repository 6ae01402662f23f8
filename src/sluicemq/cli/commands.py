"""Makes click commands of the table of `manage/commands/`, for `sluicemq ctl`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from sluicemq.cli.control_client import ask
from sluicemq.cli.formats import FORMATTERS, Row, escaped, write
from sluicemq.manage.command import (
    NO_INPUT,
    NO_OUTPUT,
    USAGE,
    Command,
    CommandArgument,
    CommandOption,
    CommandRefused,
)
from sluicemq.manage.commands import COMMANDS
from sluicemq.model.definitions import DEFAULT_VHOST

OWN_OPTIONS = ("port", "timeout", "quiet", "silent", "bare", "formatter")
"""The options of every command that are not sent to the broker."""


class Ctl(click.Group):
    """The command group: commands of its own, and those of the table, which are made when they are
    run. A wrong command line exits with 64, as rabbitmqctl does."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            self.add_command(made(COMMANDS[cmd_name]))
        return self.commands.get(cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            error.show()
            ctx.exit(USAGE)


def reach(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that every command has: the broker's port, and the timeout."""
    command = click.option(
        "-t",
        "--timeout",
        type=click.FloatRange(0.1),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for the answer, in seconds.",
    )(command)
    return click.option(
        "--port",
        type=click.IntRange(1, 65535),
        metavar="PORT",
        default=5672,
        show_default=True,
        envvar="SLUICEMQ_PORT",
        show_envvar=True,
        help="The AMQP port of the broker.",
    )(command)


def output(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how rows are written."""
    command = click.option(
        "-s", "--silent", is_flag=True, help="Print rows only: no header line, no messages."
    )(command)
    command = click.option("-q", "--quiet", is_flag=True, help="Print no messages, only rows.")(
        command
    )
    command = click.option(
        "--no-table-headers", "bare", is_flag=True, help="Print no header line."
    )(command)
    return click.option(
        "--formatter",
        type=click.Choice(FORMATTERS),
        default=None,
        help="The format of rows [default: a drawn table on a terminal, else tab-separated].",
    )(command)


def still(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option --quiet of commands that change something, which print nothing on success."""
    command = click.option(
        "-s", "--silent", is_flag=True, help="Print errors only, as --quiet does."
    )(command)
    return click.option("-q", "--quiet", is_flag=True, help="Print errors only.")(command)


def in_vhost(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option -p, which names the virtual host."""
    return click.option(
        "-p",
        "--vhost",
        metavar="VHOST",
        default=DEFAULT_VHOST,
        show_default=True,
        help="The name of the virtual host.",
    )(command)


def made(spec: Command) -> click.Command:
    """Make click's command for a command of the table."""

    def run(**given: Any) -> None:
        own = {name: given.pop(name, None) for name in OWN_OPTIONS}
        for argument in spec.arguments:
            if argument.secret and given[argument.name] is None:
                given[argument.name] = secret_from_stdin(argument.name)
        carry_out(spec, given, own)

    run = reach(run)
    run = still(run) if spec.columns is None else output(run)
    if spec.per_vhost:
        run = in_vhost(run)
    for option in reversed(spec.options):
        run = option_of(option)(run)
    for argument in reversed(spec.arguments):
        run = argument_of(argument)(run)
    return click.command(spec.name, help=help_of(spec), short_help=spec.help)(run)


def help_of(spec: Command) -> str:
    """Return the help of a command, followed by its columns."""
    if spec.columns is None:
        return spec.help
    return f"{spec.help}\n\nColumns: {', '.join(spec.columns)}."


def argument_of(argument: CommandArgument) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make an argument of the table into click's decorator for it."""
    return click.argument(
        argument.name,
        nargs=-1 if argument.many else 1,
        required=not (argument.optional or argument.many or argument.secret),
    )


def option_of(option: CommandOption) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make an option of the table into click's decorator for it."""
    flags = option.flags or (f"--{option.name.replace('_', '-')}",)
    if isinstance(option.default, bool):
        return click.option(*flags, option.name, is_flag=True, help=option.help)
    kind: Any = str if option.default is None else type(option.default)
    kind = click.Choice(option.choices) if option.choices else kind
    return click.option(
        *flags,
        option.name,
        type=kind,
        default=option.default,
        show_default=option.default not in ("", None),
        metavar=None if option.choices else option.name.upper(),
        help=option.help,
    )


def secret_from_stdin(name: str) -> str:
    """Return a line of standard input; a terminal shows no echo."""
    if sys.stdin.isatty():
        return str(click.prompt(name, hide_input=True))
    line = sys.stdin.readline().rstrip("\n")
    if not line:
        raise CommandRefused(f"{name} is missing: neither an argument nor a line of input", USAGE)
    return line


def carry_out(spec: Command, given: dict[str, Any], own: Mapping[str, Any]) -> None:
    """Send the command to the broker, and print the answer."""
    outputs = {each.name: given[each.name] for each in spec.arguments if each.file == "out"}
    if spec.announces and not (own["quiet"] or own["silent"] or "-" in outputs.values()):
        click.echo(escaped(announcement(spec, given)))
    for argument in spec.arguments:
        if argument.file == "in":
            given[argument.name] = content_of(given[argument.name])
    wanted = {
        key: list(each) if isinstance(each, tuple) else each
        for key, each in given.items()
        if key not in outputs
    }
    rows = ask(own["port"], spec.name, wanted, own["timeout"], spec.of_health)
    for name, path in outputs.items():
        write_file(path, rows[0][name])
    if spec.columns is not None and (rows or not spec.announces):
        print_rows(rows, columns_asked(spec, wanted.get("columns")), own)


def announcement(spec: Command, given: Mapping[str, Any]) -> str:
    """Return the text before a command begins; an argument that was not given leaves no gap."""
    words = {key: "" if value is None else value for key, value in given.items()}
    return spec.announces.format_map(words).replace("  ", " ")


def print_rows(rows: Sequence[Row], columns: Sequence[str], own: Mapping[str, Any]) -> None:
    """Print rows in the form that the options of `output` choose."""
    formatter = own["formatter"] or ("table" if sys.stdout.isatty() else "tsv")
    write(rows, columns, formatter, not (own["silent"] or own["bare"]), sys.stdout)
    if not rows and sys.stdout.isatty() and not (own["quiet"] or own["silent"]):
        click.echo("(none)")


def content_of(path: str) -> str:
    """Return the content of a file, or standard input for "-"."""
    try:
        if path == "-":
            return sys.stdin.read()
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandRefused(f"{path}: {error}", NO_INPUT) from error


def write_file(path: str, text: str) -> None:
    """Write text into a file, or to standard output for "-"."""
    try:
        if path == "-":
            sys.stdout.write(text)
        else:
            Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandRefused(f"{path}: {error}", NO_OUTPUT) from error


def columns_asked(spec: Command, named: list[str] | None) -> list[str]:
    """Return the columns that were named, or the shown ones when none were. Raises Refused for an
    unknown one."""
    assert spec.columns is not None
    named = split_columns(named or ())
    for column in named:
        if column not in spec.columns:
            text = f"{spec.name} has no column {column}; it has: {' '.join(spec.columns)}"
            raise CommandRefused(text, USAGE)
    return named or list(spec.shown or spec.columns)


def split_columns(named: Iterable[str]) -> list[str]:
    """Split column names at commas, as rabbitmqctl does, too."""
    return [column for each in named for column in each.split(",") if column]
