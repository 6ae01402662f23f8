"""Addresses: how nodes name actors to one another, in messages between them and in logs.

An actor is known by reference on its own node, which needs nothing of this module. In bytes that
leave the node, or outlive it, an address stands for the actor: the node, its life and a number
within that life. An actor of an earlier life is so never mistaken for one of the present life.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from sluicemq.errors import SluiceError
from sluicemq.limits import ACTOR_ADDRESSES_MAX

if TYPE_CHECKING:
    from sluicemq.kernel.actor import Actor

LAYOUT: Final = Struct("<IIQ")

NODE_MAX: Final = (1 << 32) - 1
INCARNATION_MAX: Final = (1 << 32) - 1
SERIAL_MAX: Final = (1 << 64) - 1


class ActorAddress(NamedTuple):
    """The address of an actor. `node` is the number that a node was given when it joined, from 1 on
    and never given again; `incarnation` grows with each of its starts, from 1 on; `serial` counts
    the actors of that life that were given an address, from 1 on."""

    node: int
    incarnation: int
    serial: int

    def __str__(self) -> str:
        return f"{self.node}.{self.incarnation}.{self.serial}"

    def encode(self) -> bytes:
        """Return the address in ADDRESS_BYTES bytes: node u32, incarnation u32, serial u64."""
        return LAYOUT.pack(*self)


ADDRESS_BYTES: Final = 16

NOBODY: Final = ActorAddress(0, 0, 0)
"""What stands in place of an actor's address where there is no actor."""


def decode_address(data: bytes | memoryview, position: int) -> ActorAddress:
    """Return the address at `position` of `data`, which must have ADDRESS_BYTES bytes from there
    on."""
    return ActorAddress(*LAYOUT.unpack_from(data, position))


class UnknownAddress(SluiceError):
    """No actor of this node has the address, or stands for the actor that has it."""

    def __init__(self, address: ActorAddress, why: str) -> None:
        super().__init__(f"address {address} {why}")
        self.address = address


class AddressTable:
    """The addresses of actors, in the life `incarnation` of the node with the number `node`.

    An actor gets an address when somebody first asks for it, and keeps it, held by the table, until
    the code that ends the actor calls `forget`. An actor of this node may stand for an actor of
    another node or of an earlier life, and speaks for it. The table has at most `limit` of both
    together.
    """

    def __init__(self, node: int, incarnation: int, limit: int = ACTOR_ADDRESSES_MAX) -> None:
        assert 1 <= node <= NODE_MAX
        assert 1 <= incarnation <= INCARNATION_MAX
        self.node = node
        self.incarnation = incarnation
        self.limit = limit
        self.serial = 0
        """The serial number that was given last."""
        self._actors: dict[ActorAddress, Actor] = {}
        self._addresses: dict[Actor, ActorAddress] = {}

    def __len__(self) -> int:
        return len(self._actors)

    def address_of(self, actor: Actor) -> ActorAddress:
        """Return the address of an actor of this node, or the one that it stands for. Raises
        SluiceError when it has none and the table is full."""
        known = self._addresses.get(actor)
        if known is not None:
            return known
        assert self.serial < SERIAL_MAX
        address = ActorAddress(self.node, self.incarnation, self.serial + 1)
        self._enter(address, actor)
        self.serial += 1
        return address

    def actor_at(self, address: ActorAddress) -> Actor:
        """Return the actor with that address, or the one that stands for it. Raises UnknownAddress,
        with the reason, when there is none."""
        actor = self._actors.get(address)
        if actor is None:
            raise UnknownAddress(address, self._why(address))
        return actor

    def stand_for(self, address: ActorAddress, actor: Actor) -> None:
        """Let `actor`, which has no address, stand for the actor at `address`, which is not of this
        life and has no stand-in yet. Raises SluiceError when the table is full."""
        assert address != NOBODY, "nobody needs no one to stand for it"
        assert address[:2] != (self.node, self.incarnation), f"{address} is of this life"
        assert address not in self._actors, f"somebody stands for {address} already"
        assert actor not in self._addresses, "an actor has one address"
        self._enter(address, actor)

    def forget(self, actor: Actor) -> None:
        """Forget an actor that has come to its end. Its address, if it has one, is never given
        again."""
        address = self._addresses.pop(actor, None)
        if address is not None:
            del self._actors[address]
        assert len(self._actors) == len(self._addresses)

    def _enter(self, address: ActorAddress, actor: Actor) -> None:
        if len(self._actors) >= self.limit:
            raise SluiceError(f"there are {self.limit} addresses, and there may be no more")
        self._actors[address] = actor
        self._addresses[actor] = address

    def _why(self, address: ActorAddress) -> str:
        if address == NOBODY:
            return "is nobody's"
        if address.node != self.node:
            return f"is of node {address.node}, and nobody on node {self.node} stands for it"
        if address.incarnation < self.incarnation:
            return f"is of an earlier life of this node, which is in life {self.incarnation} now"
        if address.incarnation > self.incarnation or address.serial > self.serial:
            return "was never given on this node"
        return "was an actor's that has come to its end"


MEMBER_NODE_BITS: Final = 32
"""So many bits of the id of a Raft group's member are the number of its node. Those above are 0 for
whom a group is born with; each that comes later has a number there which is given once, and is
higher than those that were given before."""


def node_of(name: int) -> int:
    """Return the node on which the member with that id is."""
    return name & ((1 << MEMBER_NODE_BITS) - 1)


def number_of(name: int) -> int:
    """Return the number that tells a member from earlier ones on its node; 0 for a member since the
    birth of the group."""
    return name >> MEMBER_NODE_BITS


def member_name(number: int, node: int) -> int:
    """Return the id of a member on that node, with a number that no member had."""
    assert number > 0, "0 are those that a group is born with"
    return number << MEMBER_NODE_BITS | node
