"""The declaration of a control command: its name, arguments and options. Data for both ends.

The table of all of them is in `commands/`, a file a noun, and imports nothing of the broker: the
command line makes its commands and docs of it. `actions/` has a function for each, in the broker.

To add one: a `Command` in `commands/<noun>.py`, in its `COMMANDS`; a function in
`actions/<noun>.py` with the command's name, in its `ACTIONS`:

    def add_thing(task: Task, given: Given) -> None:
        name = given.text("name")
        if name in things:
            raise CommandRefused(f"there is a thing {name}", UNAVAILABLE)
        task.propose(UpsertRecord(Thing(name)))      # answered when that is durable

or `task.finish(rows)` when there is nothing to wait for, or `task.on_message(function)` to handle
the messages that actors post to the task. Files with both tables are named in
`commands/__init__.py` and `actions/__init__.py`; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sluicemq.errors import Refused
from sluicemq.model.document_fields import NAME_BYTES_MAX, is_name
from sluicemq.text import is_utf8

USAGE: Final = 64
DATA: Final = 65
NO_INPUT: Final = 66
NO_USER: Final = 67
UNAVAILABLE: Final = 69
SOFTWARE: Final = 70
NO_OUTPUT: Final = 73
LATER: Final = 75
"""Exit codes as rabbitmqctl has them (sysexits.h): the command line is wrong; there is no such
virtual host; a file cannot be read; there is no such user; there is no broker, or it refuses;
something broke; a file cannot be written; no answer in time."""


class CommandRefused(Refused):
    """A control command that cannot be carried out; `exit_code` is one of the above."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class CommandArgument:
    """A positional argument. `optional`: it may be left out; `many`: the rest of the line, a list;
    `secret`: read from standard input when it is left out, and never shown. `file`: it names a
    file, "-" for standard input or output: with "in" its content is sent, with "out" the answer's
    field of the same name is written to it."""

    name: str
    optional: bool = False
    many: bool = False
    secret: bool = False
    file: str = ""


@dataclass(frozen=True, slots=True)
class CommandOption:
    """An option, `--name`, with its spellings in `flags`. The type of `default` gives its kind:
    False makes a flag, an int a number, "" a text."""

    name: str
    help: str
    default: str | int | bool | None = ""
    flags: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `announces`: the text it prints before it begins, with {arguments}; `columns`:
    the columns of its rows, with their meanings (there may be no rows when `announces` is set);
    `shown`: the columns shown when none are named, all if empty; `per_vhost`: it has -p."""

    name: str
    help: str
    arguments: tuple[CommandArgument, ...] = ()
    options: tuple[CommandOption, ...] = ()
    announces: str = ""
    columns: Mapping[str, str] | None = None
    shown: tuple[str, ...] = ()
    per_vhost: bool = False
    of_health: bool = False
    """Whether the command asks if the broker is well. If so, a broker that does not answer in time
    is not (exit code 69)."""


class Given:
    """The arguments of a request, which came as JSON: each is checked when it is read."""

    __slots__ = ("values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string. Raises CommandRefused for another type, or if missing without a
        default."""
        value = self.values.get(name)
        if value is None:
            value = default
        if not isinstance(value, str):
            raise CommandRefused(f"{name} is missing or not a text", USAGE)
        return proper(name, value)

    def name(self, name: str) -> str:
        """Return a string that may name something new, and so must survive an export and an import.
        Raises CommandRefused when it cannot."""
        value = self.text(name)
        if not is_name(value):
            raise CommandRefused(f"{name} is longer than {NAME_BYTES_MAX} bytes", DATA)
        return value

    def number(self, name: str, default: int | None = None) -> int:
        """Return a whole number. Raises CommandRefused when it is of another type, or missing
        without a default."""
        value = self.values.get(name, default)
        if type(value) is not int:
            raise CommandRefused(f"{name} is missing or not a whole number", USAGE)
        return value

    def flag(self, name: str) -> bool:
        """Tell whether a flag was given."""
        return self.values.get(name) is True

    def texts(self, name: str) -> list[str]:
        """Return a list of strings; empty when it is missing."""
        value = self.values.get(name) or []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise CommandRefused(f"{name} is not a list of texts", USAGE)
        return [proper(name, each) for each in value]


def proper(name: str, value: str) -> str:
    """Return a given text. Raises CommandRefused when it is not UTF-8, as all names and settings of
    commands must be."""
    if not is_utf8(value):
        raise CommandRefused(f"{name} is not valid UTF-8", USAGE)
    return value
