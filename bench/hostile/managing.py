"""Attacks by what an operator does to a broker with much in it."""

from __future__ import annotations

import itertools

from hostile import frames
from hostile.attack import Attacker, attack


def declare_many(attacker: Attacker, count: int) -> None:
    """So many queues."""
    link = attacker.link()
    names = [f"managed{number}" for number in range(count)]
    link.write_all(frames.joined(frames.declares(names, nowait=True)))
    link.settle()


@attack()
def policies(attacker: Attacker) -> None:
    """Policies for 3,000 queues set without a pause."""
    declare_many(attacker, 3000)
    attacker.begin()
    for number in itertools.count(1):
        attacker.set_policy("^managed", f'{{"max-length": {number}}}')
        attacker.count("policies")


@attack()
def listings(attacker: Attacker) -> None:
    """`ctl list_queues` of 10,000 queues without a pause."""
    declare_many(attacker, 10_000)
    columns = ["name", "messages", "consumers", "memory", "state", "policy", "arguments"]
    attacker.begin()
    while True:
        attacker.ctl("list_queues", vhost="/", columns=columns)
        attacker.count("lists")


@attack()
def exports(attacker: Attacker) -> None:
    """`ctl export_definitions` with 10,000 queues without a pause."""
    declare_many(attacker, 10_000)
    attacker.begin()
    while True:
        attacker.ctl("export_definitions", file="-")
        attacker.count("exports")
