"""`sluicemq force-boot DIR`: go on with one node of a cluster whose majority is lost for good."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sluicemq.cli.formats import escaped
from sluicemq.errors import Corrupt, DiskFailed, Refused

if TYPE_CHECKING:
    from sluicemq.broker.force_boot import ForceBoot

HANDLES: Final = 64
"""The most files that are open at a time."""
QUEUES_SHOWN: Final = 100


@click.command("force-boot", short_help="Go on with one node of a cluster that lost its majority.")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do it. Without this option nothing is changed.")
def force_boot(directory: Path, yes: bool) -> None:
    """Make the node with the data directory DIR a cluster of its own. It must not be running.

    Use this when a majority of the cluster's nodes is lost for good, with their disks: no other
    node can come back to the new cluster. If several nodes are left, choose the one that has most,
    because what only the others have is lost. These then join the new cluster, each with a new
    data directory.

    The command prints what is lost, and what may be lost. With --yes it makes the new cluster;
    then start the node as before.
    """
    from sluicemq.broker.force_boot import ForceBoot  # noqa: PLC0415 (a bad option comes at once)
    from sluicemq.host.clock import HostDice  # noqa: PLC0415
    from sluicemq.host.data_dir import held_existing  # noqa: PLC0415
    from sluicemq.host.files import HostFiles  # noqa: PLC0415

    def say(level: str, text: str) -> None:
        click.echo(escaped(f"{level}: {text}"), err=True)

    with held_existing(directory):
        files = HostFiles(directory, HANDLES)
        try:
            boot = ForceBoot(files, HostDice().token, say)
            for line in lines_of(boot):
                click.echo(escaped(line))
            if yes:
                click.echo(f"{boot.record.name} is the cluster {boot.run()} now. Start it.")
            else:
                click.echo("Nothing was changed. Use --yes to do it.")
        except (Corrupt, DiskFailed) as error:
            raise Refused(f"{directory}: {error}; when that is repaired, run this again") from error
        finally:
            files.close()


def lines_of(boot: ForceBoot) -> Iterator[str]:
    """Return the fates of the nodes and queues, a line each."""
    others = ", ".join(f"node {each.node} ({each.name})" for each in boot.others)
    yield f"Left behind, for good: {others}."
    yield (
        "What they have agreed on and this node had not heard of is lost: definitions, and messages"
        " of quorum queues."
    )
    queues = [*boot.at_risk()]
    lost = [each for each in queues if each.is_lost]
    yield f"Queues of which something may be lost: {len(queues) - len(lost)} quorum queues."
    yield f"Queues that are lost: {len(lost)}."
    for each in lost[:QUEUES_SHOWN]:
        yield f"  {each.type} queue '{each.name}' in vhost '{each.vhost}'"
    if len(lost) > QUEUES_SHOWN:
        yield f"  and {len(lost) - QUEUES_SHOWN} more"
