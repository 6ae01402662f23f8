"""The reading side of a connection's socket, as its reader turns it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sluicemq.amqp.connection import AmqpConnection
    from sluicemq.kernel.world import Net

FILLED_PER_UNIT: Final = 4096
"""How many octets a unit of work reads into the room for a large content."""


class SocketTap:
    """Lets bytes through as they come, or pulls them; `has_rooms` says that what is read may go to
    the codec's rooms, because it need not be decoded before."""

    __slots__ = ("connection", "has_rooms", "is_shut", "net", "pulls", "reads", "received_bytes")

    def __init__(self, net: Net, connection: int, has_rooms: bool) -> None:
        self.net = net
        self.connection = connection
        self.has_rooms = has_rooms
        self.is_shut = False
        """Is the socket not read at all?"""
        self.pulls = False
        """Is it read only by `pull`?"""
        self.received_bytes = 0
        self.reads = 0
        """How many reads the received bytes came by."""

    def count(self, size: int) -> None:
        """Count `size` bytes that came by one read."""
        self.received_bytes += size
        self.reads += 1

    def turn(self, is_shut: bool) -> None:
        """Have the socket read no more when `is_shut`, and otherwise read again."""
        if is_shut == self.is_shut:
            return
        self.is_shut = is_shut
        if is_shut:
            self.net.pause_reading(self.connection)
        else:
            self.net.resume_reading(self.connection)

    def all_taken(self, may_pull: bool) -> None:
        """Note that all received bytes are parsed. If so much came that the socket rests, it is to
        be pulled if that `may_pull`."""
        self.pulls = self.net.taken(self.connection, may_pull)

    def pull(self, amqp: AmqpConnection, size_max: int) -> int:
        """Read the resting socket for the codec: into its room if there is one, else at most
        `size_max` bytes. Returns the units of work that this cost; 0 when it rests no longer."""
        work = self.fill_room(amqp)
        if not work and (data := self.net.pull(self.connection, size_max)):
            self.count(len(data))
            amqp.receive_data(data)
            work = 1
        return work

    def fill_room(self, amqp: AmqpConnection) -> int:
        """Read the resting socket into the room that there is for a large content. Returns the
        units of work that this cost; 0 when there is no room, or nothing to be read."""
        room = amqp.room() if self.has_rooms else None
        if room is None:
            return 0
        size = self.net.pull_into(self.connection, room)
        if not size:
            return 0
        self.count(size)
        amqp.filled(size)
        return 1 + size // FILLED_PER_UNIT
