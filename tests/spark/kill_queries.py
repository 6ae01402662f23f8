"""What the victims of the kill tests are: a driver whose queries are started again when they fail.

It starts Spark and waits: `go` on standard input starts the queries; `finish` has each take what is
left, and `FOLDER/found.json` says what has arrived. The end of standard input ends it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sluicemq.spark.data_source import AmqpDataSource

ROW_S = 0.0005
"""How long a task rests at each row, so that it is in the middle of something when it dies."""

RESTART_S = 0.2
FINISH_S = 1200
PASSES = 2
"""Passes that take what is left: what a query had that was stopped may come back to the queue when
the first has begun."""


def slowly(retried: Path) -> Callable[[bytes], str]:
    """The text of a body, at leisure; a task that is tried again leaves a file."""

    def work(body: bytes) -> str:
        context = TaskContext.get()
        if context is not None and context.attemptNumber():
            (retried / f"{os.getppid()}-{context.taskAttemptId()}").touch()
        time.sleep(ROW_S)
        return body.decode()

    return work


class Queries:
    """The queries of one session, with the function `slowly`; `starters` has each by its name."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, trigger: str) -> None:
        self.spark = spark
        self.url = url
        self.folder = folder
        self.trigger: dict[str, Any] = {"processingTime": trigger}
        self.starters: dict[str, Callable[[], StreamingQuery]] = {}
        retried = folder / "retried"
        retried.mkdir(exist_ok=True)
        spark.udf.register("slowly", slowly(retried))
        spark.dataSource.register(AmqpDataSource)

    def checkpoint(self, name: str) -> str:
        return f"{self.folder}/checkpoint/{name}"

    def arrived(self, name: str) -> list[tuple[int, bool]]:
        """(number, redelivered) of each row in the query's Parquet."""
        rows = self.spark.read.parquet(f"{self.folder}/{name}").collect()
        return [(int(row.body), row.redelivered) for row in rows]

    def found(self) -> object:
        """All that has arrived, for `found.json`."""
        raise NotImplementedError

    def obey(self) -> None:
        """Do what standard input says."""
        if sys.stdin.readline() != "go\n":
            return
        finish = threading.Event()

        def listen() -> None:
            if sys.stdin.readline():
                finish.set()

        threading.Thread(target=listen, daemon=True).start()
        self.serve(finish)
        (self.folder / "found.json").write_text(json.dumps(self.found()))
        self.spark.stop()

    def serve(self, finish: threading.Event) -> None:
        """Until somebody ends it, or says so."""
        running = {name: start() for name, start in self.starters.items()}
        print("started", flush=True)
        while not finish.wait(RESTART_S):
            for name, start in self.starters.items():
                if not running[name].isActive:
                    print(name, running[name].exception(), file=sys.stderr, flush=True)
                    running[name] = start()
        for query in running.values():
            query.stop()
        self.trigger = {"availableNow": True}
        for _ in range(PASSES):
            for query in [start() for start in self.starters.values()]:
                assert query.awaitTermination(FINISH_S)
