"""Goal: addresses that a node of a cluster gives are its own, and of the life that it is in."""

from __future__ import annotations

from sluicemq.cluster_config import ClusterConfig
from sluicemq.config import Config
from sluicemq.metadata.changes import Life
from sluicemq.node import Node
from support.fakes import FakeWorld

NODES = ("n1@h1:1", "n2@h2:2", "n3@h3:3")
SECRET = b"a secret of some length"
SECOND = ClusterConfig(name="n2", nodes=NODES, port=2, secret_file="secret")


def begun(world: FakeWorld, cluster: ClusterConfig | None) -> Node:
    config = Config() if cluster is None else Config(cluster=cluster)
    node = Node(world, config, secret=SECRET)
    while node.run(1000) or world.disk.jobs:
        while world.disk.jobs:
            world.disk.finish()
    return node


def test_a_node_of_a_cluster_is_in_the_life_that_the_others_know() -> None:
    world = FakeWorld()
    for incarnation in (1, 2, 3):
        node = begun(world, SECOND)
        services = node.broker
        assert services.life == Life(2, incarnation)
        assert services.new_address()[:2] == (2, incarnation)
        assert node.membership is not None
        assert node.membership.cluster.incarnation == incarnation
        again = FakeWorld()
        again.disk.files = world.disk.files.crash()
        world = again


def test_a_node_alone_is_the_first_of_one() -> None:
    services = begun(FakeWorld(), None).broker
    assert services.life.node == 1
