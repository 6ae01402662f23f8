"""The victim of `test_amqp_planner_kill.py`: a session that is driven as Spark drives it, and a
checkpoint that is written as Spark writes it, without Spark.

    python -m spark.kill_planner URL QUEUE FOLDER WAY

Batch after batch: planned, `offsets/N`, rows in `rows/N`, `commits/N`. Then there is no trigger for
a while, so that only the commit itself can tell that the batch may be acknowledged: WAY is what
tells, `listener` or `checkpoint`. It says `N` when batch N is committed, and never ends.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from random import Random

from pyspark.sql.types import BinaryType, BooleanType, StructField, StructType

from sluicemq.spark.commits import Offset, tell_committed
from sluicemq.spark.options import Options
from sluicemq.spark.schema import Decoder
from sluicemq.spark.stream_planner import START, StreamPlanner
from sluicemq.spark.transfer import fetch

SCHEMA = StructType([StructField("body", BinaryType()), StructField("redelivered", BooleanType())])
ROWS = 50
STEP_S = 0.05
"""How long anything takes, at most: time to die in."""

TRIGGER_S = 0.5


class Planner:
    """See above."""

    def __init__(self, url: str, queue: str, folder: Path, way: str) -> None:
        self.folder = folder
        self.way = way
        self.dice = Random()
        given = {"uri": url, "queue": queue, "maxMessagesPerBatch": str(ROWS)}
        if way == "checkpoint":
            given["checkpointLocation"] = str(folder)
        self.session = StreamPlanner(Options.parse(given, "source"))
        for log in ("offsets", "rows", "commits"):
            (folder / log).mkdir(exist_ok=True)

    def run(self) -> None:
        """Go on where the one before was killed; what was planned and not committed runs again."""
        batch, start = self.latest()
        if batch >= 0 and not (self.folder / "commits" / str(batch)).exists():
            before = self.offset(batch - 1) if batch else dict(START)
            assert self.session.batch(before, start) == []
            self.commit(batch, start)
        while True:
            end = self.session.plan(start, ROWS)
            if end != start:
                batch += 1
                self.write("offsets", batch, f"v1\n{{}}\n{json.dumps(end)}")
                self.write("rows", batch, json.dumps(self.rows(start, end)))
                self.commit(batch, end)
                start = end
            time.sleep(TRIGGER_S)

    def latest(self) -> tuple[int, Offset]:
        """The last batch that was planned; -1: none."""
        numbers = [int(f.name) for f in (self.folder / "offsets").iterdir() if f.name.isdigit()]
        batch = max(numbers, default=-1)
        return batch, self.offset(batch) if numbers else dict(START)

    def offset(self, batch: int) -> Offset:
        found: Offset = json.loads(
            (self.folder / "offsets" / str(batch)).read_text().split("\n")[2]
        )
        return found

    def rows(self, start: Offset, end: Offset) -> list[tuple[int, bool]]:
        """(number, redelivered)"""
        decoder = Decoder(SCHEMA)
        found: list[tuple[int, bool]] = []
        for piece, _ in self.session.batch(start, end):
            (got,) = fetch(piece.endpoint, [piece.number])
            batch = decoder.decode(got.queue, got.runs, got.sizes, got.data)
            found += [(int(row["body"]), row["redelivered"]) for row in batch.to_pylist()]
        return found

    def commit(self, batch: int, end: Offset) -> None:
        self.write("commits", batch, "v1\n{}")
        print(batch, flush=True)
        if self.way == "listener":
            tell_committed(end)

    def write(self, log: str, batch: int, text: str) -> None:
        """As a whole or not at all, at leisure."""
        path = self.folder / log / f".{batch}.tmp"
        path.write_text(text)
        time.sleep(self.dice.uniform(0.0, STEP_S))
        path.rename(self.folder / log / str(batch))
        time.sleep(self.dice.uniform(0.0, STEP_S))


def main(arguments: list[str]) -> None:
    url, queue, folder, way = arguments
    Planner(url, queue, Path(folder), way).run()


if __name__ == "__main__":
    main(sys.argv[1:])
