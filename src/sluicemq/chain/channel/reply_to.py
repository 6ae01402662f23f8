"""Direct reply-to: a channel receives replies at an address of its own, without a queue in between.

    client    consumes from amq.rabbitmq.reply-to, without acknowledgements
    client    publishes a request with reply_to = amq.rabbitmq.reply-to
    broker    puts the channel's address in its place: amq.rabbitmq.reply-to.TOKEN
    server    publishes to that address by the default exchange; the client's channel delivers

The token names the connection and the channel, and in a cluster the node and its life, so no table
is needed; its random part keeps strangers from guessing it. A reply to a missing channel is
dropped, and so is one to a client that does not read, or to a node that is not up: one client must
not hold up a server. For `mandatory` and confirms an address is not a queue.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.chain.channel.delivery_frames import DeliveryEncoder, DirectReply
from sluicemq.limits import REPLY_BACKLOG_BYTES
from sluicemq.metadata.changes import Life
from sluicemq.model.reply_address import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluicemq.chain.channel.channel_directory import ChannelDirectory
    from sluicemq.chain.channel.channel_port import ChannelPort
    from sluicemq.chain.channel.consuming import Consuming
    from sluicemq.model.traits import MessageTraits

PLACE: Final = struct.Struct(">QH")
"""The numbers of connection and channel in an address."""
NODE: Final = struct.Struct(">II")
"""The node and its incarnation, which stand before them in a cluster."""
RANDOM_BYTES: Final = 16


class ReplyConsumer:
    """The one consumer of a channel for replies, which come to the address `at`."""

    def __init__(self, channel: ChannelPort, consuming: Consuming, tag: str) -> None:
        self.channel = channel
        self.consuming = consuming
        self.tag = tag
        place = PLACE.pack(channel.reader.connection, channel.number)
        if not channel.services.is_alone:
            place = NODE.pack(*channel.services.life) + place
        token = place + channel.services.world.dice.token(RANDOM_BYTES)
        self.at = ADDRESS + urlsafe_b64encode(token).decode().rstrip("=")
        reader = channel.reader
        self.encoder = DeliveryEncoder(channel.number, tag, reader.frame_max, reader.refits)

    def deliver(self, reply: DirectReply) -> None:
        """Append the frames of a reply to what is due to the client, or drop it when more than
        REPLY_BACKLOG_BYTES already wait for the client to read."""
        channel = self.channel
        count = len(reply.contents)
        if channel.reader.writer.pending_bytes > REPLY_BACKLOG_BYTES:
            channel.services.counters.dropped += count
            return
        consuming = self.consuming
        first = consuming.next_tag
        consuming.next_tag = first + count
        channel.services.counters.delivered += count
        channel.out += self.encoder.frames(reply, first)


class ReplyPlace(NamedTuple):
    """Where an address leads: the numbers of a connection and of a channel on it, and the life of
    their node, None for a node alone."""

    connection: int
    channel: int
    life: Life | None


def place_of(address: str) -> ReplyPlace | None:
    """Return where an address leads; None for a text that is not such an address."""
    try:
        token = urlsafe_b64decode(address.removeprefix(ADDRESS) + "==")
        if len(token) < NODE.size + PLACE.size + RANDOM_BYTES:
            connection, channel = PLACE.unpack_from(token)
            return ReplyPlace(connection, channel, None)
        connection, channel = PLACE.unpack_from(token, NODE.size)
        return ReplyPlace(connection, channel, Life(*NODE.unpack_from(token)))
    except (ValueError, struct.error):
        return None


def listener(directory: ChannelDirectory[ChannelPort], address: str) -> ChannelPort | None:
    """Return the channel of this node that receives replies at that address; None when there is
    none, or the text is not such an address."""
    place = place_of(address)
    if place is None:
        return None
    connection, number, _ = place
    channel = directory.find_channel(connection, number)
    return channel if channel is not None and channel.replies_at == address else None


def is_heard(directory: ChannelDirectory[ChannelPort], address: str) -> bool:
    """Tell whether a channel of this node receives replies at that address, or it belongs to
    another node that is up, whose channels are not known here."""
    return listener(directory, address) is not None or directory.is_reply_node_up(address)


def send_replies(
    directory: ChannelDirectory[ChannelPort],
    keys: Iterable[str],
    contents: list[bytes],
    traits: MessageTraits,
) -> int:
    """Send the contents, which have these traits, to each of the routing `keys` that is the address
    of a reply consumer. Returns how many messages found no receiver, summed up over these
    addresses."""
    dropped = 0
    for at in dict.fromkeys(each for each in keys if each.startswith(ADDRESS)):
        channel = listener(directory, at)
        if channel is not None:
            channel.post(DirectReply(at, contents, traits))
        elif not directory.reply_elsewhere(at, contents, traits):
            dropped += len(contents)
    return dropped
