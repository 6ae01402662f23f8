"""Commands for all definitions together."""

from __future__ import annotations

from typing import Final

from sluicemq.manage.command import Command, CommandArgument, CommandOption

VHOST: Final = CommandOption("vhost", "Export only this virtual host.", None, ("-p", "--vhost"))
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
        "Import definitions from FILE, RabbitMQ's JSON; - for standard input. Nothing is imported"
        " when any of them is invalid.",
        (CommandArgument("file", file="in"),),
        (
            CommandOption(
                "vhost",
                "Import everything that belongs to a virtual host into this one.",
                None,
                VHOST.flags,
            ),
            CommandOption(
                "dry_run", "Show what would be added or changed, and change nothing.", False
            ),
            CommandOption(
                "skip_if_unchanged",
                "Do nothing when the last import had the same definitions.",
                False,
            ),
        ),
        announces='Importing definitions in JSON from a file at "{file}" ...',
        columns={
            "what": "the kind of definition",
            "name": "its name, after that of its virtual host",
            "change": "added or changed; or left out, and why",
        },
    ),
)
