"""Goal: the variables of a RabbitMQ node configure SluiceMQ in its place, and what they cannot is
named. Method: dictionaries of variables through `load`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicemq.cli.config_file import load
from sluicemq.errors import Refused

NODE = {
    "RABBITMQ_NODENAME": "hare@here",
    "RABBITMQ_NODE_PORT": "5673",
    "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.2",
    "RABBITMQ_DEFAULT_USER": "app",
    "RABBITMQ_DEFAULT_PASS": "secret",
    "RABBITMQ_DEFAULT_VHOST": "apps",
    "RABBITMQ_MNESIA_BASE": "/var/lib/rabbitmq/mnesia",
    "RABBITMQ_LOG_BASE": "/var/log/rabbitmq",
    "RABBITMQ_LOGS": "-",
    "RABBITMQ_PLUGINS_DIR": "/plugins",
    "RABBITMQ_SERVER_ERL_ARGS": "+K true",
    "RABBITMQ_USE_LONGNAME": "",
}


def test_a_nodes_variables_are_taken_and_the_others_named() -> None:
    config, origins, notes = load(None, [], NODE)
    assert (config.net.host, config.net.port) == ("127.0.0.2", 5673)
    auth = config.auth
    assert (auth.default_user, auth.default_pass, auth.default_vhost) == ("app", "secret", "apps")
    assert config.storage.data_dir == "/var/lib/rabbitmq/mnesia/hare@here-sluicemq"
    assert (config.log.dir, config.log.file) == ("/var/log/rabbitmq", None)
    assert config.cluster.name is None  # it is no node of a cluster
    assert origins["net", "port"] == "RABBITMQ_NODE_PORT"
    assert notes == [
        "these variables of RabbitMQ's mean nothing here: RABBITMQ_PLUGINS_DIR,"
        " RABBITMQ_SERVER_ERL_ARGS"
    ]


def test_in_a_cluster_the_name_is_the_nodes() -> None:
    sets = ["cluster.nodes=hare@here:1,b@there:1", "cluster.secret_file=s"]
    assert load(None, sets, NODE).config.cluster.name == "hare@here"


def test_a_directory_is_never_rabbitmqs_own() -> None:
    env = {"RABBITMQ_MNESIA_DIR": "/srv/rabbit", "RABBITMQ_MNESIA_BASE": "/elsewhere"}
    assert load(None, [], env).config.storage.data_dir == "/srv/rabbit-sluicemq"


@pytest.mark.parametrize("written", ["rabbitmq", "rabbitmq.conf"])
def test_the_files_of_a_node_are_read(tmp_path: Path, written: str) -> None:
    (tmp_path / "rabbitmq.conf").write_text("heartbeat = 7\nport = 1\n")
    more = tmp_path / "conf.d"
    more.mkdir()
    for name, frame in (("20-b.conf", 8192), ("10-a.conf", 4096)):
        (more / name).write_text(f"frame_max = {frame}\n")
    (more / "notes").write_text("no configuration")
    env = {
        "RABBITMQ_CONFIG_FILE": str(tmp_path / written),
        "RABBITMQ_CONFIG_FILES": str(more),
        "RABBITMQ_NODE_PORT": "2",
    }
    net = load(None, [], env).config.net
    assert (net.heartbeat, net.frame_max, net.port) == (7, 8192, 2)
    assert load(None, [], {**env, "SLUICEMQ_PORT": "3"}).config.net.port == 3
    other = tmp_path / "own.conf"
    other.write_text("heartbeat = 9\n")
    assert load(other, [], env).config.net.heartbeat == 9  # --config is instead of all of them


def test_a_value_that_cannot_be_is_refused_by_its_variable() -> None:
    with pytest.raises(Refused, match=r"^RABBITMQ_NODE_PORT: net\.port = many: must be"):
        load(None, [], {"RABBITMQ_NODE_PORT": "many"})
