"""`sluicemq serve` for click: its options, and the help for them."""

from __future__ import annotations

from typing import Any

import click

from sluicemq.cli.configured import configured
from sluicemq.cli.start import start


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
def serve(**options: Any) -> None:
    """Run the broker until SIGTERM or ^C. On SIGHUP it reads its configuration and opens its log
    file again.

    When it accepts connections, it prints one line, `ready amqp://HOST:PORT`; with TLS followed by
    ` amqps://HOST:PORT`. A node of a cluster accepts connections once it is a member. Options
    override SLUICEMQ_* variables, which override the file, which overrides the defaults.
    """
    start(**options)
