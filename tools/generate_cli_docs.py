"""Write docs/cli.md from the commands themselves, so that no command or option goes undocumented.

python tools/generate_cli_docs.py          write it
python tools/generate_cli_docs.py --check  say whether it is fresh (exit code 1: it is not)
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from sluicemq.cli.main import sluicemq
from sluicemq.manage.tables import COLUMNS, DEFAULTS

TARGET = Path(__file__).resolve().parent.parent / "docs" / "cli.md"

HEAD = """\
# Command line

Written by `tools/generate_cli_docs.py` from the commands themselves; do not edit it here.

Every command and group has `--help`. Exit codes: 0 done; 1 what was run has failed (lost messages,
a broken promise, a damaged file); 2 refused (a wrong option or value), with the reason in one
message on standard error. `sluicemq ctl` has rabbitmqctl's: see [ctl.md](ctl.md).
"""


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command below a group with its full name, groups before their commands."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        full = f"{path} {name}"
        yield full, command
        if isinstance(command, click.Group):
            yield from commands(command, full)


def usage(path: str, command: click.Command) -> str:
    """`sluicemq ctl list_queues [OPTIONS] [COLUMN]...`"""
    pieces = command.collect_usage_pieces(click.Context(command))
    return " ".join([path, *pieces])


def default_of(option: click.Option, context: click.Context) -> str:
    """The default, if it says anything."""
    value = option.get_default(context)
    if option.is_flag or option.multiple or value is None or not option.show_default:
        return ""
    return f" Default: `{value}`."


def metavar_of(option: click.Option, context: click.Context) -> str:
    """What stands for the value: ` PORT`, ` N` for a number that has no name."""
    if option.is_flag:
        return ""
    word = option.make_metavar(context).replace("|", ", ")
    return " N" if word in ("INTEGER", "INTEGER RANGE") else f" {word}"


def option_line(option: click.Option, context: click.Context) -> str:
    """One option in a list."""
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    default = default_of(option, context)
    variable = f" Environment: `{option.envvar}`." if option.envvar else ""
    return f"- {names}{metavar_of(option, context)}: {option.help}{default}{variable}"


def columns_table(name: str) -> list[str]:
    """The columns of a list_* command; those shown without asking are bold."""
    lines = ["", "| column | meaning |", "|---|---|"]
    for column, meaning in COLUMNS[name].items():
        shown = f"**{column}**" if column in DEFAULTS[name] else column
        lines.append(f"| {shown} | {meaning} |")
    return [*lines, "", "Bold: shown when no columns are named."]


def help_text(command: click.Command) -> str:
    """The help as Markdown: paragraphs that click is told not to wrap stand as they are."""
    text = inspect.cleandoc(command.help or "").split("\f")[0].rstrip()
    paragraphs = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b"):
            lines = paragraph.removeprefix("\b").strip("\n").splitlines()
            paragraph = "\n".join(f"    {line}" for line in lines)
        paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)


def command_lines(path: str, command: click.Command) -> list[str]:
    """One command: heading, usage, what it does, its options."""
    context = click.Context(command)
    depth = "#" * min(len(path.split()), 4)
    text = help_text(command)
    name = path.rpartition(" ")[2]
    if name in COLUMNS:
        text = text.partition("\n\n")[0]
    lines = ["", f"{depth} {path}", "", f"    {usage(path, command)}", "", text]
    if name in COLUMNS:
        lines += columns_table(name)
    options = [each for each in command.params if isinstance(each, click.Option)]
    if options:
        lines += ["", *(option_line(option, context) for option in options)]
    return lines


def document() -> str:
    """The whole page."""
    found = commands(sluicemq, "sluicemq")
    return HEAD + "\n".join(line for each in found for line in command_lines(*each)) + "\n"


def main(arguments: list[str]) -> int:
    """Write, or compare."""
    if arguments == ["--check"]:
        fresh = TARGET.read_text(encoding="utf-8") == document()
        print(f"{TARGET.name} is {'fresh' if fresh else 'stale'}")
        return 0 if fresh else 1
    TARGET.write_text(document(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
