"""Goal: what a user writes about a cluster says which nodes there are and which one this is, or is
refused in a sentence that names the option.

Method: each way of saying it, each way of being wrong.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicemq.cli.config_file import load
from sluicemq.cluster_config import ClusterConfig
from sluicemq.errors import Refused

NODES = ("10.0.0.2:5001", "10.0.0.1:5001", "10.0.0.1:900")


def cluster(**given: object) -> ClusterConfig:
    whole = {"name": "n1", "nodes": NODES, "port": 900, "secret_file": "s", **given}
    return ClusterConfig(**whole)  # type: ignore[arg-type]


def test_without_any_of_it_there_is_no_cluster() -> None:
    assert load(None, [], {}).config.cluster == ClusterConfig()
    assert ClusterConfig().nodes == ()


def test_a_number_does_not_depend_on_the_order_of_the_list() -> None:
    for nodes in (NODES, NODES[::-1]):
        config = cluster(nodes=nodes)
        assert config.addresses == ["10.0.0.1:900", "10.0.0.1:5001", "10.0.0.2:5001"]
        assert (config.own_number, config.own_name, config.own.port) == (1, "n1", 900)


def test_the_address_says_which_one_where_the_port_does_not() -> None:
    assert cluster(port=5001, host="10.0.0.2").own_number == 3


RABBITMQ_CONF = """
cluster_formation.peer_discovery_backend = rabbit_peer_discovery_classic_config
cluster_formation.classic_config.nodes.1 = rabbit@host1
cluster_formation.classic_config.nodes.2 = rabbit@host2
cluster_formation.classic_config.nodes.3 = hare@host2:25673
cluster.secret_file = /etc/secret
"""


@pytest.mark.parametrize(
    ("name", "number", "port"), [("rabbit@host2", 2, 25672), ("hare", 3, 25673)]
)
def test_rabbitmq_conf(tmp_path: Path, name: str, number: int, port: int) -> None:
    file = tmp_path / "rabbitmq.conf"
    file.write_text(RABBITMQ_CONF)
    config = load(file, [f"cluster.name={name}"], {}).config.cluster
    assert config.addresses == ["host1:25672", "host2:25672", "host2:25673"]
    assert (config.own_number, config.own.port) == (number, port)
    assert config.own_name == config.own.name


def test_toml_variables_and_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[cluster]\nname = "n2"\nnodes = ["h:1", "[::1]:2"]\nsecret_file = "s"\n')
    config = load(file, ["cluster.port=2"], {}).config.cluster
    assert config.own == ("::1", 2, "")
    assert config.own.address == "[::1]:2"
    env = {"SLUICEMQ_CLUSTER_NODES": "h:1,h:2", "SLUICEMQ_CLUSTER_NAME": "x"}
    config = load(None, ["cluster.port=1", "cluster.secret_file=s"], env).config.cluster
    assert (config.own_number, config.own_name) == (1, "x")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"secret_file": None}, "cluster.nodes is set, so cluster.secret_file must be"),
        ({"name": None}, "cluster.nodes is set, so cluster.name must be"),
        ({"name": "a b"}, "cluster.name = a b: must be letters, digits, - _ and . (at most 128),"),
        ({"name": "a" * 129}, "must be letters, digits"),
        ({"nodes": ()}, "cluster.port is set without cluster.nodes, so cluster.host must be"),
        ({"nodes": (), "name": None}, "cluster.port is set, so cluster.nodes or cluster.join must"),
        ({"join": ("h:1",)}, "cluster.nodes and cluster.join are set: a node founds or joins"),
        ({"nodes": (), "join": ("h:0",), "host": "h"}, "cluster.join has h:0: must be HOST:PORT"),
        (
            {"nodes": (), "join": ("h:1",), "host": "h", "port": None},
            "cluster.join is set, so cluster.port must be",
        ),
        ({"port": None}, "cluster.nodes is set, so cluster.port must be: it says which of the"),
        (
            {"port": 7},
            "cluster.port = 7: cluster.nodes has no port 7; it must have all nodes, this one too",
        ),
        ({"nodes": ("h:900", "h:900")}, "cluster.nodes has h:900 twice"),
        ({"nodes": ("a@h:900", "a@h:901")}, "cluster.nodes has two nodes of the name a@h"),
        ({"port": 5001}, "cluster.nodes does not say which of 10.0.0.1:5001 and 10.0.0.2:5001"),
        (
            {"nodes": ("n1@a", "n1@b"), "port": None},
            "cluster.name = n1: cluster.nodes does not say which of n1@a and n1@b this node is",
        ),
        (
            {"nodes": ("n2@a", "n3@b"), "port": None},
            "cluster.name = n1: cluster.nodes has no node called n1; it must have all nodes,",
        ),
        ({"nodes": ("n1@a", "n2@b")}, "cluster.port = 900: cluster.nodes has 25672 for this node"),
        ({"nodes": tuple(f"h:{n}" for n in range(1, 34))}, "has 33 nodes; at most 32 are allowed"),
    ],
)
def test_what_is_refused(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        cluster(**given)
    assert sentence in str(refused.value)


def test_who_joins_is_where_it_says() -> None:
    joins = cluster(nodes=(), join=("10.0.0.1:1",), host="::1")
    assert joins.own.address == "[::1]:900"
    assert [each.address for each in joins.asked] == ["10.0.0.1:1"]
    waits = cluster(nodes=(), name="n1@there")
    assert (waits.own.address, waits.own_name) == ("there:900", "n1@there")


@pytest.mark.parametrize(
    "node", ["h:0", "h:65536", "h:", "a b:1", "@h:1", "n@", "::1", "h:1/", "é:1"]
)
def test_what_is_no_address(node: str) -> None:
    with pytest.raises(Refused, match=r"must be HOST:PORT, NAME@HOST:PORT or NAME@HOST"):
        cluster(nodes=(node, "h:900"))
