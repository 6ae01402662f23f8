"""The state that handlers of requests share: the link to the broker, samples, sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluicemq.management.broker_link import BrokerLink
from sluicemq.management.cluster_inventory import ClusterInventory, node_name
from sluicemq.management.inventory import GLOBAL_PARAMETERS
from sluicemq.management.sampler import BrokerSampler
from sluicemq.management.sign_in import SignIn
from sluicemq.management.user_session import UserSessions

if TYPE_CHECKING:
    from sluicemq.config import Config


class Desk:
    """The state of one management process."""

    def __init__(self, config: Config, broker_port: int) -> None:
        self.config = config
        self.link = BrokerLink(broker_port)
        self.inventory = ClusterInventory(self.link)
        self.sampler = BrokerSampler(self.inventory, config.management.sample_interval_ms)
        self.sign_in = SignIn(self.link, config.management.session_minutes * 60.0)
        self.sessions = UserSessions()
        self.listeners: list[tuple[str, str, int]] = []
        """The listeners of this process: protocol, address, port."""
        self.name = ""
        """The node's name, after the broker's first answer."""

    async def node_name(self) -> str:
        """Return the name of the local node."""
        if not self.name:
            self.name = node_name(await self.inventory.node())
        return self.name

    async def cluster_name(self) -> str:
        """Return the name that was set, or the node's name."""
        for parameter in await self.inventory.all(GLOBAL_PARAMETERS):
            if parameter["name"] == "cluster_name" and isinstance(parameter["value"], str):
                return parameter["value"]
        return await self.node_name()

    async def declared(self, table: str) -> list[dict[str, Any]]:
        """Return one table of definitions, as it is now."""
        return await self.link.ask("declared", table=table)

    async def change(self, command: str, /, **arguments: object) -> list[Any]:
        """Have the broker carry out a command that changes something; returns when the change is
        durable. Raises BrokerRefused."""
        self.changed()
        try:
            return await self.link.ask(command, **arguments)
        finally:
            self.changed()

    def changed(self) -> None:
        """Note that this process changes something, so that fetched lists are out of date."""
        self.inventory.changed()
        self.sign_in.changed()

    async def change_at(self, node: str, command: str, /, **arguments: object) -> list[Any]:
        """Have another node carry out a command, as `change` does; "" means the local one."""
        if not node:
            return await self.change(command, **arguments)
        return await self.change("of_node", node=node, command=command, arguments=arguments)
