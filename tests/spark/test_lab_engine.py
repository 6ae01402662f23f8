"""Goal: the lab measures the same wherever its workers run. Method: one scenario with processes, as
barrier tasks on local[2], and on a standalone cluster; a worker killed in the middle; places that
are too few, or not there. Watching: what it tells against the counters.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluicemq.errors import Refused
from sluicemq.lab.conductor import run_scenario
from sluicemq.lab.live import LiveRows
from sluicemq.lab.measurements import RunInfo, read_run_info
from sluicemq.lab.messages import SecondPassed
from sluicemq.lab.plan import NS
from sluicemq.spark.lab_engine import SparkEngine
from sluicemq.spark.lab_watch import WatchedSecond, watch
from sluicemq.spark.session import check_master
from support.lab_runs import Notes, rows, small_plan
from support.thorough import only_thorough
from support.waiting import await_truth

LIMITS = "10%,100%"
STEP_SECONDS = 2


@pytest.fixture(scope="module")
def here(broker_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with processes."""
    directory = tmp_path_factory.mktemp("here")
    plan = small_plan(broker_url, directory, limits=LIMITS, step_seconds=STEP_SECONDS)
    run_scenario(plan, Notes())
    return directory


def lab_command(url: str, out: Path, master: str, *more: str) -> list[str]:
    command = [sys.executable, "-m", "sluicemq", "lab", "run", "1", "--target", url]
    command += ["--engine", "spark", "--master", master, "--scale", "0.05", "--steps", LIMITS]
    return [*command, "--step-seconds", str(STEP_SECONDS), "--out", str(out), *more]


def is_the_same_run(here: Path, there: Path) -> None:
    """Both have the same schedule and account for each of its messages; the workers' times are on
    one clock."""
    ours, theirs = read_run_info(here), read_run_info(there)
    assert (ours["engine"], theirs["engine"]) == ("processes", "spark")
    assert schedule(ours) == schedule(theirs)
    is_whole(here, ours)
    is_whole(there, theirs)
    assert ours["clocks"] == []
    assert sorted(clock["role"] for clock in theirs["clocks"]) == ["consumer", "publisher"]
    wrong_ns = sum(clock["error_ns"] for clock in theirs["clocks"])
    assert 0 < wrong_ns < NS
    for row in rows(there, "delivered"):
        assert row["delivered_ns"] >= row["written_ns"] - wrong_ns
    assert {row["role"] for row in rows(there, "counters")} == {"publisher", "consumer"}


def schedule(info: RunInfo) -> list[tuple[int, int]]:
    return [(step["step"], step["intended"]) for step in info["steps"]]


def is_whole(directory: Path, info: RunInfo) -> None:
    """What was still due when a step ended is abandoned, which is for the machine to decide; all
    else was published, confirmed and delivered once, and has a row on both sides."""
    counts = info["verification"]
    published = counts["published"]
    abandoned = sum(step["abandoned"] for step in info["steps"])
    assert published > 0
    assert published + abandoned == sum(step["intended"] for step in info["steps"])
    once = dict.fromkeys(("published", "confirmed", "delivered"), published)
    assert counts == dict.fromkeys(counts, 0) | once | {"drained": True}
    wanted = sorted((row["publisher"], row["seq"]) for row in rows(directory, "published"))
    assert len(wanted) == len(set(wanted)) == published
    assert sorted((row["publisher"], row["seq"]) for row in rows(directory, "delivered")) == wanted


def test_on_local_2(spark: SparkSession, broker_url: str, here: Path, tmp_path: Path) -> None:
    plan = small_plan(broker_url, tmp_path, limits=LIMITS, step_seconds=STEP_SECONDS)
    run_scenario(plan, Notes(), SparkEngine("local[2]"))
    is_the_same_run(here, tmp_path)
    assert spark.range(3).count() == 3, "a session that was there stays"


@only_thorough
def test_on_a_cluster(broker_url: str, here: Path, spark_master: str, tmp_path: Path) -> None:
    done = subprocess.run(
        lab_command(broker_url, tmp_path / "run", spark_master),
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    is_the_same_run(here, tmp_path / "run")


def lab_processes(parent_of: int) -> list[int]:
    """Worker processes that some descendant of that process has started."""
    parents: dict[int, int] = {}
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            if b"sluicemq.lab.process" in line:
                found.append(int(entry.name))
    return [pid for pid in found if descends(pid, parent_of, parents)]


def descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        pid = parents.get(pid, 0)
    return False


def test_a_worker_that_dies_ends_the_run(
    spark: SparkSession, broker_url: str, tmp_path: Path
) -> None:
    plan = small_plan(broker_url, tmp_path, limits=LIMITS, step_seconds=60)

    def kill_one() -> None:
        await_truth((tmp_path / "live").is_dir, 0.1)
        os.kill(lab_processes(os.getpid())[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    result = run_scenario(plan, Notes(), SparkEngine("local[2]"))
    killer.join()
    assert result.failed
    assert "process died" in str(read_run_info(tmp_path)["stopped"])
    assert spark.range(3).count() == 3, "the session goes on"


def test_too_few_slots_are_refused(spark: SparkSession, broker_url: str, tmp_path: Path) -> None:
    del spark
    plan = small_plan(broker_url, tmp_path, workers=2)
    with pytest.raises(Refused, match="--workers: 2 workers of each role need 4 slots at once"):
        run_scenario(plan, Notes(), SparkEngine("local[2]"))


def test_a_master_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused, match=r"--master spark://127\.0\.0\.1:9: nobody answers"):
        check_master("spark://127.0.0.1:9")


def test_watching_a_run_tells_what_its_counters_say(spark: SparkSession, here: Path) -> None:
    seen: list[WatchedSecond] = []
    watch(spark, here, seen.append)
    assert [each.second for each in seen] == list(range(len(seen)))
    counted = rows(here, "counters")
    for name in ("written", "confirmed", "delivered"):
        expected = [
            sum(row[name] for row in counted if row["second"] == each.second) for each in seen
        ]
        assert [getattr(each, name) for each in seen] == expected
    assert all(each.p50_ns is not None and each.p99_ns is not None for each in seen[:4])


def test_watching_tells_a_second_when_it_has_passed(spark: SparkSession, tmp_path: Path) -> None:
    enough = threading.Event()

    def go_on() -> None:
        live = LiveRows(tmp_path)
        for second in range(400):
            for role in ("consumer", "publisher"):
                row = dict.fromkeys(("index", "step", "confirmed", "unconfirmed"), 0)
                row |= {"second": second, "written": second, "delivered": 1}
                live.add(SecondPassed({"role": role, **row}, [10 * second, 10 * second + 2]))
            live.write(second)
            if enough.wait(0.1):
                break
        (tmp_path / "run.json").write_text("{}")

    seen: list[WatchedSecond] = []

    def show(each: WatchedSecond) -> None:
        seen.append(each)
        if len(seen) == 5:
            assert not (tmp_path / "run.json").exists()
            enough.set()

    run = threading.Thread(target=go_on)
    run.start()
    watch(spark, tmp_path, show)
    run.join()
    assert enough.is_set()
    assert [(each.second, each.written) for each in seen] == [(n, 2 * n) for n in range(len(seen))]
    assert seen[4].p50_ns in (40, 42)


def test_watching_nothing_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no run has begun"):
        watch(spark, tmp_path, print, start_timeout_s=0.1)
