"""`sluicemq config`: checks the configuration of a broker, and shows it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluicemq.cli.config_file import load
from sluicemq.cli.configured import configured
from sluicemq.config import SECTIONS, Config
from sluicemq.errors import Refused
from sluicemq.options import options_of

if TYPE_CHECKING:
    from sluicemq.options import Option

KEY_COLUMNS = 60
"""The column at which origins begin, when the setting is short enough."""


@click.group()
def config() -> None:
    """Check a configuration, or show the options that result from it. No broker is started or
    asked.

    Both commands read what `sluicemq serve` would read: the file, SLUICEMQ_* and RABBITMQ_*
    variables, and --set.
    """


@config.command()
@configured("TOML, or RabbitMQ's rabbitmq.conf")
def check(file: Path | None, sets: tuple[str, ...]) -> None:
    """Check a configuration and the files that it names.

    If `sluicemq serve` would refuse it, the command gives the reason and exits with 2. It names
    each setting that is passed over because only RabbitMQ has it, one line each.
    """
    found = load(file, sets, os.environ)
    look_at_files(found.config)
    for note in found.notes:
        click.echo(f"note: {note}")
    count = len(found.origins)
    click.echo(f"ok: {count} option{'s' if count != 1 else ''} set, all others have their defaults")


@config.command()
@configured("TOML, or RabbitMQ's rabbitmq.conf")
@click.option(
    "--origin",
    is_flag=True,
    help="Say where each value comes from: file and line, variable, command line, or default.",
)
def show(file: Path | None, sets: tuple[str, ...], origin: bool) -> None:
    """Show every option with its value, in the form of a file for --config.

    Options that are not set stand in comments. So do passwords, without their values.
    """
    found = load(file, sets, os.environ)
    for section, line, key in lines_of(found.config):
        where = found.origins.get((section, key), "default")
        click.echo(f"{line:<{KEY_COLUMNS}} # {where}" if origin else line)


def lines_of(config: Config) -> Iterator[tuple[str, str, str]]:
    """Yield the section, the line and the field of each option."""
    for section, declared in SECTIONS.items():
        for field, option in options_of(declared):
            value = getattr(getattr(config, section), field.name)
            yield section, line_of(f"{section}.{field.name}", option, value), field.name


def line_of(key: str, option: Option, value: object) -> str:
    """Return an option and its value as a line of a rabbitmq.conf."""
    if option.secret and value is not None:
        return f"# {key} = (hidden)"
    if value is None:
        return f"# {key}: {option.default_words}"
    if isinstance(value, bool):
        return f"{key} = {str(value).lower()}"
    if isinstance(value, tuple):
        return f"{key} = {','.join(str(part) for part in value) or 'none'}"
    return f"{key} = {quoted(str(value))}"


def quoted(value: str) -> str:
    """Return a value in a form that the comments and blanks of rabbitmq.conf leave intact."""
    return f"'{value}'" if "#" in value or value != value.strip() else value


def look_at_files(config: Config) -> None:
    """Read the files that a configuration names, as a start does. Raises Refused for one that
    cannot be read, or has the wrong content."""
    from sluicemq.host.cluster_secret import read_secret  # noqa: PLC0415 (start-up time)
    from sluicemq.host.tls import TlsSettings  # noqa: PLC0415

    read_secret(config.cluster)
    if config.tls.port is not None:
        TlsSettings(config)
    elif config.net.tcp_listener == "none":
        raise Refused("listeners.tcp = none: listeners.ssl.default must be set")
    named: Mapping[str, str | None] = {
        "load_definitions": config.definitions.load,
        "management.ssl.certfile": config.management.certfile,
        "management.ssl.keyfile": config.management.keyfile,
    }
    for key, path in named.items():
        if path is not None and not os.access(path, os.R_OK):
            raise Refused(f"{key} = {path}: the file is missing or cannot be read")
