"""All targets by their names."""

from __future__ import annotations

from typing import Final

from targets import (
    commands,
    configuration,
    connection,
    definitions,
    frames,
    handshake,
    method,
    node,
    properties,
    raft_messages,
    session,
    storage,
    table,
)
from targets.target import Target

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for target in (
        table.TARGET,
        properties.TARGET,
        method.TARGET,
        connection.TARGET,
        session.TARGET,
        node.TARGET,
        configuration.TOML,
        configuration.CONF,
        definitions.DEFINITIONS,
        definitions.DURABLE,
        storage.ENTRIES,
        storage.FILES,
        commands.TARGET,
        frames.TARGET,
        handshake.TARGET,
        raft_messages.TARGET,
    )
}
