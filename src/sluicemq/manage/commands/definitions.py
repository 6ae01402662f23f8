"""Commands for all definitions together."""

from __future__ import annotations

from typing import Final

from sluicemq.manage.command import Command, CommandArgument, CommandOption

VHOST: Final = CommandOption("vhost", "Only what is in this virtual host.", None, ("-p", "--vhost"))
COMMANDS: Final = (
    Command(
        "export_definitions",
        "Write virtual hosts, users, permissions, policies, parameters, exchanges, queues and"
        " bindings to FILE, as RabbitMQ's JSON; - for standard output.",
        (CommandArgument("file", file="out"),),
        (VHOST,),
        announces='Exporting definitions in JSON to a file at "{file}" ...',
    ),
    Command(
        "import_definitions",
        "Take definitions over from FILE, RabbitMQ's JSON; - for standard input. All of them, or"
        " none when something is wrong with one.",
        (CommandArgument("file", file="in"),),
        (
            CommandOption(
                "vhost", "Put all that is in a virtual host into this one.", None, VHOST.flags
            ),
            CommandOption("dry_run", "Only show what would be added or changed.", False),
            CommandOption(
                "skip_if_unchanged",
                "Do nothing when these very definitions were the last that came in.",
                False,
            ),
        ),
        announces='Importing definitions in JSON from a file at "{file}" ...',
        columns={
            "what": "what it is",
            "name": "its name, with its virtual host before it",
            "change": "added or changed; or left out, and why",
        },
    ),
)
