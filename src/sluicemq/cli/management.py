"""`sluicemq management`: the HTTP API and its pages, for a running broker."""

from __future__ import annotations

import os
from pathlib import Path

import click

from sluicemq.cli.config_file import load
from sluicemq.cli.configured import configured
from sluicemq.errors import Refused


@click.command()
@click.option(
    "--broker-port",
    type=click.IntRange(1, 65535),
    default=None,
    metavar="PORT",
    help="The AMQP port of the broker [default: the configured one, 5672].",
)
@click.option("--port", metavar="PORT", help="The port of the HTTP API [default: 15672].")
@configured("the same as the broker's")
@click.option(
    "--until-input-ends",
    is_flag=True,
    help="End when standard input is closed. The broker gives this option when it starts the"
    " command.",
)
def management(
    broker_port: int | None,
    port: str | None,
    file: Path | None,
    sets: tuple[str, ...],
    until_input_ends: bool,
) -> None:
    """Serve RabbitMQ's HTTP API, metrics for Prometheus, and pages for browsers.

    `sluicemq serve --management` starts this command together with the broker. You can also start
    it by itself, as the same user on the same machine, and stop and start it again at any time.
    When it listens, it prints one line, `management http://HOST:PORT`.
    """
    given = [] if port is None else [f"management.port={port}"]
    config = load(file, [*sets, *given], os.environ).config
    try:
        from sluicemq.management.server import serve  # noqa: PLC0415 (what is not always there)
    except ImportError as error:
        raise Refused(
            f"{error.name} is missing: pip install 'sluicemq[management]' installs what is needed"
        ) from error
    serve(config, broker_port or config.net.port, until_input_ends)
