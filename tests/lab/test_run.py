"""Goal: a whole run measures what happened. Method: small runs of worker processes against a real
broker, their files read back and held against one another."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sluicemq.client.blocking import connect
from sluicemq.client.session import BrokerError
from sluicemq.errors import Refused
from sluicemq.lab.conductor import LabResult, run_scenario
from sluicemq.lab.measurements import read_run_info
from sluicemq.lab.plan import NS
from sluicemq.lab.summary import summarize
from support import broker
from support.lab_runs import Notes, rows, small_plan
from support.thorough import thorough


@pytest.fixture(scope="module")
def confirmed(broker_url: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[LabResult, Notes]:
    notes = Notes()
    directory = tmp_path_factory.mktemp("run")
    return run_scenario(small_plan(broker_url, directory, broker_pids=(os.getpid(),)), notes), notes


def test_nothing_is_lost_doubled_or_reordered(confirmed: tuple[LabResult, Notes]) -> None:
    result, _ = confirmed
    counts = result.verification
    assert result.problems == {}
    assert not result.failed
    assert counts["drained"]
    assert counts["published"] == counts["confirmed"] == counts["delivered"]
    # What was still due at a step's end is abandoned: how much, is for the machine to decide.
    abandoned = sum(step["abandoned"] for step in result.info["steps"])
    assert counts["published"] + abandoned == 2 * 1000
    assert counts["published"] > 0


def test_the_rows_are_the_messages_counted(confirmed: tuple[LabResult, Notes]) -> None:
    result, _ = confirmed
    published = rows(result.directory, "published")
    delivered = rows(result.directory, "delivered")
    keys = sorted((row["publisher"], row["seq"]) for row in published)
    assert len(keys) == len(set(keys)) == result.verification["published"]
    assert sorted((row["publisher"], row["seq"]) for row in delivered) == keys
    for row in published:
        assert row["queue"] == row["publisher"] % 10
        assert row["intended_ns"] <= row["written_ns"] <= row["confirmed_ns"]
    for row in delivered:
        assert row["queue"] == row["consumer"] % 10 == row["publisher"] % 10
        assert row["written_ns"] <= row["delivered_ns"] <= row["acked_ns"]
        assert row["step"] == row["intended_ns"] // NS


def test_both_sides_tell_the_same_of_a_message(confirmed: tuple[LabResult, Notes]) -> None:
    result, _ = confirmed
    same = ("publisher", "seq", "queue", "step", "intended_ns", "written_ns", "weight")

    def told(table: str) -> set[tuple[Any, ...]]:
        return {tuple(row[name] for name in same) for row in rows(result.directory, table)}

    assert told("published") == told("delivered")


def test_a_second_counts_what_happened_in_it(confirmed: tuple[LabResult, Notes]) -> None:
    """The counters of each second are those of the rows whose times lie in it, to the message."""
    result, _ = confirmed
    counters = rows(result.directory, "counters")
    published, delivered = (rows(result.directory, name) for name in ("published", "delivered"))
    assert {row["role"] for row in counters} == {"publisher", "consumer"}
    for row in counters:
        second = row["second"]
        assert row["step"] == (second if second < 2 else -1)
        of_role = {
            "publisher": {"written": published, "confirmed": published},
            "consumer": {"delivered": delivered, "acked": delivered},
        }[row["role"]]
        for name, table in of_role.items():
            times = [each[f"{name}_ns"] for each in table]
            assert row[name] == sum(at // NS == second for at in times), (name, second)
        level, (begun, ended) = {
            "publisher": ("unconfirmed", ("written_ns", "confirmed_ns")),
            "consumer": ("unacked", ("delivered_ns", "acked_ns")),
        }[row["role"]]
        end_ns = (second + 1) * NS
        waiting = sum(x[begun] < end_ns <= x[ended] for x in next(iter(of_role.values())))
        assert row[level] == waiting, (level, second)


def test_the_in_flight_limit_is_kept(confirmed: tuple[LabResult, Notes]) -> None:
    """Replay each publisher's writes and confirms; confirms at the same instant go first."""
    result, _ = confirmed
    limits = [step["in_flight_limit"] for step in result.info["steps"]]
    assert limits == [1, 50]
    events: dict[int, list[tuple[int, int]]] = {}
    for row in rows(result.directory, "published"):
        if row["step"] == 0:
            one = events.setdefault(row["publisher"], [])
            one += [(row["written_ns"], 1), (row["confirmed_ns"], -1)]
    for one in events.values():
        in_flight = 0
        for _, change in sorted(one):
            in_flight += change
            assert in_flight <= 1


def test_run_json_says_what_was_run(confirmed: tuple[LabResult, Notes], broker_url: str) -> None:
    result, _ = confirmed
    info = read_run_info(result.directory)
    assert info == result.info
    assert (info["scenario"], info["publishers"], info["queues"]) == (1, 20, 10)
    assert (info["rate_per_publisher"], info["rate_unscaled"], info["prefetch"]) == (50, 1000, 50)
    assert (info["sample_every"], info["stopped"]) == (1, None)
    assert [step["intended"] for step in info["steps"]] == [1000, 1000]
    with connect(broker_url) as client:
        assert (info["product"], info["version"]) == (client.product, client.version)
        assert client.count_queue("lab-1-0") is None  # they were deleted


def test_the_broker_was_looked_at_each_second(confirmed: tuple[LabResult, Notes]) -> None:
    result, _ = confirmed
    looks = rows(result.directory, "broker")
    assert [row["second"] for row in looks][:2] == [0, 1]
    assert all(row["rss_bytes"] > 0 and row["cpu_ns"] >= 0 for row in looks)


def test_progress_comes_once_a_second(confirmed: tuple[LabResult, Notes]) -> None:
    _, notes = confirmed
    assert notes.ended
    assert [snapshot.second for snapshot in notes.snapshots][:2] == [0, 1]
    assert any(snapshot.p50_ns is not None for snapshot in notes.snapshots)


def test_the_summary_has_a_row_a_step(confirmed: tuple[LabResult, Notes]) -> None:
    result, _ = confirmed
    steps = summarize(result.directory, result.info)
    assert [step.step["step"] for step in steps] == [0, 1]
    published = [row["written_ns"] for row in rows(result.directory, "published")]
    due = [row["intended_ns"] for row in rows(result.directory, "delivered")]
    for step in steps:
        measured = range(step.step["warm_ns"], step.step["end_ns"])
        written = sum(at in measured for at in published)
        assert step.published_rate == pytest.approx(written * NS / len(measured))
        if not any(at in measured for at in due):  # the machine was too slow
            assert step.service_ns is step.response_ns is None
            continue
        assert step.service_ns is not None
        assert step.response_ns is not None
        assert step.service_ns[0] <= step.service_ns[-1] <= step.response_ns[-1]


@pytest.mark.parametrize("scenario", thorough(["2"], ["1", "2", "3", "4", "5"]))
def test_every_scenario_runs_without_confirms(
    broker_url: str, tmp_path: Path, scenario: str
) -> None:
    """The first does in the test of acknowledgements; the fourth has the clients of the third."""
    plan = small_plan(broker_url, tmp_path, scenario, confirms=False, scale=0.01)
    result = run_scenario(plan, Notes())
    assert result.problems == {}
    assert result.verification["drained"]
    assert result.verification["unsettled"] == 0
    assert result.verification["confirmed"] == 0
    assert all(row["confirmed_ns"] is None for row in rows(tmp_path, "published"))


@pytest.mark.parametrize("ack_interval", [0, 3])
def test_ack_intervals_and_automatic_acks(
    broker_url: str, tmp_path: Path, ack_interval: int
) -> None:
    plan = small_plan(broker_url, tmp_path, confirms=False, ack_interval=ack_interval)
    result = run_scenario(plan, Notes())
    assert result.problems == {}
    acked = [row["acked_ns"] for row in rows(tmp_path, "delivered")]
    assert all(at is None for at in acked) if ack_interval == 0 else None not in acked


def test_workers_share_a_run_and_large_bodies_and_samples_go_through(
    broker_url: str, tmp_path: Path
) -> None:
    """Bodies above frame_max, every 4th message recorded, two workers for each side."""
    plan = small_plan(
        broker_url, tmp_path, workers=2, body_bytes=200_000, record_rate=250, limits="100%"
    )
    notes = Notes()
    result = run_scenario(plan, notes)
    assert result.problems == {}
    assert plan.sample_every == 4
    assert "recording every 4th message; counts are exact" in notes.notes
    published = rows(tmp_path, "published")
    assert {row["seq"] % 4 for row in published} == {0}
    weighed = sum(row["weight"] for row in published)
    assert weighed == pytest.approx(result.verification["published"], abs=4 * 20)
    assert {row["index"] for row in rows(tmp_path, "counters")} == {0, 1}


def test_a_directory_with_a_run_is_not_overwritten(broker_url: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(Refused, match="already holds a run"):
        run_scenario(small_plan(broker_url, tmp_path), Notes())


def test_a_run_cannot_begin_without_a_broker(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match="cannot connect to"):
        run_scenario(small_plan("amqp://127.0.0.1:1", tmp_path / "run"), Notes())
    assert not (tmp_path / "run").exists()


class Meddler(Notes):
    """Does something when the first second has passed."""

    def __init__(self, meddle: Any) -> None:
        super().__init__()
        self._meddle = meddle

    def second_passed(self, snapshot: Any) -> None:
        super().second_passed(snapshot)
        if snapshot.second == 0:
            self._meddle()


def keeps_the_rows(directory: Path, result: LabResult) -> None:
    """Of all that was counted."""
    for table in ("published", "delivered"):
        assert len(rows(directory, table)) == result.verification[table] > 0


def test_a_queue_deleted_under_the_run_ends_it_and_keeps_the_rows(
    broker_url: str, tmp_path: Path
) -> None:
    def delete() -> None:
        with connect(broker_url) as client:
            client.delete_queue("lab-1-3")

    plan = small_plan(broker_url, tmp_path, step_seconds=150, limits="100%", drain_timeout_s=2)
    result = run_scenario(plan, Meddler(delete))
    assert result.failed
    assert "cancelled" in str(result.info["stopped"])
    keeps_the_rows(tmp_path, result)
    assert read_run_info(tmp_path)["stopped"] == result.info["stopped"]


def test_a_broker_that_stops_ends_the_run_and_keeps_the_rows(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    with broker.serving(tmp_path / "broker") as own:
        assert own.pid is not None
        pid = own.pid
        plan = small_plan(own.url, tmp_path / "run", step_seconds=150, limits="100%")
        began = time.monotonic()
        result = run_scenario(plan, Meddler(lambda: os.kill(pid, signal.SIGTERM)))
    assert time.monotonic() - began < plan.step_seconds
    assert result.failed
    assert not result.verification["drained"]
    assert result.verification["lost"] == 0
    keeps_the_rows(tmp_path / "run", result)


def test_an_interrupt_ends_the_step_and_keeps_the_rows(broker_url: str, tmp_path: Path) -> None:
    """As Ctrl-C does, once: the schedule ends, the drain goes on, the verification is whole."""
    plan = small_plan(broker_url, tmp_path, step_seconds=150)
    main = threading.main_thread().ident
    assert main is not None
    ident = main
    result = run_scenario(plan, Meddler(lambda: signal.pthread_kill(ident, signal.SIGINT)))
    assert result.info["stopped"] == "interrupted"
    assert not result.failed
    assert result.problems == {}
    assert result.verification["drained"]
    (step,) = result.info["steps"]
    assert NS <= step["end_ns"] < plan.step_seconds * NS
    assert len(rows(tmp_path, "published")) == result.verification["published"]
