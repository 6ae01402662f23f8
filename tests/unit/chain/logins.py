"""A node's Access with the users a test wants, for tests of what asks it."""

from __future__ import annotations

from sluicemq.access.access import Access
from sluicemq.config import Config

from .client import Broker


def access_of(config: Config) -> Access:
    """That of a new node: the default user is all there is."""
    return Broker(config).node.broker.access
