"""Imports the definitions file of the configuration when a broker starts, before it listens."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from sluicemq.errors import Refused
from sluicemq.manage.actions import ACTIONS
from sluicemq.manage.task import CommandAnswer, start

if TYPE_CHECKING:
    from sluicemq.node import Node


async def load_definitions(node: Node, path: str) -> None:
    """Import all of this definitions file, durably. Raises Refused when that is impossible."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"definitions.load: {error}") from error
    answered: asyncio.Future[CommandAnswer] = asyncio.get_running_loop().create_future()
    given = {"file": text, "skip_if_unchanged": node.config.definitions.skip_if_unchanged}
    start(node, ACTIONS, "import_definitions", given, answered.set_result)
    answer = await answered
    if answer.error:
        raise Refused(f"definitions.load: {path} cannot be imported:\n{answer.error}")
    for row in answer.rows:
        text = f"definitions: {row['what']} {row['name']}: {row['change']}"
        node.world.log.write("warning", text)
    node.world.log.write("info", f"imported the definitions of {path}")
