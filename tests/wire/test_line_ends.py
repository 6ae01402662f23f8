"""CR and LF in names: taken out where things are declared, bound and deleted, and nowhere else."""

from __future__ import annotations

import pytest
from pamqp import commands

from support.broker import Target
from support.peer import Peer, raw_method, short

NO_ARGUMENTS = b"\0\0\0\0"


def declare_queue(name: str, bits: int = 0) -> bytes:
    return raw_method(1, 50, 10, b"\0\0" + short(name) + bytes([bits]) + NO_ARGUMENTS)


def declare_exchange(name: str, bits: int = 0) -> bytes:
    return raw_method(
        1, 40, 10, b"\0\0" + short(name) + short("fanout") + bytes([bits]) + NO_ARGUMENTS
    )


def bind(class_id: int, method_id: int, one: str, other: str, nowait: bytes = b"\0") -> bytes:
    names = b"\0\0" + short(one) + short(other) + short("")
    return raw_method(1, class_id, method_id, names + nowait + NO_ARGUMENTS)


def opened(target: Target) -> Peer:
    return Peer(target).log_in().open(1)


PASSIVE = 1
AUTO_DELETE = 8


def test_names_are_declared_bound_and_deleted_without_them(target: Target, name: str) -> None:
    split = f"{name[:3]}\r{name[3:]}\n"
    with opened(target) as peer:
        for bits in (AUTO_DELETE, PASSIVE):
            answer = peer.send(declare_queue(split, bits)).expect("Queue.DeclareOk")
            assert isinstance(answer, commands.Queue.DeclareOk)
            assert answer.queue == name
        peer.send(declare_exchange(f"\n{name}")).expect("Exchange.DeclareOk")
        peer.send(declare_exchange(f"{name}\r\n", PASSIVE)).expect("Exchange.DeclareOk")
        peer.send(bind(50, 20, split, f"{name}\n")).expect("Queue.BindOk")
        peer.send(bind(40, 30, f"{name}\r", "amq.fanout\n")).expect("Exchange.BindOk")
        peer.send(bind(40, 40, f"{name}\r", "amq.fanout\n")).expect("Exchange.UnbindOk")
        peer.send(bind(50, 50, f"{name}\n", f"{name}\n", b"")).expect("Queue.UnbindOk")
        peer.send(raw_method(1, 40, 20, b"\0\0" + short(f"{name}\n") + b"\0"))
        peer.expect("Exchange.DeleteOk")
        peer.send(raw_method(1, 50, 40, b"\0\0" + short(split) + b"\0")).expect("Queue.DeleteOk")
        peer.send(declare_queue(name, PASSIVE))
        assert "404 NOT_FOUND - no queue" in peer.verdict()


def test_a_name_of_nothing_else_is_none(target: Target) -> None:
    with opened(target) as peer:
        answer = peer.send(declare_queue("\r\n", AUTO_DELETE)).expect("Queue.DeclareOk")
        assert isinstance(answer, commands.Queue.DeclareOk)
        assert answer.queue.startswith("amq.gen-")


@pytest.mark.parametrize(
    ("class_id", "method_id", "rest"),
    [(50, 30, b"\0"), (60, 70, b"\0"), (60, 20, b"\0\0" + NO_ARGUMENTS)],
    ids=["purge", "get", "consume"],
)
def test_elsewhere_they_are_a_part_of_the_name(
    target: Target, name: str, class_id: int, method_id: int, rest: bytes
) -> None:
    with opened(target) as peer:
        peer.send(declare_queue(name, AUTO_DELETE)).expect("Queue.DeclareOk")
        peer.send(raw_method(1, class_id, method_id, b"\0\0" + short(f"{name}\n") + rest))
        assert "404 NOT_FOUND - no queue" in peer.verdict()
