"""The options that configure a broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click


def configured(which: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options --config and --set, for the arguments `file` and
    `sets`; `which` names the file in the help."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        command = click.option(
            "--set",
            "sets",
            metavar="KEY=VALUE",
            multiple=True,
            help="Set one option; may be repeated. See docs/configuration.md.",
        )(command)
        return click.option(
            "--config",
            "file",
            metavar="FILE",
            envvar="SLUICEMQ_CONFIG",
            show_envvar=True,
            type=click.Path(path_type=Path),
            help=f"The configuration file: {which}.",
        )(command)

    return add
