"""Configuration files, as TOML and as rabbitmq.conf."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sluicemq.cli.config_file import config_of, read_text
from sluicemq.config import SECTIONS, Config
from sluicemq.errors import Refused
from sluicemq.options import options_of
from targets.target import Target

REFUSAL_MAX: Final = 2000
"""No refusal repeats a whole file."""


def decode_toml(data: bytes) -> Config | None:
    return read(Path("fuzz.toml"), data)


def decode_conf(data: bytes) -> Config | None:
    return read(Path("fuzz.conf"), data)


def decode_either(data: bytes) -> Config | None:
    return read(Path("fuzz"), data)


def read(path: Path, data: bytes) -> Config | None:
    """The configuration, or None: refused. What is not UTF-8 never comes this far."""
    try:
        return config_of(read_text(path, data.decode())).config
    except UnicodeDecodeError:
        return None
    except Refused as refused:
        assert len(str(refused)) < REFUSAL_MAX + 2 * len(data)
        return None


def check_toml(data: bytes) -> None:
    """Nothing but `Refused`; what is accepted can be written and read again."""
    config = decode_toml(data)
    if config is not None:
        assert decode_toml(written(config).encode()) == config, written(config)
    decode_either(data)


def check_conf(data: bytes) -> None:
    """Nothing but `Refused`; what is accepted can be written, as TOML, and read again."""
    config = decode_conf(data)
    if config is not None:
        assert decode_toml(written(config).encode()) == config, written(config)
    decode_either(data)


def written(config: Config) -> str:
    """All options that are set, as TOML."""
    lines: list[str] = []
    for section in SECTIONS:
        lines.append(f"[{section}]")
        values = getattr(config, section)
        for each, _ in options_of(SECTIONS[section]):
            value = getattr(values, each.name)
            if value is not None:
                lines.append(f"{each.name} = {literal(value)}")
    return "\n".join(lines)


def literal(value: object) -> str:
    """A value as TOML writes it; its strings are JSON's but for one character."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(literal, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_seeds() -> Iterator[bytes]:
    """The defaults; every kind of value, right and wrong; what is no TOML."""
    yield b""
    yield written(Config()).encode()
    yield b"heartbeat = 30\nframe_max = '128KiB'\n[flow]\nprofile = 'rabbitmq-3.5'\n"
    yield b"[flow]\ncredit_flow_default_credit = [400, 200]\n[memory]\nhigh_watermark = 0.4\n"
    yield b"listeners.tcp.default = '127.0.0.1:5673'\nloopback_users.guest = false\n"
    yield b"vm_memory_high_watermark.relative = nan\n"
    yield b"vm_memory_high_watermark.absolute = '1e9'\nheartbeat = 1979-05-27T07:32:00Z\n"
    yield b"a = [[[[[[1]]]]]]\nb = {c = {d = {e = 1}}}\n"
    yield b"hartbeat = 1\nheartbeat = -1\n[[net]]\nhost = ''\n"
    yield b"host = 'a\nb'\n\x00"
    yield b"a = " + b"[" * 3000
    yield b"a = " + b"{b=" * 1500
    yield b"heartbeat = " + b"9" * 5000
    yield b".".join([b"a"] * 2000) + b" = 1"


def conf_seeds() -> Iterator[bytes]:
    """RabbitMQ's own forms."""
    yield b"# nothing\n\n"
    yield b"listeners.tcp.default = 5673\nheartbeat = 30 # soon\ndefault_user = 'a#b'\n"
    yield b"listeners.tcp.local = [::1]:5672\nloopback_users = none\nloopback_users.guest = true\n"
    yield b"vm_memory_high_watermark.relative = 0.5\nvm_memory_high_watermark.absolute = 2GB\n"
    yield b"disk_free_limit.absolute = 50MB\ndefault_pass = a\\#b\nframe_max = 131072\n"
    yield b"no equals sign\n= 5\nheartbeat =\nheartbeat = = =\n"
    yield b"collect_statistics_interval = 5000\nlog.file.level = debug\nchannel_max = 99999999\n"
    yield b"credit_flow_default_credit = {400, 200}\nheartbeat = \xd9\xa3\n"


PREFIXES_BYTES = 50_000_000
"""tomllib keeps every prefix of a key with dots: a square, small only because files are."""

TOML = Target("toml", check_toml, decode_toml, toml_seeds, PREFIXES_BYTES, 1200, input_max=6000)
CONF = Target("conf", check_conf, decode_conf, conf_seeds, base_bytes=600_000, factor=1200)
