"""Goal: what a user writes means what RabbitMQ's users expect, or is refused in one clear line.

Method: small files of both formats, variables and --set through `load`, and every way of being
wrong with the exact text.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicemq.cli import config_file
from sluicemq.config import SECTIONS, Config
from sluicemq.errors import Refused
from sluicemq.options import options_of


def load(file: Path | None, sets: list[str], env: dict[str, str]) -> Config:
    return config_file.load(file, sets, env).config


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def refusal(sets: list[str], env: dict[str, str] | None = None, file: Path | None = None) -> str:
    with pytest.raises(Refused) as refused:
        load(file, sets, env or {})
    return str(refused.value)


def test_nothing_written_gives_the_defaults() -> None:
    assert load(None, [], {"PATH": "/bin"}) == Config()


NOT_ALONE = (
    "storage.queue_index_segment_entry_count",
    "tls.port",
    "cluster.port",
    "management.ssl_port",
)
"""Not every number will do, or something else must be set too."""


def test_every_option_that_is_written_is_in_the_configuration() -> None:
    """One of each kind that has a number; none may be read and then forgotten."""
    for section, declared in SECTIONS.items():
        for field, option in options_of(declared):
            name = f"{section}.{field.name}"
            if option.kind == "count" and name not in NOT_ALONE:
                value = int(option.low) + 7
                config = load(None, [f"{section}.{field.name}={value}"], {})
                assert getattr(getattr(config, section), field.name) == value


RABBITMQ_CONF = r"""
# what a RabbitMQ user has
listeners.tcp.default = 5673
heartbeat = 30            # seconds
vm_memory_high_watermark.absolute = 512MiB
total_memory_available_override_value = 2GB
credit_flow_default_credit = {400,200}
msg_store_credit_disc_bound = 4000, 800
default_user = app
default_pass = 'a#b'
default_vhost = one\#two
loopback_users.guest = false
default_user_tags.management = true
default_user_tags.policymaker = true
default_permissions.read = ^app
handshake_timeout = 5000
max_message_size = 1M
"""


def test_rabbitmq_conf_is_read_with_its_units_comments_and_quotes(tmp_path: Path) -> None:
    config = load(written(tmp_path, "rabbitmq.conf", RABBITMQ_CONF), [], {})
    assert (config.net.port, config.net.heartbeat) == (5673, 30)
    assert config.memory.vm_memory_high_watermark_absolute == 512 * 1024 * 1024
    assert config.memory.total_memory_available_override_value == 2_000_000_000
    assert config.flow.credit_flow_default_credit == (400, 200)
    assert config.flow.msg_store_credit_disc_bound == (4000, 800)
    auth = config.auth
    assert (auth.default_user, auth.default_pass, auth.default_vhost) == ("app", "a#b", "one#two")
    assert auth.loopback_users == ()
    assert auth.default_user_tags == ("management", "policymaker")
    assert auth.default_permissions_read == "^app"
    assert (config.net.handshake_timeout_ms, config.net.max_message_size) == (5000, 1024 * 1024)


STORAGE_CONF = """
data_dir = /var/lib/sluicemq
disk_free_limit.absolute = 2GB
disk_free_limit.relative = 1.0
vm_memory_high_watermark.absolute = 1GiB
vm_memory_high_watermark_paging_ratio = 0.75
memory_monitor_interval = 2000
queue_index_embed_msgs_below = 1kB
queue_index_segment_entry_count = 2048
storage.journal_file_size_limit = 8MiB
msg_store_file_size_limit = 32MiB
msg_store_io_batch_size = 2048
message_store.index = lmdb
io.threads = 8
"""


def test_rabbitmq_conf_says_where_and_how_to_store(tmp_path: Path) -> None:
    file = written(tmp_path, "rabbitmq.conf", STORAGE_CONF)
    config = load(file, [], {})
    storage = config.storage
    assert storage.data_dir == "/var/lib/sluicemq"
    assert (storage.disk_free_limit_absolute, storage.disk_free_limit_relative) == (2 * 10**9, 1.0)
    assert config.memory.vm_memory_high_watermark_absolute == 2**30
    assert config.memory.vm_memory_high_watermark_paging_ratio == 0.75
    assert config.memory.memory_monitor_interval == 2000
    assert storage.queue_index_embed_msgs_below == 1000
    assert storage.queue_index_segment_entry_count == 2048
    assert storage.journal_file_size_limit == 8 << 20
    assert storage.msg_store_file_size_limit == 32 << 20
    assert storage.msg_store_io_batch_size == 2048
    assert (storage.msg_store_index, storage.io_threads) == ("lmdb", 8)


def test_the_data_directory_and_the_disk_limit_in_every_place(tmp_path: Path) -> None:
    env = {"SLUICEMQ_DATA_DIR": "/srv/a", "SLUICEMQ_DISK_FREE_LIMIT": "1GB"}
    storage = load(None, ["storage.data_dir=/srv/b"], env).storage
    assert (storage.data_dir, storage.disk_free_limit_absolute) == ("/srv/b", 10**9)
    assert load(None, ["disk_free_limit.mem_relative=2"], {}).storage.disk_free_limit_relative == 2
    toml = written(tmp_path, "a.toml", '[storage]\nreserve_bytes = "1MiB"\nfile_handles_max = 16\n')
    storage = load(toml, [], {}).storage
    assert (storage.reserve_bytes, storage.file_handles_max) == (2**20, 16)


TOML = """
listeners.tcp.default = 5674
loopback_users = ["guest", "admin"]
[net]
heartbeat = 10
max_message_size = "2MB"
[flow]
profile = "rabbitmq-3.5"
credit_flow_default_credit = [20, 10]
[memory]
vm_memory_high_watermark.relative = 0.5
"""


@pytest.mark.parametrize("name", ["sluicemq.toml", "settings"])
def test_toml_is_read_by_extension_or_by_content(tmp_path: Path, name: str) -> None:
    config = load(written(tmp_path, name, TOML), [], {})
    assert (config.net.port, config.net.heartbeat) == (5674, 10)
    assert config.net.max_message_size == 2_000_000
    assert (config.flow.profile, config.flow.credit_flow_default_credit) == (
        "rabbitmq-3.5",
        (20, 10),
    )
    assert config.memory.vm_memory_high_watermark_relative == 0.5
    assert config.auth.loopback_users == ("guest", "admin")


def test_conf_is_recognised_by_content_too(tmp_path: Path) -> None:
    config = load(written(tmp_path, "broker", "loopback_users = none\n"), [], {})
    assert config.auth.loopback_users == ()


def test_flags_win_over_variables_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "a.conf", "heartbeat = 1\nport = 1001\nframe_max = 8192\n")
    env = {"SLUICEMQ_HEARTBEAT": "2", "SLUICEMQ_PORT": "1002"}
    net = load(file, ["heartbeat=3"], env).net
    assert (net.heartbeat, net.port, net.frame_max) == (3, 1002, 8192)


def test_a_variable_is_the_key_in_capitals() -> None:
    env = {"SLUICEMQ_FLOW_PROFILE": "rabbitmq-3.8", "SLUICEMQ_LISTENERS_TCP_DEFAULT": "[::1]:99"}
    config = load(None, [], env)
    assert config.flow.profile == "rabbitmq-3.8"
    assert (config.net.host, config.net.port) == ("::1", 99)


def test_variables_that_are_no_options_are_left_alone() -> None:
    env = {"SLUICEMQ_CONFIG": "x.toml", "SLUICEMQ_COMPILE": "0", "SLUICEMQ_TEST_URL": "amqp://a/"}
    assert load(None, [], env) == Config()


def test_sizes_with_rabbitmqs_units() -> None:
    cases = {
        "4k": 4096,
        "4kB": 4000,
        "4KiB": 4096,
        "3M": 3 << 20,
        "1GB": 10**9,
        "7": 7,
        "5 MB": 5e6,
    }
    for text, size in cases.items():
        limit = load(None, [f"vm_memory_high_watermark.absolute={text}"], {}).memory
        assert limit.vm_memory_high_watermark_absolute == size, text


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("loopback_users=none", ()),
        ("loopback_users=guest admin", ("guest", "admin")),
        ("loopback_users=guest,admin", ("guest", "admin")),
        ("loopback_users.other=true", ("other",)),
    ],
)
def test_loopback_users_in_every_form(text: str, users: tuple[str, ...]) -> None:
    assert load(None, [text], {}).auth.loopback_users == users


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("heartbeat=abc", "must be a whole number of seconds from 0 to 65535"),
        ("heartbeat=-1", "must be a whole number of seconds from 0 to 65535"),
        ("port=65536", "must be a whole number from 0 to 65535"),
        ("frame_max=100", "from 4096 to 16777216, or 0; a unit such as kB, MB or MiB may follow"),
        ("max_message_size=5 parsecs", "a whole number of bytes from 1"),
        ("vm_memory_high_watermark.relative=nan", "must be a number from 0 to 1"),
        ("vm_memory_high_watermark.relative=1.5", "must be a number from 0 to 1"),
        ("credit_flow_default_credit=400", "FIRST,SECOND"),
        ("credit_flow_default_credit=200,400", "SECOND <= FIRST"),
        ("flow.profile=fast", "must be one of adaptive, rabbitmq-3.5, rabbitmq-3.8"),
        ("default_user=", "must be a text that is not empty"),
        ("loopback_users.guest=maybe", "must be true or false"),
        ("disk_free_limit.relative=-1", "must be a number from 0 to 1000"),
        ("message_store.index=leveldb", "must be one of dict, lmdb"),
        ("storage.journal_file_size_limit=1000", "a whole number of bytes from 1024"),
    ],
)
def test_a_bad_value_names_origin_option_value_and_what_is_allowed(text: str, message: str) -> None:
    key, _, value = text.partition("=")
    said = refusal([text])
    assert said.startswith(f"command line: {key} = {value}: "), said
    assert message in said


def test_an_unknown_key_suggests_the_nearest() -> None:
    said = refusal(["hartbeat=1"])
    assert said == "command line: hartbeat is not an option; did you mean heartbeat?"
    assert refusal(["zzz=1"]).endswith("; docs/configuration.md lists them all")
    said = refusal([], {"SLUICEMQ_HEARTBEET": "1"})
    assert said.endswith("SLUICEMQ_HEARTBEET is not an option; did you mean SLUICEMQ_HEARTBEAT?")


def test_a_bad_line_is_named_with_its_number(tmp_path: Path) -> None:
    file = written(tmp_path, "a.conf", "heartbeat = 1\n\nwhat is this\n")
    assert refusal([], file=file) == f"{file}:3: 'what is this' is not of the form key = value"
    file = written(tmp_path, "b.conf", "heartbeat = 1\nframe_max = big\n")
    assert refusal([], file=file).startswith(f"{file}:2: frame_max = big: must be")


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refusal([], file=tmp_path / "absent.toml")
    assert "is not TOML" in refusal([], file=written(tmp_path, "bad.toml", "[net\n"))
    (tmp_path / "binary.conf").write_bytes(b"\xff\xfe")
    assert "cannot be read" in refusal([], file=tmp_path / "binary.conf")
    said = refusal([], file=written(tmp_path, "kind.toml", "[net]\nheartbeat = true\n"))
    assert "net.heartbeat = True: must be" in said


def test_set_without_a_value_is_refused() -> None:
    assert refusal(["heartbeat"]).startswith("--set heartbeat: must be KEY=VALUE")


def test_a_password_is_not_repeated_in_the_error() -> None:
    assert "(hidden)" in refusal(["default_pass="])
