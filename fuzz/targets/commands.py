"""Commands of queues as other nodes and logs would have them (queues/command_codec.py)."""

from __future__ import annotations

from collections.abc import Iterator

from sluicemq.flow.credit import LinkSpec, Outflow
from sluicemq.flow.gate import GateKeeper
from sluicemq.flow.link import Link
from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.kernel.address import ActorAddress, AddressTable, UnknownAddress
from sluicemq.model.batch import Batch
from sluicemq.model.traits import TRANSIENT, message_traits, property_traits
from sluicemq.queues import commands as c
from sluicemq.queues.command_codec import (
    HEAD,
    CommandDecoder,
    UnreadableCommand,
    encode_command,
)
from sluicemq.queues.settings import QueueSettings
from support.fakes import FakeClock
from targets.target import Target

CHANNEL = Actor(Scheduler())


def window_of(_: Actor) -> Outflow:
    return Outflow(GateKeeper(FakeClock()), "deliveries", LinkSpec(10, 1))


def new_decoder() -> CommandDecoder:
    """One that knows a single actor, at 1.1.1."""
    addresses = AddressTable(1, 1)
    addresses.address_of(CHANNEL)
    return CommandDecoder(addresses, window_of, Link)


def decode(data: bytes) -> c.Command | None:
    """None: refused."""
    try:
        return new_decoder().decode(data)
    except (UnreadableCommand, UnknownAddress):
        return None


def check(data: bytes) -> None:
    """Nothing but a refusal; what was read is written, and read again as it was. (It may be written
    otherwise than it came: what is not looked at is written as 0.)"""
    command = decode(data)
    if command is None or isinstance(command, c.Cancel):
        return
    addresses = new_decoder().addresses
    written = encode_command(command, addresses)
    again = new_decoder().decode(written)
    assert type(again) is type(command)
    assert encode_command(again, addresses) == written


def seeds() -> Iterator[bytes]:
    """Some of each type, an actor of elsewhere, and types and flags that there are not."""
    addresses = new_decoder().addresses
    alike = Batch(
        message_traits(b"\0\1a", 1, True), property_traits(True, 5, 3), [b"xx", b"yy"], 4, True
    )
    unlike = Batch(message_traits(b"", 1, False), TRANSIENT, [b"x", b"yyy", b""], 4, False)
    commands = (
        *(c.Publish(batch, Link(CHANNEL), 7, batch.same_size) for batch in (alike, unlike)),
        c.Settle(c.LinkId(1, 1), [(1, 0, 5), (2, 3, 4)], c.REJECT),
        c.Get(CHANNEL, True),
        c.Inspect(CHANNEL),
        c.Purge(CHANNEL),
        c.Delete(None, True, False),
        c.Down(CHANNEL),
        c.Configure(QueueSettings(max_length=5, lazy=True, overflow="reject-publish")),
    )
    for command in commands:
        yield encode_command(command, addresses)
    actor = ActorAddress(1, 1, 1).encode()
    consumer = bytes(8) + b"\5\0\0\0\1\0\0\0t" + b"\0\0\0\4\1at\1"
    yield HEAD.pack(3, 3, len(actor + consumer)) + actor + consumer
    yield HEAD.pack(4, 0, 21) + actor + b"\1\0\0\0t"
    yield HEAD.pack(6, 0, 16) + ActorAddress(2, 1, 1).encode()
    yield HEAD.pack(11, 0, 0)
    yield HEAD.pack(5, 8, 0)
    yield HEAD.pack(10, 0, 3000) + b"[" * 3000


TARGET = Target("commands", check, decode, seeds, base_bytes=300_000, factor=1500)
