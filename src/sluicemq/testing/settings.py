"""The configuration of a broker under test, from what a test has set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sluicemq.cli.config_file import config_of, read_sets

if TYPE_CHECKING:
    from pathlib import Path

    from sluicemq.config import Config

DEFAULTS: Final = {"net.port": "0", "heartbeat": "0"}
"""A free port; and no heartbeats, so that a client that a debugger has stopped stays connected, and
one whose broker's clock is moved ahead."""


IN_MEMORY: Final = {"storage.journal_file_size_limit": "1MiB"}
"""Of the journal a whole file is reserved, in memory, too."""


def settings_of(options: Mapping[str, object], directory: Path | None) -> list[str]:
    """Return settings as `sluicemq serve --set` takes them: the defaults for tests, then `options`,
    and the directory of the broker's storage; None is memory."""
    if directory is None:
        settings = {**DEFAULTS, **IN_MEMORY, **options, "storage.kind": "memory"}
    else:
        settings = {**DEFAULTS, **options, "storage.data_dir": str(directory)}
    return [f"{key}={written(value)}" for key, value in settings.items()]


def written(value: object) -> str:
    """Return a value as configuration files write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def configured(settings: list[str]) -> Config:
    """Return the configuration that these settings make, whatever the environment says. Raises
    Refused for invalid ones."""
    return config_of(read_sets(settings)).config
