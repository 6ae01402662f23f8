"""Run the test suites of real clients against SluiceMQ, with RabbitMQ beside it: `make interop`.

All of them take at most `--minutes`; a suite that is not through then is cut short, and says so. A
run of all on both brokers writes the figures into docs/clients.md. Exit code 1 when a test that
RabbitMQ passes fails for a reason nobody has written down.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import brokers
import clients
import environment
import table
from running import CUT_SHORT
from suite import PASSED, Missing, Suite, Verdict, Workplace

from support import broker

if TYPE_CHECKING:
    from collections.abc import Sequence


PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
AS_RABBITMQ = ("product.name=RabbitMQ", "product.version=3.10.8")
"""Some clients ask for the name before they use what RabbitMQ can do: kombu, amqplib's tests."""
OVER_QUORUM = ("aio_pika", "kombu", "pika", "py_amqp", "taskiq")
"""Suites in Python whose clients `plugins/quorum_by_force.py` knows."""
FETCHING = Lock()
"""Held while sources are fetched: two suites may come from one package."""


def suites(names: Sequence[str], *, over_quorum: bool = False) -> list[Suite]:
    """One a file in `clients`, in the order of their names; all when none are named, that can be
    run over quorum queues if that is wanted."""
    found = {
        module.name: importlib.import_module(f"clients.{module.name}").SUITE
        for module in pkgutil.iter_modules(clients.__path__)
    }
    unknown = set(names) - set(found)
    if unknown:
        sys.exit(f"no such client: {', '.join(sorted(unknown))}; there are {', '.join(found)}")
    if over_quorum:
        return [found[name].over_quorum() for name in names or OVER_QUORUM]
    chosen = [found[name] for name in names or sorted(found)]
    return sorted(chosen, key=lambda suite: not suite.takes_long)


def run_suite(
    suite: Suite,
    ports: dict[str, int],
    given: dict[str, Path],
    python: Path,
    out: Path,
    over_quorum: bool,
    deadline: float,
) -> Verdict:
    """On all brokers at once, each with a copy of the sources."""
    verdict = Verdict(suite)
    began = time.monotonic()
    try:
        client = suite.client.partition(" ")[0]
        with FETCHING:
            sources = given.get(client) or suite.source.fetch(out / "cache")
        places = [
            replace(
                workplace(suite, broker, port, sources, python, out),
                over_quorum=over_quorum,
                deadline=deadline,
            )
            for broker, port in ports.items()
        ]
        with ThreadPoolExecutor() as pool:
            results = list(pool.map(suite.run, places))
        verdict.outcomes = {
            place.broker: result for place, result in zip(places, results, strict=True)
        }
        verdict.cut_short = frozenset(
            place.broker for place in places if (place.results / CUT_SHORT).exists()
        )
        if table.ORACLE in ports and not verdict.count(table.ORACLE, PASSED):
            raise Missing(f"not one test passes, even against RabbitMQ; see {out}/results")
    except Missing as reason:
        verdict.missing = str(reason)
    print(f"{suite.client}: {time.monotonic() - began:.0f} s", flush=True)
    return verdict


def workplace(
    suite: Suite, broker: str, port: int, sources: Path, python: Path, out: Path
) -> Workplace:
    """A copy of the sources and a directory for the results, both new."""
    results = out / "results" / suite.client / broker
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    if sources.parent == out / "cache" or not sources.samefile(Path.cwd()):
        copy = results / "sources"
        shutil.copytree(sources, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        sources = copy
    return Workplace(broker, port, sources.resolve(), python, results.resolve())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make interop", description=__doc__)
    parser.add_argument("clients", nargs="*", help="files of tools/interop/clients; all if none")
    parser.add_argument("--out", type=Path, default=Path("out/interop"))
    parser.add_argument(
        "--sources",
        action="append",
        default=[],
        metavar="CLIENT=DIRECTORY",
        help="take a client's sources from here instead of fetching them",
    )
    parser.add_argument("--at-once", type=int, default=3, help="suites that run beside one another")
    parser.add_argument("--minutes", type=float, default=37, help="how long all may take")
    parser.add_argument(
        "--quorum", action="store_true", help="have the suites declare quorum queues"
    )
    parser.add_argument("--no-oracle", action="store_true", help="leave RabbitMQ out")
    return parser.parse_args()


def main() -> None:
    """Fetch, start the brokers, run, print."""
    options = arguments()
    deadline = time.monotonic() + options.minutes * 60
    options.out = options.out.absolute()
    wanted = suites(options.clients, over_quorum=options.quorum)
    given = {
        client: Path(directory)
        for client, _, directory in (pair.partition("=") for pair in options.sources)
    }
    python = environment.prepare(options.out / "cache")
    homes = options.out / "brokers"
    shutil.rmtree(homes, ignore_errors=True)
    homes.mkdir(parents=True)
    with ExitStack() as stack:
        (homes / "sluicemq").mkdir()
        own = broker.serving(homes / "sluicemq", *AS_RABBITMQ)
        ports = {table.OWN: stack.enter_context(own).port}
        if not options.no_oracle and not brokers.RABBITMQ.exists():
            print("NO ORACLE: RabbitMQ is missing: apt-get install rabbitmq-server")
        elif not options.no_oracle:
            ports[table.ORACLE] = brokers.free_port()
            stack.enter_context(brokers.rabbitmq(ports[table.ORACLE], homes / "rabbitmq"))
        with ThreadPoolExecutor(options.at_once) as pool:
            run = partial(
                run_suite,
                ports=ports,
                given=given,
                python=python,
                out=options.out,
                over_quorum=options.quorum,
                deadline=deadline,
            )
            verdicts = list(pool.map(run, wanted))
    report = [*table.table(verdicts), ""]
    for verdict in verdicts:
        report += table.remarks(verdict)
    (options.out / "table.txt").write_text("\n".join(report) + "\n")
    if not options.clients and not options.quorum and table.ORACLE in ports:
        table.write(PAGE, verdicts)
    print("\n" + "\n".join(report))
    sys.exit(0 if all(table.is_fine(verdict) for verdict in verdicts) else 1)


if __name__ == "__main__":
    main()
