"""Goal: an address is one actor's, of one life of one node, and never another's. Method: a table
beside a model, and each reason for which an address leads nowhere.
"""

from __future__ import annotations

from random import Random

import pytest

from sluicemq.errors import SluiceError
from sluicemq.kernel.actor import Actor
from sluicemq.kernel.address import (
    ADDRESS_BYTES,
    INCARNATION_MAX,
    NOBODY,
    NODE_MAX,
    SERIAL_MAX,
    ActorAddress,
    AddressTable,
    UnknownAddress,
    decode_address,
)
from support.fakes import bystander

NODE, LIFE = 2, 7


@pytest.mark.parametrize(
    "address", [NOBODY, ActorAddress(1, 2, 3), ActorAddress(NODE_MAX, INCARNATION_MAX, SERIAL_MAX)]
)
def test_bytes_and_back(address: ActorAddress) -> None:
    data = address.encode()
    assert len(data) == ADDRESS_BYTES
    assert decode_address(b"xx" + data + b"x", 2) == address


def test_an_actor_has_one_address_for_its_life() -> None:
    table = AddressTable(NODE, LIFE)
    one, other = bystander(), bystander()
    address = table.address_of(one)
    assert address == (NODE, LIFE, 1)
    assert table.address_of(other) == (NODE, LIFE, 2)
    assert table.address_of(one) == address
    assert table.actor_at(address) is one


def test_no_address_is_given_twice() -> None:
    """Whoever comes and goes, and whoever stands for somebody elsewhere."""
    dice = Random(1)
    table = AddressTable(NODE, LIFE, limit=20)
    model: dict[ActorAddress, Actor] = {}
    given: set[ActorAddress] = set()
    for number in range(2000):
        if model and (dice.random() < 0.5 or len(model) == 20):
            address = dice.choice([*model])
            table.forget(model.pop(address))
            with pytest.raises(UnknownAddress):
                table.actor_at(address)
        elif dice.random() < 0.3:
            address = ActorAddress(NODE + 1, LIFE, number)
            model[address] = bystander()
            table.stand_for(address, model[address])
        else:
            actor = bystander()
            address = table.address_of(actor)
            assert address not in given
            given.add(address)
            model[address] = actor
        assert len(table) == len(model)
        for address, actor in model.items():
            assert table.actor_at(address) is actor
            assert table.address_of(actor) == address


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (NOBODY, "nobody's"),
        (ActorAddress(3, 7, 1), "of node 3, and nobody on node 2 stands for it"),
        (ActorAddress(2, 6, 1), "an earlier life of this node, which is in life 7 now"),
        (ActorAddress(2, 8, 1), "never given"),
        (ActorAddress(2, 7, 2), "never given"),
        (ActorAddress(2, 7, 1), "come to its end"),
    ],
)
def test_it_is_said_why_an_address_leads_nowhere(address: ActorAddress, why: str) -> None:
    table = AddressTable(NODE, LIFE)
    actor = bystander()
    table.address_of(actor)
    table.forget(actor)
    with pytest.raises(UnknownAddress, match=why) as refusal:
        table.actor_at(address)
    assert refusal.value.address == address
    assert str(address) in str(refusal.value)


def test_who_stands_for_another_has_its_address() -> None:
    table = AddressTable(NODE, LIFE)
    for address in (ActorAddress(3, 1, 5), ActorAddress(NODE, LIFE - 1, 5)):
        actor = bystander()
        table.stand_for(address, actor)
        assert table.actor_at(address) is actor
        assert table.address_of(actor) == address
        table.forget(actor)
        with pytest.raises(UnknownAddress):
            table.actor_at(address)


def test_there_are_no_more_than_there_may_be() -> None:
    table = AddressTable(NODE, LIFE, limit=2)
    first = bystander()
    table.address_of(first)
    table.stand_for(ActorAddress(3, 1, 1), bystander())
    with pytest.raises(SluiceError, match="there are 2 addresses"):
        table.address_of(bystander())
    with pytest.raises(SluiceError, match="there are 2 addresses"):
        table.stand_for(ActorAddress(3, 1, 2), bystander())
    table.forget(first)
    assert table.address_of(bystander()) == (NODE, LIFE, 2)


def test_who_has_no_address_is_forgotten_for_nothing() -> None:
    table = AddressTable(NODE, LIFE)
    table.forget(bystander())
    assert not len(table)
