"""The command `sluicemq` for click: its subcommands, and the option of its own."""

from __future__ import annotations

from typing import Final

import click

from sluicemq import __version__
from sluicemq.cli.lazy import Later, LazyGroup
from sluicemq.host.build_kind import build_kind

COMMANDS: Final = {
    "serve": Later("sluicemq.cli.serve", "serve", "Run the broker."),
    "ctl": Later("sluicemq.cli.ctl", "ctl", "Show and change the state of a running broker."),
    "top": Later("sluicemq.cli.top", "top", "Show what a running broker does, live."),
    "management": Later(
        "sluicemq.cli.management", "management", "Serve the HTTP API and pages of a broker."
    ),
    "config": Later("sluicemq.cli.config", "config", "Check a configuration, or show it."),
    "force-boot": Later(
        "sluicemq.cli.force_boot",
        "force_boot",
        "Go on with one node of a cluster that lost its majority.",
    ),
    "fsck": Later("sluicemq.cli.fsck", "fsck", "Check a data directory."),
    "inspect": Later(
        "sluicemq.cli.inspect", "inspect", "Print the content of a file of a data directory."
    ),
    "lab": Later("sluicemq.cli.lab", "lab", "Run load tests against a broker, and report."),
    "sim": Later("sluicemq.cli.sim", "sim", "Run the broker in a simulation, from a seed."),
}


def say_version(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    """Print the version and end, if `is_wanted`."""
    if is_wanted:
        click.echo(f"sluicemq {__version__} ({build_kind()})")
        context.exit()


@click.group(
    cls=LazyGroup,
    later=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=say_version,
    help="Show the version, and whether it is pure Python or compiled.",
)
def sluicemq() -> None:
    """SluiceMQ: an AMQP 0-9-1 broker, and a lab that measures any AMQP broker."""
