"""Reads the environment variables of a RabbitMQ node, such as RABBITMQ_NODE_PORT.

SLUICEMQ_* variables override them, and they override a file. An empty one counts as not set, as in
RabbitMQ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

PREFIX: Final = "RABBITMQ_"
OPTIONS: Final = {
    "NODE_IP_ADDRESS": "net.host",
    "NODE_PORT": "net.port",
    "DEFAULT_USER": "auth.default_user",
    "DEFAULT_PASS": "auth.default_pass",
    "DEFAULT_VHOST": "auth.default_vhost",
    "LOG_BASE": "log.dir",
    "LOGS": "log.file",
}
"""Variables that are an option here, in the order of growing weight."""

FILES: Final = ("CONFIG_FILE", "CONFIG_FILES")
STORAGE: Final = ("MNESIA_DIR", "MNESIA_BASE")
BESIDE: Final = "-sluicemq"
"""Appended to the directory of a RabbitMQ node, because the two never share one."""

NODE_NAME: Final = "NODENAME"
KNOWN: Final = frozenset((*OPTIONS, *FILES, *STORAGE, NODE_NAME))


def given(env: Mapping[str, str]) -> dict[str, str]:
    """Return RabbitMQ's variables that are not empty, without their prefix."""
    return {
        name.removeprefix(PREFIX): value
        for name, value in sorted(env.items())
        if name.startswith(PREFIX) and value
    }


def files_of(env: Mapping[str, str]) -> list[Path]:
    """Return the configuration files that the variables name: one, whose extension may be left out,
    then those of a directory in the order of their names."""
    rabbitmq = given(env)
    found = []
    if "CONFIG_FILE" in rabbitmq:
        path = Path(rabbitmq["CONFIG_FILE"])
        with_ending = path.with_name(path.name + ".conf")
        found.append(with_ending if with_ending.exists() and not path.exists() else path)
    if "CONFIG_FILES" in rabbitmq:
        path = Path(rabbitmq["CONFIG_FILES"])
        found += sorted(path.glob("*.conf")) if path.is_dir() else [path]
    return found


def settings_of(env: Mapping[str, str], *, clustered: bool) -> Iterator[tuple[str, str, str]]:
    """Yield variable, option and value for each variable that corresponds to an option. A node name
    does so only for a node of a cluster."""
    rabbitmq = given(env)
    for variable in OPTIONS:
        value = rabbitmq.get(variable)
        if value is not None:
            yield PREFIX + variable, OPTIONS[variable], "false" if value == "-" else value
    if "MNESIA_DIR" in rabbitmq:
        yield PREFIX + "MNESIA_DIR", "storage.data_dir", rabbitmq["MNESIA_DIR"] + BESIDE
    elif "MNESIA_BASE" in rabbitmq:
        name = rabbitmq.get(NODE_NAME, "rabbit") + BESIDE
        place = str(Path(rabbitmq["MNESIA_BASE"], name))
        yield PREFIX + "MNESIA_BASE", "storage.data_dir", place
    if clustered and NODE_NAME in rabbitmq:
        yield PREFIX + NODE_NAME, "cluster.name", rabbitmq[NODE_NAME]


def notes_on(env: Mapping[str, str]) -> list[str]:
    """Return a sentence that names the variables without a meaning here, if there are any."""
    others = [PREFIX + name for name in given(env) if name not in KNOWN]
    if not others:
        return []
    return [f"these variables of RabbitMQ's mean nothing here: {', '.join(others)}"]
