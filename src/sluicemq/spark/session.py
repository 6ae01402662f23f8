"""Opens and closes the Spark session: checks Java first; quiet, bound to loopback, no web UI."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final

from pyspark.sql import SparkSession

from sluicemq.errors import Refused

JAVA_MIN: Final = 17
JAVA_WANTED: Final = f"the pipeline on Spark needs Java {JAVA_MIN}+"
JAVA_TIMEOUT_S: Final = 30
MASTER_TIMEOUT_S: Final = 5

LOG_LINES_SHOWN: Final = 20
"""Lines of Spark's log that are shown when the session does not start."""


JAVA_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that warms up in half the CPU time, and has a third of the speed when warm."""

JAVA_FAST: Final = "-XX:+UseParallelGC"

QUICK_ROWS_MAX: Final = 10_000_000
"""Raw rows up to which a report is ready sooner with JAVA_QUICK (bench/pipeline.py)."""


@contextmanager
def spark_session(
    master: str = "local[*]", memory: str = "2g", raw_rows: int = 0
) -> Iterator[SparkSession]:
    """Yield the session that is running, or start one for the time of the block, set up for a
    report on `raw_rows` rows. Raises `Refused` when it does not start."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    session = start_session(master, memory, raw_rows)
    try:
        yield session
    finally:
        session.stop()


def start_session(
    master: str,
    memory: str,
    raw_rows: int = 0,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """Start a Spark session; `settings` of Spark's override the usual ones. `raw_rows` is how many
    rows it is set up to read. Raises `Refused`, with its log, when it does not start."""
    java_version()
    check_master(master)
    # Spark would use the PATH's python3 for its workers, which may lack our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryFile() as log, warnings.catch_warnings():
        # Silence Spark's remarks on pandas versions: no data goes through pandas here.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            with _stderr_into(log):
                session = _builder(master, memory, raw_rows, settings).getOrCreate()
        except Exception as error:
            log.seek(0)
            tail = log.read().decode(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
            raise Refused(
                "\n".join([f"Spark did not start on {master}: {error}", *tail])
            ) from error
        session.sparkContext.setLogLevel("ERROR")
    return session


def check_master(master: str) -> None:
    """Raise `Refused` when no server listens at the address of a standalone cluster, which Spark
    would try to reach for a minute."""
    found = re.fullmatch(r"spark://([^:,/]+):(\d+)", master)
    if found is None:
        return
    try:
        socket.create_connection((found[1], int(found[2])), MASTER_TIMEOUT_S).close()
    except OSError as error:
        raise Refused(f"--master {master}: nobody answers there: {error}") from error


def java_version() -> int:
    """Return the major version of the Java that Spark will use. Raises `Refused` when there is
    none, or it is older than JAVA_MIN."""
    java = _java_command()
    if java is None:
        raise Refused(f"{JAVA_WANTED}: no java found in JAVA_HOME or on the PATH")
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Refused(f"{JAVA_WANTED}: {java} -version failed: {error}") from error
    version = parse_java_version(answer.stderr or answer.stdout)
    if version is None or version < JAVA_MIN:
        found = "an unknown version" if version is None else f"Java {version}"
        raise Refused(f"{JAVA_WANTED}: {java} is {found}")
    return version


def parse_java_version(text: str) -> int | None:
    """Return the major version in what `java -version` prints, 17 for "17.0.15" and 8 for
    "1.8.0_392"; None when there is none."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def _java_command() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        command = Path(home) / "bin" / "java"
        return str(command) if command.exists() else None
    return shutil.which("java")


def _builder(
    master: str, memory: str, raw_rows: int, more: Mapping[str, str]
) -> SparkSession.Builder:
    builder = SparkSession.builder.master(master).appName("sluicemq lab report")
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": JAVA_QUICK if raw_rows <= QUICK_ROWS_MAX else JAVA_FAST,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(shuffle_partitions(master)),
        "spark.sql.session.timeZone": "UTC",
    }
    if not master.startswith("local"):
        # Executors on other machines must reach the driver.
        del settings["spark.driver.bindAddress"], settings["spark.driver.host"]
    for key, value in (settings | dict(more)).items():
        builder = builder.config(key, value)
    return builder


def shuffle_partitions(master: str) -> int:
    """Return how many partitions a shuffle makes: one for each core, because the tables are small
    after the first aggregation."""
    found = re.fullmatch(r"local\[(\d+)(?:,.*)?\]", master)
    if found:
        return int(found.group(1))
    return 1 if master == "local" else os.cpu_count() or 1


@contextmanager
def _stderr_into(log: IO[bytes]) -> Iterator[None]:
    """Give the JVM, which inherits it, `log` as its standard error."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
