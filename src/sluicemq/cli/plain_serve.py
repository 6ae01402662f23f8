"""Reads the plain arguments of `sluicemq serve` without click.

Plain are options with their whole names, each with its value, that are spelled right. Whatever
else is there, such as --help or a mistake, click reads and answers (serve.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

VALUES: Final = {
    "--host": "host",
    "--port": "port",
    "--data-dir": "data_dir",
    "--name": "name",
    "--cluster-nodes": "cluster_nodes",
    "--cluster-join": "cluster_join",
    "--cluster-host": "cluster_host",
    "--cluster-port": "cluster_port",
    "--cluster-secret-file": "cluster_secret_file",
    "--management-port": "management_port",
}
"""Options with a value, and the arguments of `start` that they are."""

SWITCHES: Final = {
    "--management": ("management", True),
    "--no-management": ("management", False),
    "--accept-loss": ("accept_loss", True),
}
"""Options without a value, and what they make of an argument."""

FILE: Final = "--config"
FILE_VARIABLE: Final = "SLUICEMQ_CONFIG"
SET: Final = "--set"


def plain(arguments: Sequence[str]) -> dict[str, Any] | None:
    """Return the arguments of `start`; None when these are not plain."""
    given: dict[str, Any] = dict.fromkeys(VALUES.values())
    given |= {"management": None, "accept_loss": False}
    file = os.environ.get(FILE_VARIABLE)
    sets: list[str] = []
    rest = iter(arguments)
    for word in rest:
        if word in SWITCHES:
            name, is_on = SWITCHES[word]
            given[name] = is_on
            continue
        option, equals, value = word.partition("=")
        if not equals:
            value = next(rest, "-")
            if value.startswith("-"):
                return None
        if option in VALUES:
            given[VALUES[option]] = value
        elif option == FILE:
            file = value
        elif option == SET:
            sets.append(value)
        else:
            return None
    return given | {"file": Path(file) if file else None, "sets": tuple(sets)}
