"""Goal: a user sees what a configuration comes to, where each value is from and what of RabbitMQ's
is passed over, before a broker is started with it.

Method: the commands on small files, without a process; the keys of Debian's RabbitMQ, where it is
installed.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sluicemq.cli.config_file import load, read_text
from sluicemq.cli.group import sluicemq
from sluicemq.cli.rabbitmq_keys import why_passed_over
from sluicemq.config import SECTIONS
from sluicemq.errors import Refused
from sluicemq.options import names_of, options_of

SCHEMAS = sorted(Path("/usr/lib/rabbitmq").glob("lib/*/plugins/rabbit-*/priv/schema/rabbit.schema"))

CONF = """\
heartbeat = 17
cluster_partition_handling = pause_minority
auth_backends.1 = internal
default_pass = 'a#b'
log.file = false
"""
TOML = """\
listeners.tcp.default = 5674
data_dir = "/srv/with #"

[ flow ]
"profile" = "rabbitmq-3.5"
[memory]
vm_memory_high_watermark.relative = 0.5
"""


def config(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(sluicemq, ["config", *arguments], env=env or {})


@pytest.fixture
def conf(tmp_path: Path) -> str:
    (tmp_path / "rabbitmq.conf").write_text(CONF)
    return str(tmp_path / "rabbitmq.conf")


@pytest.fixture
def toml(tmp_path: Path) -> str:
    (tmp_path / "sluicemq.toml").write_text(TOML)
    return str(tmp_path / "sluicemq.toml")


def test_check_names_what_is_passed_over(conf: str) -> None:
    run = config("check", "--config", conf)
    assert run.exit_code == 0
    first, second, last = run.output.splitlines()
    assert first.startswith(f"note: {conf}:2: cluster_partition_handling is passed over: ")
    assert second.startswith(f"note: {conf}:3: auth_backends.1 is passed over: ")
    assert last == "ok: 3 options set, all others have their defaults"


@pytest.mark.parametrize(
    "setting",
    [
        "auth_backends.1=ldap",
        "proxy_protocol=true",
        "listeners.tcp=none",
        "load_definitions=/nothing/there.json",
        "cluster.nodes=n1@a:1",
    ],
)
def test_check_refuses_what_a_start_refuses(setting: str) -> None:
    run = config("check", "--set", setting)
    assert isinstance(run.exception, Refused)
    assert run.output == ""


def test_show_says_where_each_value_comes_from(toml: str) -> None:
    env = {"SLUICEMQ_HEARTBEAT": "3", "RABBITMQ_NODE_IP_ADDRESS": "::1"}
    run = config("show", "--origin", "--config", toml, "--set", "frame_max=8192", env=env)
    found = dict(line.split(" # ") for line in run.output.splitlines() if "with #" not in line)
    origins = {line.strip(): origin for line, origin in found.items() if origin != "default"}
    assert origins == {
        "net.port = 5674": f"{toml}:1",
        "flow.profile = rabbitmq-3.5": f"{toml}:5",
        "memory.vm_memory_high_watermark_relative = 0.5": f"{toml}:7",
        "net.heartbeat = 3": "SLUICEMQ_HEARTBEAT",
        "net.host = ::1": "RABBITMQ_NODE_IP_ADDRESS",
        "net.frame_max = 8192": "command line",
    }


@pytest.mark.parametrize("origin", [[], ["--origin"]])
def test_what_is_shown_is_a_file_that_says_the_same(
    toml: str, tmp_path: Path, origin: list[str]
) -> None:
    shown = config("show", "--config", toml, *origin).output
    (tmp_path / "again.conf").write_text(shown)
    again = load(tmp_path / "again.conf", [], {}).config
    assert again == load(Path(toml), [], {}).config


def test_no_password_is_shown(conf: str) -> None:
    shown = config("show", "--origin", "--config", conf).output
    assert "a#b" not in shown
    assert "# auth.default_pass = (hidden)" in shown


def test_an_error_in_toml_has_its_line(tmp_path: Path) -> None:
    entries = read_text(tmp_path / "a.toml", "[net]\n\nheartbeat = 1\nother = { a = 1 }\n")
    assert [entry.origin.rpartition("a.toml")[2] for entry in entries] == [":3", ""]


REFUSED = {
    "definitions.hashing.algorithm",
    "definitions.https.url",
    "ssl_allow_poodle_attack",
    "ssl_options",
    "tcp_listen_options",
    "cluster_formation.dns.hostname",
}
"""Keys of RabbitMQ 3.10 that change something here, or have no value of their own."""
REFUSED_GROUPS = re.compile(
    r"definitions\.tls\..*|credential_validator\..*|tcp_listen_options\.(fd|port)"
    r"|ssl_options\.(cacerts|cert|crl_check|dh|dhfile|key|psk_identity|client_reneg).*"
    r"|(auth_backends|proxy_protocol|password_hashing).*"
)


@pytest.mark.rabbitmq
@pytest.mark.skipif(not SCHEMAS, reason="needs Debian's rabbitmq-server")
def test_every_key_of_rabbitmq_is_taken_named_or_refused_on_purpose() -> None:
    keys = re.findall(r'^\{mapping, *"([^"]+)"', SCHEMAS[0].read_text(), re.MULTILINE)
    ours = {
        name
        for section, declared in SECTIONS.items()
        for field, option in options_of(declared)
        for name in names_of(section, field.name, option)
    }
    left = {
        key
        for key in keys
        if key not in ours
        and key.partition(".$")[0] not in ours | {"listeners.tcp", "listeners.ssl"}
        and why_passed_over(key, "") is None
        and not REFUSED_GROUPS.fullmatch(key)
    }
    assert left == REFUSED
