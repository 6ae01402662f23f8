"""Writes behind shuffles whose tasks go wrong in the middle, on a standalone cluster of three.

    PYTHONPATH=src:tests python -m spark.shuffles [--keep FOLDER] [SCENARIO..]
                                                                    (make torture-spark)

Without scenarios all of them: `shuffle_job.py` says what there is. A row that is lost or comes
twice ends it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from spark.cluster import standalone_cluster
from spark.kill_parts import ROOT, BrokerProcess
from spark.killing import folder_for
from spark.shuffle_job import MODES, PLANNING, PLANS, WAYS, Outcome

EXECUTORS = 3


def all_scenarios() -> list[str]:
    """Every combination; a stream cannot be sorted."""
    return [
        "-".join(each)
        for each in product(PLANS, WAYS, MODES, PLANNING)
        if each[0] != "sort" or each[2] != "stream"
    ]


def run(
    master: str, url: str, folder: Path, deduplication: str, scenarios: Sequence[str]
) -> dict[str, Outcome]:
    """What came of each, on a cluster of EXECUTORS."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    with (folder / "log").open("wb") as log:
        place = folder / "job"
        place.mkdir()
        job = [sys.executable, "-m", "spark.shuffle_job", master, url, str(place), deduplication]
        code = subprocess.call([*job, *scenarios], stderr=log, env=environment)
    assert code == 0, (folder / "log").read_text(errors="replace")[-3000:]
    return outcomes_in(place)


def outcomes_in(folder: Path) -> dict[str, Outcome]:
    """What a job has left there."""
    found = json.loads((folder / "outcomes.json").read_text())
    return {name: Outcome(**outcome) for name, outcome in found.items()}


def wrong(outcomes: dict[str, Outcome]) -> list[str]:
    """Those that are not as they must be."""
    return [
        f"{name}: {outcome}"
        for name, outcome in outcomes.items()
        if outcome.error or outcome.lost or outcome.doubled or outcome.attempts < 2
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--deduplication", default="content")
    parser.add_argument("scenarios", nargs="*")
    given = parser.parse_args()
    with folder_for(given.keep) as folder:
        broker = BrokerProcess("sluicemq", folder)
        broker.start()
        try:
            scenarios = given.scenarios or all_scenarios()
            with standalone_cluster(EXECUTORS, apart=True) as master:
                outcomes = run(master, broker.url, folder, given.deduplication, scenarios)
        finally:
            broker.kill()
    found = wrong(outcomes)
    assert not found, "\n".join(found)
    print(f"{len(outcomes)} scenarios, nothing lost, nothing twice")


if __name__ == "__main__":
    main()
