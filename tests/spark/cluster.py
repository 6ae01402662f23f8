"""A standalone Spark cluster on loopback, from the jars that come with pyspark."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
LOGGING = next(HOME.glob("jars/slf4j-api-*.jar"))
JARS = f"{HOME}/conf:{LOGGING}:{HOME}/jars/*"
"""As Spark's own scripts have them, else the archive of classes does not fit."""

PACKAGE = "org.apache.spark.deploy"
START_SECONDS = 240


@contextmanager
def daemon(
    kind: str, ready: str, log: Path, *arguments: str, host: str = "127.0.0.1"
) -> Iterator[str]:
    """A master or a worker; yields what `ready` matched in its log."""
    command = ["java", "-Xmx256m", "-cp", JARS, f"{PACKAGE}.{kind}", "--host", host]
    environment = os.environ | {
        "SPARK_LOCAL_IP": host,
        "SPARK_HOME": str(HOME),
        "SPARK_SCALA_VERSION": "2.13",  # else it is looked for in directories only sources have
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--webui-port", "0", *arguments],
            stdout=output,
            stderr=output,
            env=environment,
            cwd=log.parent,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while (found := re.search(ready, log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield found[0]
    finally:
        process.terminate()
        process.wait()


@contextmanager
def standalone_cluster(
    workers: int, *, apart: bool = False, home: Path | None = None
) -> Iterator[str]:
    """A master and so many workers of one core; yields the master's URL. `apart`: each at an
    address of its own, for Spark does not start a second attempt on the host of the first. `home`
    is where they and their executors work."""
    with ExitStack() as stack:
        home = home or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        master = daemon(
            "master.Master", r"spark://127\.0\.0\.1:\d+", home / "master.log", "--port", "0"
        )
        url = stack.enter_context(master)
        for number in range(workers):
            worker = daemon(
                "worker.Worker",
                "Successfully registered with master",
                home / f"worker{number}.log",
                *("--cores", "1", "--memory", "700m", "--work-dir", str(home / f"work{number}")),
                url,
                host=f"127.0.0.{number + 2 if apart else 1}",
            )
            stack.enter_context(worker)
        yield url
