"""Starts a broker with the options of `sluicemq serve`, and runs it until it is told to stop."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from sluicemq.cli.config_file import ReadConfig, load
from sluicemq.config import Config


def start(
    host: str | None,
    port: str | None,
    data_dir: str | None,
    file: Path | None,
    sets: tuple[str, ...],
    accept_loss: bool,
    management: bool | None,
    management_port: str | None,
    **cluster: str | None,
) -> NoReturn:
    """Run the broker with these options, and end the process. Raises Refused when it does not
    start."""
    flags = {"net.host": host, "net.port": port, "storage.data_dir": data_dir}
    flags |= {f"cluster.{key.removeprefix('cluster_')}": each for key, each in cluster.items()}
    flags["management.port"] = management_port
    if management is not None or management_port is not None:
        flags["management.enabled"] = "false" if management is False else "true"
    given = [f"{key}={value}" for key, value in flags.items() if value is not None]

    def read() -> ReadConfig:
        return load(file, [*sets, *given], os.environ)

    config, _, notes = read()

    gc.disable()  # to search what is imported takes an eighth of the time, and finds nothing
    from sluicemq.host.without_openssl import import_without_openssl  # noqa: PLC0415

    import_without_openssl()
    from sluicemq.host.data_dir import chosen  # noqa: PLC0415 (a bad option is refused at once)
    from sluicemq.host.run import serve as run  # noqa: PLC0415

    with chosen(config, os.environ) as place:

        def read_again() -> Config:
            return at(place, read().config)

        beside = companion(file, [*sets, *given]) if config.management.enabled else []
        code = run(at(place, config), place, read_again, accept_loss, beside, notes)
    end(code)


def companion(file: Path | None, sets: Sequence[str]) -> list[str]:
    """Return the command of the management process, with the broker's configuration; it inherits
    the environment."""
    command = [sys.executable, "-m", "sluicemq", "management", "--until-input-ends"]
    if file is not None:
        command += ["--config", str(file)]
    for each in sets:
        command += ["--set", each]
    return command


def end(code: int) -> NoReturn:
    """End the process without Python's own clean-up, which frees objects one by one and takes
    seconds with tens of thousands of queues, though all data is on the disk already."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def at(place: object, config: Config) -> Config:
    """Return the configuration with the chosen data directory, if there is one, for status to show
    it."""
    if not isinstance(place, Path):
        return config
    return replace(config, storage=replace(config.storage, data_dir=str(place)))
