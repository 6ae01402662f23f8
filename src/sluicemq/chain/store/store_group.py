"""What the message store gathers for one commit of the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluicemq.chain.store.messages import (
        Durable,
        StoreClient,
        StoreDefinition,
        StoreQueueDeleted,
        StoreRemove,
        StoreStreamFiles,
        StoreWrite,
    )


class Group:
    """All of it, before it is durable."""

    __slots__ = (
        "acks",
        "asked",
        "bodies",
        "bytes",
        "collect",
        "definitions",
        "delivered",
        "places",
        "streams",
        "urgent",
        "writes",
    )

    def __init__(self) -> None:
        self.writes: list[StoreWrite] = []
        self.places: dict[tuple[StoreClient, int], StoreWrite] = {}
        """The writes by where they begin, less those that were overtaken."""
        self.acks: dict[StoreClient, list[range]] = {}
        self.delivered: dict[StoreClient, int] = {}
        self.definitions: list[StoreDefinition | StoreQueueDeleted] = []
        self.collect: list[StoreRemove] = []
        self.streams: list[StoreStreamFiles] = []
        self.bodies: list[int] = []
        """Ids of bodies that nobody needs any more when this group is durable."""
        self.asked: list[Durable] = []
        self.bytes = 0
        self.urgent = False
        """Somebody waits for it."""

    def is_empty(self) -> bool:
        said = self.definitions or self.collect or self.bodies or self.streams
        return not (self.writes or self.acks or said)
