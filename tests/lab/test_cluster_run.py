"""Goal: a run on several nodes says what each of them did. Method: three nodes that the lab starts
itself, and one that runs already and is asked over its HTTP API."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sluicemq.cli.control_client import ask
from sluicemq.cli.lab_target import LabTarget
from sluicemq.cli.own_nodes import EXIT_TERMINATED, own_nodes
from sluicemq.client.address import Address
from sluicemq.client.blocking import connect
from sluicemq.client.session import BrokerError
from sluicemq.errors import Refused
from sluicemq.lab.conductor import LabResult, run_scenario
from sluicemq.lab.management_api import ManagementApi
from sluicemq.lab.progress import Snapshot
from sluicemq.lab.target_admin import NodeLook, TargetAdmin, TargetNode, sampled_nodes
from support.broker import ENVIRONMENT, OWN
from support.lab_runs import Notes, rows, small_plan
from support.management import Managed, managed
from support.waiting import await_truth

NODES = ["n1", "n2", "n3"]


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    """A run of two seconds with quorum queues on three nodes, as `lab run --cluster 3` does it."""
    directory = tmp_path_factory.mktemp("run")
    chosen = LabTarget((), 3, "rabbitmq-3.8.4", (), None)
    plan = small_plan("", directory, queue_type="quorum", limits="100%", step_seconds=2)
    with chosen.opened(directory) as there:
        plan = replace(plan, targets=there.urls, broker_pids=there.pids, profile=chosen.profile)
        return run_scenario(plan, Notes(), admin=there.admin)


def test_nothing_is_lost_on_three_nodes(clustered: LabResult) -> None:
    assert clustered.problems == {}
    assert clustered.verification["drained"]
    assert clustered.verification["delivered"] > 0


def test_run_json_names_the_nodes_and_their_profile(clustered: LabResult) -> None:
    assert clustered.info["nodes"] == NODES
    assert clustered.info["profile"] == "rabbitmq-3.8.4"
    assert len(set(clustered.info["target"])) == 3


def test_each_node_is_looked_at_each_second(clustered: LabResult) -> None:
    looks = rows(clustered.directory, "nodes")
    assert {(row["second"], row["node"]) for row in looks} >= {
        (second, node) for second in (0, 1) for node in NODES
    }
    assert all(row["rss_bytes"] > 0 and row["cpu_ns"] >= 0 for row in looks)


def test_leaders_are_spread_evenly(clustered: LabResult) -> None:
    """They are where the queues are declared, until a node is suspected, which load may cause: the
    first look that all nodes have answered is what counts."""
    looks: dict[int, list[int]] = {}
    for row in rows(clustered.directory, "nodes"):
        if row["leaders"] is not None:
            looks.setdefault(row["second"], []).append(row["leaders"])
            assert row["flow_connections"] >= 0
    whole = [leaders for leaders in looks.values() if len(leaders) == len(NODES)]
    assert sorted(whole[0]) == [3, 3, 4]


def test_the_broker_is_all_its_nodes_together(clustered: LabResult) -> None:
    looks = rows(clustered.directory, "nodes")
    for row in rows(clustered.directory, "broker"):
        own = [each for each in looks if each["second"] == row["second"]]
        assert row["cpu_ns"] == sum(each["cpu_ns"] for each in own)
        assert row["rss_bytes"] == sum(each["rss_bytes"] for each in own)


class Asking(Notes):
    """Asks a node for the mirrors of each queue when the first second has passed."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port
        self.mirrors: dict[str, int] = {}

    def second_passed(self, snapshot: Snapshot) -> None:
        if snapshot.second == 0:
            columns = {"columns": ["name", "slave_pids"]}
            rows = ask(self.port, "list_queues", columns, 60)
            self.mirrors = {row["name"]: len(row["slave_pids"]) for row in rows}


def test_mirrored_queues_have_a_mirror_each(tmp_path: Path) -> None:
    plan = small_plan("", tmp_path / "run", queue_type="mirrored", limits="100%")
    with LabTarget((), 3, None, (), None).opened(tmp_path) as there:
        port = Address.parse(there.urls[0]).port
        asking = Asking(port)
        plan = replace(plan, targets=there.urls, broker_pids=there.pids)
        result = run_scenario(plan, asking, admin=there.admin)
        assert ask(port, "list_policies", {}, 60) == []
    assert result.problems == {}
    assert result.verification["drained"]
    assert asking.mirrors == {f"ha-lab-1-{number}": 1 for number in range(10)}


def test_of_the_nodes_only_their_logs_stay(clustered: LabResult) -> None:
    left = {path.name for path in (clustered.directory / "brokers").iterdir()}
    assert left == {"n1.log", "n2.log", "n3.log", "secret"}
    with pytest.raises(BrokerError):
        connect(clustered.info["target"][0], timeout_s=2)


def test_a_node_that_does_not_start_is_told_with_its_log(tmp_path: Path) -> None:
    with (
        pytest.raises(Refused, match=r"--cluster: node n1 did not start.*\n.*no such profile"),
        own_nodes(1, tmp_path, "no such profile"),
    ):
        raise AssertionError("it must not start")


def test_a_node_ends_with_a_lab_that_is_told_to_stop(tmp_path: Path) -> None:
    options = ["--cluster", "1", "--scale", "0.01", "--step-seconds", "600"]
    command = [*OWN, "lab", "run", "1", *options, "--out", str(tmp_path)]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=said, stderr=said)
    log_of_node = tmp_path / "brokers" / "n1.log"
    try:
        await_truth(lambda: log_of_node.exists() and "clients connect" in log_of_node.read_text())
        process.terminate()
        assert process.wait(240) == EXIT_TERMINATED
    finally:
        process.kill()
        process.wait()
    (pid,) = re.findall(r"process (\d+)", log_of_node.read_text())
    assert not (Path("/proc") / pid).exists()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    """A broker that runs, with an HTTP API."""
    with managed(tmp_path_factory.mktemp("broker")) as own:
        yield own


def api_of(other: Managed, url: str = "") -> ManagementApi:
    return ManagementApi(url or other.url, Address.parse(other.target.url))


def test_a_target_is_looked_at_over_its_http_api(other: Managed, tmp_path: Path) -> None:
    assert other.target.pid is not None
    plan = small_plan(other.target.url, tmp_path, confirms=False, broker_pids=(other.target.pid,))
    result = run_scenario(plan, Notes(), admin=api_of(other))
    assert result.problems == {}
    asked = [row for row in rows(tmp_path, "nodes") if row["leaders"] is not None]
    assert {row["leaders"] for row in asked} == {10}
    assert result.info["nodes"] == [row["name"] for row in other.get("nodes")]


def test_mirrors_are_a_policy_while_the_run_lasts(other: Managed) -> None:
    api = api_of(other)
    api.set_mirrors()
    (policy,) = other.get("policies")
    assert (policy["pattern"], policy["definition"]["ha-mode"]) == ("^ha-lab-", "exactly")
    api.clear_mirrors()
    api.clear_mirrors()
    assert other.get("policies") == []


def test_what_the_api_refuses_names_the_option(other: Managed) -> None:
    with pytest.raises(Refused, match=r"--management http://guest:\.\.\.@.* is answered 401"):
        api_of(other, other.url.replace("://", "://guest:wrong@")).nodes()
    with pytest.raises(Refused, match="--management ftp://there: expected http://host:port"):
        api_of(other, "ftp://there")
    with pytest.raises(BrokerError, match=r"--management http://127\.0\.0\.1:1: "):
        api_of(other, "http://127.0.0.1:1").nodes()


class Known(TargetAdmin):
    """Two nodes."""

    interval_s: ClassVar[int] = 1

    def nodes(self) -> Sequence[TargetNode]:
        return [TargetNode("a", 1), TargetNode("b", 2)]

    def look(self, queues: Sequence[str]) -> Sequence[NodeLook]:
        return []


def test_a_process_that_is_no_node_is_refused(tmp_path: Path) -> None:
    plan = small_plan("amqp://127.0.0.1", tmp_path, broker_pids=(3,))
    with pytest.raises(Refused, match=r"--broker-pid 3: no node .* it has a \(1\), b \(2\)"):
        sampled_nodes(plan, Known())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"targets": ("amqp://a",), "cluster": 3}, "--target and --cluster exclude each other"),
        ({"cluster": 3, "broker_pids": (1,)}, "--broker-pid and --cluster exclude"),
        ({"cluster": 3, "management": "http://a"}, "--management and --cluster exclude"),
        ({"profile": "rabbitmq-3.8.3"}, "--profile is for the nodes that --cluster starts"),
    ],
)
def test_options_that_exclude_each_other_are_named(options: dict[str, Any], said: str) -> None:
    nothing = dict.fromkeys(("cluster", "profile", "management"))
    with pytest.raises(Refused, match=said):
        LabTarget(**{"targets": (), "broker_pids": (), **nothing, **options})


def test_each_target_has_a_process_or_none_has(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="--broker-pid: 2 processes for 1 targets"):
        small_plan("amqp://127.0.0.1", tmp_path, broker_pids=(1, 2))
