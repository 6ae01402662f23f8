"""`sluicemq serve`: from options to a configuration, then the broker until it is told to stop."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from sluicemq.cli.config_file import load
from sluicemq.config import Config


@click.command()
@click.option("--host", metavar="ADDRESS", help="The address to listen on [default: 127.0.0.1].")
@click.option("--port", metavar="PORT", help="The AMQP port; 0 takes a free one [default: 5672].")
@click.option(
    "--data-dir",
    metavar="DIR",
    help="The directory with everything this broker keeps: made if missing, refused if another"
    " broker has it [default: ~/.local/share/sluicemq/PORT, or, with port 0, a temporary one].",
)
@click.option(
    "--config",
    "file",
    metavar="FILE",
    envvar="SLUICEMQ_CONFIG",
    show_envvar=True,
    type=click.Path(path_type=Path),
    help="TOML, or RabbitMQ's rabbitmq.conf.",
)
@click.option(
    "--set",
    "sets",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set one option; may be given often. See docs/configuration.md.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Start without files that must be there and are missing, short or unreadable. What they"
    " had is lost; what is left of them goes to DIR/quarantine. See docs/persistence.md.",
)
def serve(
    host: str | None,
    port: str | None,
    data_dir: str | None,
    file: Path | None,
    sets: tuple[str, ...],
    accept_loss: bool,
) -> None:
    """Run the broker until SIGTERM or ^C. SIGHUP makes it read its configuration again.

    Prints one line, `ready amqp://HOST:PORT`, when it accepts connections; with TLS the line goes
    on with ` amqps://HOST:PORT`. Options win over
    SLUICEMQ_* variables, those over the file, the file over the defaults.
    """
    flags = {"net.host": host, "net.port": port, "storage.data_dir": data_dir}
    given = [f"{key}={value}" for key, value in flags.items() if value is not None]

    def read() -> Config:
        return load(file, [*sets, *given], os.environ)

    config = read()

    from sluicemq.host.data_dir import chosen  # noqa: PLC0415 (a bad option is refused at once)
    from sluicemq.host.run import serve as run  # noqa: PLC0415

    with chosen(config, os.environ) as directory:

        def read_again() -> Config:
            return at(directory, read())

        code = run(at(directory, config), directory, read_again, accept_loss)
    end(code)


def end(code: int) -> None:
    """End the process without Python's own clean-up, which frees objects one by one: seconds with
    tens of thousands of queues, when all is on the disk already."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def at(directory: Path, config: Config) -> Config:
    """Return the configuration with the data directory that was chosen, so that status can show
    it."""
    return replace(config, storage=replace(config.storage, data_dir=str(directory)))
