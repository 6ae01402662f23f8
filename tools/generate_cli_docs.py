"""Write docs/cli.md from the commands themselves, so that no command or option goes undocumented,
and the table of ctl's commands in docs/ctl.md.

python tools/generate_cli_docs.py          write it
python tools/generate_cli_docs.py --check  say whether it is fresh (exit code 1: it is not)
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from sluicemq.cli.group import sluicemq
from sluicemq.manage.tables import COLUMNS, DEFAULTS

DOCS = Path(__file__).resolve().parent.parent / "docs"
TARGET = DOCS / "cli.md"
CTL = DOCS / "ctl.md"
BEGIN = "<!-- commands: written by tools/generate_cli_docs.py -->\n"
END = "<!-- end of commands -->"

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


def ctl_table() -> str:
    """Every command of `sluicemq ctl`, and what it does."""
    group = sluicemq.get_command(click.Context(sluicemq), "ctl")
    assert isinstance(group, click.Group)
    lines = ["", "| command | what it does |", "|---|---|"]
    for path, command in commands(group, ""):
        words = usage(path.strip(), command).replace(" [OPTIONS]", "").replace("|", "\\|")
        lines.append(
            f"| `{words}` | {(command.short_help or command.help or '').splitlines()[0]} |"
        )
    return "\n".join([*lines, "", ""])


def ctl_page() -> str:
    """docs/ctl.md with a fresh table."""
    before, _, rest = CTL.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{ctl_table()}{END}{after}"


def main(arguments: list[str]) -> int:
    """Write, or compare."""
    pages = {TARGET: document(), CTL: ctl_page()}
    stale = [page for page, text in pages.items() if page.read_text(encoding="utf-8") != text]
    if arguments == ["--check"]:
        print(f"stale: {', '.join(page.name for page in stale)}" if stale else "fresh")
        return 1 if stale else 0
    for page in stale:
        page.write_text(pages[page], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
