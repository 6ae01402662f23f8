"""`sluicemq serve`: reads the options, and runs the broker until it is told to stop."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from sluicemq.cli.config_file import ReadConfig, load
from sluicemq.cli.configured import configured
from sluicemq.config import Config


@click.command()
@click.option("--host", metavar="ADDRESS", help="The address to listen on [default: 127.0.0.1].")
@click.option("--port", metavar="PORT", help="The AMQP port; 0 chooses a free one [default: 5672].")
@click.option(
    "--data-dir",
    metavar="DIR",
    help="The directory for everything this broker stores. It is created if it is missing, and"
    " refused while another broker uses it [default: ~/.local/share/sluicemq/PORT; a temporary one"
    " with port 0].",
)
@configured("TOML, or RabbitMQ's rabbitmq.conf")
@click.option("--name", metavar="NAME", help="This node's name in a cluster, such as n1.")
@click.option(
    "--cluster-nodes",
    metavar="HOST:PORT,...",
    help="All nodes that found the cluster, including this one; the list is the same on each of"
    " them [default: no cluster]. See docs/cluster.md.",
)
@click.option(
    "--cluster-join",
    metavar="HOST:PORT,...",
    help="Nodes of a running cluster, which this new node asks to let it join. See"
    " docs/cluster.md.",
)
@click.option(
    "--cluster-host",
    metavar="HOST",
    help="The address to listen on for the other nodes [default: the one in --cluster-nodes].",
)
@click.option(
    "--cluster-port",
    metavar="PORT",
    help="The port for the other nodes. It tells which of --cluster-nodes this node is.",
)
@click.option(
    "--cluster-secret-file",
    metavar="FILE",
    help="The file with the secret that all nodes share. Only its owner may be able to read it.",
)
@click.option(
    "--management/--no-management",
    "management",
    default=None,
    help="Whether to start `sluicemq management` together with the broker: the HTTP API, metrics"
    " and pages [default: no]. See docs/management.md.",
)
@click.option(
    "--management-port",
    metavar="PORT",
    help="The port of the HTTP API; 0 chooses a free one [default: 15672]. Implies --management.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Start even if required files are missing, truncated or unreadable. Their content is"
    " lost; the broker moves what is left of them to DIR/quarantine. See docs/persistence.md.",
)
def serve(
    host: str | None,
    port: str | None,
    data_dir: str | None,
    file: Path | None,
    sets: tuple[str, ...],
    accept_loss: bool,
    management: bool | None,
    management_port: str | None,
    **cluster: str | None,
) -> None:
    """Run the broker until SIGTERM or ^C. On SIGHUP it reads its configuration and opens its log
    file again.

    When it accepts connections, it prints one line, `ready amqp://HOST:PORT`; with TLS followed by
    ` amqps://HOST:PORT`. A node of a cluster accepts connections once it is a member. Options
    override SLUICEMQ_* variables, which override the file, which overrides the defaults.
    """
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


def end(code: int) -> None:
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
